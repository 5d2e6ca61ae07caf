//! Groups at sites: a machine behind ssh keeps the order itself, SLURM gets one job after the other.

use trainyard_testkit::slurm::Slurm;
use trainyard_testkit::{Login, eventually, processes};

use crate::machine::laptop;
use crate::site::Site;

const STEPS: &str = "
[jobs.first]
command = ['sh', '-c', 'until [ -e \"$HOME/go\" ]; do sleep 0.05; done; echo first >> \"$HOME/order\"']
[jobs.second]
command = ['sh', '-c', 'echo second >> \"$HOME/order\"']
[jobs.third]
command = ['sh', '-c', 'echo third >> \"$HOME/order\"; exit 4']
[jobs.never]
command = ['sh', '-c', 'echo never >> \"$HOME/order\"']
[groups.steps]
jobs = ['first', 'second', 'third', 'never']
start = 'in-order'
[groups.pair]
jobs = ['first', 'second']
start = 'together'
";

#[test]
fn a_machine_keeps_the_order_with_the_laptop_off() {
    let login = Login::start(None);
    let yard = laptop(&login, STEPS, "cpus = 2\n");
    let sent = yard.run(&["run", "steps", "--on", "box", "--detach"]);
    assert_eq!(sent.exit, 0, "{sent:?}");
    yard.wait_for("first", "running");
    yard.yardmasters().into_iter().for_each(processes::kill);
    std::fs::write(login.home().join("go"), "").unwrap();
    let order = || std::fs::read_to_string(login.home().join("order")).unwrap_or_default();
    eventually("three of four, and nothing of yard here", || (order() == "first\nsecond\nthird\n").then_some(()));
    assert_eq!(yard.run(&["wait", "steps", "--timeout", "60s"]).exit, 1);
    assert_eq!(yard.show("second")["state"], "succeeded");
    assert_eq!(yard.show("third")["exit_code"], 4);
    let never = yard.show("never");
    assert_eq!(
        (&never["state"], &never["reason"]),
        (&"cancelled".into(), &"not begun: `third` failed".into()),
        "{never}"
    );
    assert_eq!(order(), "first\nsecond\nthird\n", "each once, and the last not at all");
}

#[test]
fn a_machine_starts_a_group_together_or_not_at_all() {
    let login = Login::start(None);
    std::fs::write(login.home().join("go"), "").unwrap();
    let yard = laptop(&login, STEPS, "cpus = 1\n");
    let refused = yard.run(&["run", "pair", "--on", "box"]);
    assert_eq!(refused.exit, 5, "{refused:?}");
    assert!(refused.stdout.contains("the 2 runs need 2 CPUs at once, this machine has 1"), "{refused:?}");
    assert!(!login.home().join("order").exists());
    let yard = laptop(&login, STEPS, "cpus = 2\n");
    let ran = yard.run(&["run", "pair", "--on", "box"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
}

#[test]
fn slurm_gets_one_after_the_other_and_refuses_together() {
    let site = Site::new(Slurm::shared(), STEPS, "");
    std::fs::write(site.login.home().join("go"), "").unwrap();
    let ran = site.run(&["run", "steps", "--on", "euler"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(std::fs::read_to_string(site.login.home().join("order")).unwrap(), "first\nsecond\nthird\n");
    assert_eq!(site.show("never")["state"], "cancelled");
    assert!(site.jobs_of("never").is_empty());
    let refused = site.run(&["run", "pair", "--on", "euler"]);
    assert_eq!(refused.exit, 5, "{refused:?}");
    assert!(refused.stderr.contains("SLURM gives each job its place by itself"), "{refused:?}");
    assert!(site.jobs_of("first").len() == 1, "nothing was sent");
}
