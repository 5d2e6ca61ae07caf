//! Heads and connections that go away: what is known is shown, nothing is made up, and nothing is executed twice.

use std::time::Duration;

use trainyard_testkit::processes::with_environment;
use trainyard_testkit::ray::Ray;
use trainyard_testkit::{Yard, within};

use crate::clusters;

const PATIENCE: Duration = Duration::from_secs(300);

const JOBS: &str = r#"
[project]
name = "p"
[jobs.long]
command = ["sh", "-c", "echo $YARD_ATTEMPT >> executed; sleep 4011"]
grace = "1s"
[jobs.again]
command = ["sh", "-c", "echo $YARD_ATTEMPT >> executed; [ $YARD_ATTEMPT = 2 ] || sleep 4012"]
grace = "1s"
outputs = ["executed"]
[jobs.again.resume]
attempts = 3
on = ["node-failure"]
"#;

fn yard(ray: &Ray) -> Yard {
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &format!("{JOBS}\n{}", ray.target("r")));
    yard.set("YARD_PACE", "300");
    yard
}

fn until(yard: &Yard, run: &str, state: &str) -> serde_json::Value {
    within(PATIENCE, &format!("{run} to be {state}"), || Some(yard.show(run)).filter(|shown| shown["state"] == state))
}

#[test]
fn a_head_that_is_killed_leaves_doubt_and_then_certainty() {
    let mut ray = clusters::newest();
    let yard = yard(&ray);
    for job in ["long", "again"] {
        assert_eq!(yard.run(&["run", job, "--on", "r", "--detach"]).exit, 0);
        until(&yard, job, "running");
    }
    let id = yard.show("again")["id"].as_str().unwrap().to_owned();
    ray.kill_head();
    let away = within(PATIENCE, "the silence to be noticed", || {
        Some(yard.show("long")).filter(|shown| !shown["site"]["problem"].is_null())
    });
    // The state is as it was, and it is said since when nothing was heard.
    assert_eq!(away["state"], "running", "{away}");
    let listed = yard.run(&["ps"]);
    assert!(listed.stderr.contains("r has not answered since"), "{listed:?}");

    // Nothing was sent again before it was known what became of it; what may not be resumed is lost.
    ray.resume();
    let lost = within(PATIENCE, "the end of a run without a head", || {
        Some(yard.show("long")).filter(|shown| shown["state"] == "failed")
    });
    assert_eq!(lost["attempts"].as_array().unwrap().len(), 1, "{lost}");
    // What may is resumed, once the first attempt is known to be gone, and ends well.
    let ended = until(&yard, "again", "succeeded");
    assert_eq!(ended["attempts"].as_array().unwrap().len(), 2, "{ended}");
    assert_eq!(with_environment(&format!("YARD_RUN={id}")), Vec::<i32>::new());
    let jobs = ray.client().jobs().unwrap();
    assert_eq!(jobs.iter().filter(|job| job.id.starts_with("long.")).count(), 0, "{jobs:?}");
    assert_eq!(jobs.iter().filter(|job| job.id.starts_with("again.")).count(), 1, "{jobs:?}");
}

#[test]
fn an_upload_that_is_cut_goes_on_where_it_ended() {
    let ray = clusters::of_isaac_lab();
    let yard = yard(&ray);
    yard.write(
        "trainyard.toml",
        &format!(
            "[project]\nname = 'p'\nallow-large = ['*.bin']\n[jobs.a]\ncommand = ['sh', '-c', 'cat *.bin | wc -c']\n{}",
            ray.target("r")
        ),
    );
    // The agent first, which is there from then on.
    let first = yard.run(&["run", "a", "--on", "r"]);
    assert_eq!(first.exit, 0, "{first:?}");
    let mut noise = vec![0_u8; 6 << 20];
    for number in 0..10_u8 {
        let mut seed = u64::from(number) + 88_172_645_463_325_252;
        for byte in &mut noise {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            *byte = seed.to_le_bytes()[3];
        }
        std::fs::write(yard.project().join(format!("{number}.bin")), &noise).unwrap();
    }
    let size = 10 * (6_u64 << 20);
    let cuts = ray.cuts();
    ray.close_after(size / 2);
    let cut = yard.run(&["run", "a", "--on", "r", "--detach"]);
    assert_eq!(cut.exit, 4, "{cut:?}");
    assert_eq!(ray.cuts() - cuts, 1);
    assert_eq!(yard.runs().len(), 1, "nothing was submitted");
    ray.be_away(false);
    let before = ray.bytes();
    let ran = yard.run(&["run", "a", "--on", "r"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert_eq!(yard.run(&["logs", "a"]).stdout.trim(), size.to_string(), "{ran:?}");
    let sent = ray.bytes() - before;
    assert!(sent < size * 9 / 10, "{sent} bytes went again of {size}");
}
