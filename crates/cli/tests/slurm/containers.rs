//! Runs in images, by a real Apptainer, as an unprivileged user. (Pyxis needs a node that enroot is installed on; what
//! `srun` would be told is tested in `core`.)

use std::path::PathBuf;

use trainyard_testkit::slurm::Slurm;
use trainyard_testkit::{apptainer, eventually, processes};

use crate::site::Site;

/// A site with an image; `{image}` in the job's text stands for its path.
fn site(job: &str, target: &str) -> (Site<'static>, PathBuf) {
    let mut site = Site::new(Slurm::shared(), "", "");
    let image = apptainer::image(&site.login, "lab");
    let keys = format!("{}{target}", apptainer::target());
    site.rewrite(&format!("[image]\nsif = '{}'\n[jobs.train]\n{job}\n", image.display()), &keys);
    (site, image)
}

const HOSTILE: &[&str] =
    &["a b", "$HOME", "`id`", "{x: [1,2]}", "it's", "\"q\"", "*", "a,b", "-n", "--bind", "ü\n2", "", "\\"];

#[test]
fn a_program_in_an_image_gets_everything_and_leaves_its_results() {
    let (site, _) = site(
        r#"command = ['sh', '-c', '''
cat /image; pwd; echo "code $(cat code.txt)"; echo "odd $ODD"; echo "path $PATH"; echo scratch > /written || exit 9
cat /data/shared; echo more > /data/no && exit 8
mkdir -p out; for word in "$@"; do printf '<%s>' "$word"; done > out/words
echo 1 >> /root/.cache/ov/uses; cat /root/.cache/ov/uses''', 'sh']
outputs = ['out']
[jobs.train.env]
ODD = "a \"b\" $c `d`\ne"
PATH = "/own/bin:/bin"
"#,
        "",
    );
    let shared = site.login.home().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("shared"), "from the site\n").unwrap();
    let mut site = site;
    site.add("binds = ['~/shared:/data:ro']\ncache = ['/root/.cache/ov']\n");
    site.write("code.txt", "42");
    let ran = site.run(&[&["run", "train", "--on", "euler", "--"], HOSTILE].concat());
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    let work = site.show("train")["folder"].as_str().unwrap().to_owned();
    for line in ["lab", &work, "code 42", "odd a \"b\" $c `d`\ne", "path /own/bin:/bin", "from the site"] {
        assert!(ran.stdout.contains(&format!("{line}\n")), "{line}: {ran:?}");
    }
    let words: String = HOSTILE.iter().map(|word| format!("<{word}>")).collect();
    assert_eq!(std::fs::read_to_string(format!("{work}/out/words")).unwrap(), words, "byte for byte");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert!(ran.stdout.contains("1\n1\n"), "the cache is kept: {ran:?}");
}

#[test]
fn the_status_comes_out_and_what_is_written_stays_with_the_run() {
    let (site, _) = site(
        "command = ['sh', '-c', 'if [ -e /kept ]; then exit 37; fi; echo x > /kept; exit 1']\n\
         [jobs.train.resume]\nattempts = 2\non = ['failed']\n",
        "writable = 'overlay'\n",
    );
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    let shown = site.show("train");
    assert_eq!(shown["exit_code"], 37, "{shown:#}");
}

#[test]
fn a_warning_goes_in_and_nothing_is_left_of_a_cancelled_run() {
    let (site, _) = site(
        "command = ['sh', '-c', 'trap \"echo warned\" USR2; setsid sleep 600 & echo up; while true; do sleep 0.2; done']\n\
         time = '4m'\ngrace = '2s'\n[jobs.train.resume]\nattempts = 1\nwarn = { signal = 'USR2', before = '212s' }\n",
        "",
    );
    assert_eq!(site.run(&["run", "train", "--on", "euler", "--detach"]).exit, 0);
    eventually("the warning", || site.run(&["logs", "train"]).stdout.contains("warned").then_some(()));
    let mark = format!("YARD_RUN={}", site.show("train")["id"].as_str().unwrap());
    assert!(processes::with_environment(&mark).len() >= 2);
    assert_eq!(site.run(&["cancel", "train"]).exit, 0);
    site.wait_for("train", "cancelled");
    eventually("all processes to be gone", || processes::with_environment(&mark).is_empty().then_some(()));
}

#[test]
fn two_nodes_in_an_image() {
    let (site, _) = site("command = ['sh', '-c', 'echo \"$(cat /image) $RANK of $WORLD_SIZE\"']\nnodes = 2", "");
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    assert!(ran.stdout.contains("lab 0 of 2") && ran.stdout.contains("lab 1 of 2"), "{ran:?}");
}

/// Nothing of the project was sent.
fn is_untouched(site: &Site<'_>) -> bool {
    let snapshots = site.login.home().join("depot/snapshots");
    std::fs::read_dir(snapshots).map_or(true, |mut found| found.next().is_none())
}

#[test]
fn what_cannot_run_is_refused_before_anything_is_sent() {
    let job = "[jobs.train]\ncommand = ['true']\n";
    for (image, target, why) in [
        ("sif = '/no/such.sif'", "container = 'apptainer'", "the image /no/such.sif is not there"),
        ("sif = '~/no.sif'", "container = 'apptainer'", "the image ~/no.sif is not there"),
        ("sif = 'lab.sif'", "container = 'apptainer'", "no path at the target"),
        ("sif = '/etc/passwd'", "", "no container runtime was found there"),
        ("sif = '/etc/passwd'", "container = 'none'", "container = \"none\""),
        ("archive = 'no.tar'", "container = 'none'", "container = \"none\""),
    ] {
        let site = Site::new(Slurm::shared(), &format!("[image]\n{image}\n{job}"), target);
        let ran = site.run(&["run", "train", "--on", "euler"]);
        assert_eq!(ran.exit, 5, "{image}, {target}: {ran:?}");
        assert!(ran.stderr.contains(why), "{why}: {ran:?}");
        assert!(is_untouched(&site), "{image}, {target}");
        assert_eq!(site.runs().len(), 0);
    }
}

#[test]
fn a_runtime_that_the_node_lacks_is_named() {
    let site = Site::new(
        Slurm::shared(),
        "[image]\nsif = '/etc/passwd'\n[jobs.train]\ncommand = ['true']\n",
        "container = 'singularity'",
    );
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    let shown = site.show("train");
    assert!(shown["reason"].as_str().unwrap().contains("`singularity` is not in PATH"), "{shown:#}");
}

#[test]
fn this_machine_says_what_it_lacks() {
    let file = "[image]\nsif = 'no.sif'\n[jobs.train]\ncommand = ['true']\n";
    let mut yard = trainyard_testkit::Yard::new(env!("CARGO_BIN_EXE_yard"), file);
    let ran = yard.run(&["run", "train"]);
    assert_eq!(ran.exit, 5, "{ran:?}");
    assert!(ran.stderr.contains("no.sif cannot be read"), "{ran:?}");
    yard.write("no.sif", "x");
    yard.set("PATH", "/nonexistent");
    let ran = yard.run(&["run", "train"]);
    assert_eq!(ran.exit, 5, "{ran:?}");
    assert!(ran.stderr.contains("neither `apptainer` nor `singularity`"), "{ran:?}");
}

#[test]
fn metrics_come_out_of_an_image_and_from_several_nodes() {
    let (site, _) = site(
        "shell = '\"$YARD\" report step=$ATTEMPT reward=$RANK.5 rank$RANK=1; echo \"{\\\"step\\\": 7, \\\"hand\\\": 1}\" >> \"$YARD_METRICS\"'\n\
         metrics = 'report'\nnodes = 2\nenv.ATTEMPT = '3'\n",
        "",
    );
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    let shown = site.json(&["show", "train", "--metrics"]);
    let told = |one: &serde_json::Value| {
        let name = one["name"].as_str().unwrap().to_owned();
        (name, one["last"]["step"].as_i64(), one["last"]["value"].as_f64())
    };
    let found: Vec<_> = shown["metrics"].as_array().unwrap().iter().map(told).collect();
    let expected = [("hand", 7, 1.0), ("rank0", 3, 1.0), ("rank1", 3, 1.0), ("reward", 3, 0.5)];
    let expected: Vec<_> =
        expected.iter().map(|(name, step, value)| ((*name).to_owned(), Some(*step), Some(*value))).collect();
    assert_eq!(found, expected, "rank 0 counts where both speak");
}
