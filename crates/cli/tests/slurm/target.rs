//! `yard target`: to a new cluster in five minutes, and what it says when something is broken.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::{Login, Output, Yard, eventually};

use crate::site::Site;

fn steps(output: &Output) -> Vec<Value> {
    let told: Value = serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    told["steps"].as_array().cloned().unwrap_or_default()
}

fn named<'a>(steps: &'a [Value], name: &str) -> &'a Value {
    steps.iter().find(|step| step["name"] == name).unwrap_or_else(|| panic!("no {name} in {steps:?}"))
}

/// The last step, which failed.
fn failure(output: &Output) -> Value {
    let last = steps(output).pop().unwrap_or_default();
    assert_eq!(last["outcome"], "failed", "{output:?}");
    last
}

fn check(yard: &Yard, more: &[&str]) -> Output {
    yard.run(&[&["--output", "json", "target", "check", "euler"], more].concat())
}

/// What lies in a depot besides the agent.
fn left_in(depot: &Path) -> Vec<String> {
    let below = |name: &str| std::fs::read_dir(depot.join(name)).into_iter().flatten().flatten();
    let mut left: Vec<String> = ["runs", "parcels", "snapshots", "trees"]
        .iter()
        .flat_map(|name| below(name).map(move |it| format!("{name}/{}", it.file_name().to_string_lossy())))
        .collect();
    for folder in below("blobs") {
        let blobs = std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
        left.extend(blobs.map(|blob| blob.path().display().to_string()));
    }
    let top = std::fs::read_dir(depot).into_iter().flatten().flatten();
    left.extend(top.map(|it| it.file_name().to_string_lossy().into_owned()).filter(|name| name.starts_with("inspect")));
    left
}

#[test]
fn a_good_target_is_proved_up_to_a_node_and_nothing_stays() {
    let site = Site::new(Slurm::shared(), "", "");
    site.login.banner("Welcome to the cluster");
    let checked = check(&site, &[]);
    assert_eq!(checked.exit, 0, "{checked:?}\n{}", site.slurm.log());
    let steps = steps(&checked);
    for name in ["connection", "agent", "depot", "site", "settings", "test job", "node", "depot there", "scratch"] {
        assert_eq!(named(&steps, name)["outcome"], "passed", "{steps:?}");
    }
    assert_eq!(named(&steps, "login shell")["outcome"], "noted", "its chatter is noted");
    let node = named(&steps, "node")["detail"].as_str().map(str::to_owned).unwrap();
    assert!(site.slurm.node_names().iter().any(|name| node.starts_with(name)), "a compute node: {node}");
    assert!(named(&steps, "test job")["detail"].as_str().is_some_and(|it| it.contains("with 1 GPU")), "{steps:?}");
    assert_eq!(named(&steps, "gpus")["outcome"], "noted", "these GPUs have no driver");
    assert_eq!(left_in(&site.login.home().join("depot")), Vec::<String>::new());
    assert!(site.live_jobs().is_empty(), "{:?}", site.live_jobs());
    assert!(site.runs().is_empty(), "it is no run of the user's");
    assert_eq!(site.jobs_of("yard-check").len(), 1, "it went through SLURM");
    let listed = site.json(&["target", "ls"]);
    let targets = listed["targets"].as_array().unwrap();
    let euler = targets.iter().find(|it| it["name"] == "euler").unwrap();
    assert_eq!(euler["known"]["slurm"], site.slurm.version(), "{listed}");
    assert!(euler["heard"].is_string() && euler["problem"].is_null(), "{listed}");
    assert!(site.run(&["target", "ls"]).stdout.contains("a100"));
}

#[test]
fn an_unknown_partition_is_told_with_those_there_are() {
    let site = Site::new(Slurm::shared(), "", "partition = 'gpuu'\n");
    let checked = check(&site, &[]);
    assert_eq!(checked.exit, 5, "{checked:?}");
    let failed = failure(&checked);
    assert_eq!(failed["name"], "settings");
    assert!(failed["detail"].as_str().is_some_and(|why| why.contains("no partition `gpuu`")), "{failed}");
    assert!(site.jobs().is_empty(), "no job was sent");
}

#[test]
fn a_depot_that_cannot_be_written_to_is_told() {
    let site = Site::with_depot(Slurm::shared(), "", "", Some("/proc/depot".into()));
    let checked = check(&site, &[]);
    assert_eq!(checked.exit, 5, "{checked:?}");
    let failed = failure(&checked);
    assert_eq!(failed["name"], "agent", "the agent cannot be brought there: {failed}");
    assert!(failed["detail"].as_str().is_some_and(|why| why.contains("cannot be written to")), "{failed}");
}

#[test]
fn a_changed_host_key_is_told() {
    let site = Site::new(Slurm::shared(), "", "");
    site.login.change_host_key();
    let checked = check(&site, &[]);
    assert_eq!(checked.exit, 4, "{checked:?}");
    let failed = failure(&checked);
    assert_eq!(failed["name"], "connection");
    assert!(failed["detail"].as_str().is_some_and(|why| why.contains("has changed")), "{failed}");
    assert!(failed["hints"][0].as_str().is_some_and(|hint| hint.contains("ssh-keygen -R")), "{failed}");
}

#[test]
fn a_refused_key_is_told() {
    let site = Site::new(Slurm::shared(), "", "");
    site.login.refuse_key();
    let checked = check(&site, &[]);
    assert_eq!(checked.exit, 4, "{checked:?}");
    let failed = failure(&checked);
    assert!(failed["detail"].as_str().is_some_and(|why| why.contains("refused the key")), "{failed}");
    let text = site.run(&["target", "check", "euler"]);
    assert!(text.stdout.starts_with("✗ connection"), "{text:?}");
    assert!(text.stdout.contains("hint: "), "{text:?}");
}

#[test]
fn a_job_that_stays_pending_is_explained_and_cancelled() {
    let slurm = Slurm::start(Options { nodes: 1, ..Options::default() });
    let site = Site::new(&slurm, "", "");
    slurm.ask(&["scontrol", "update", "nodename=n1", "state=drain", "reason=test"]);
    let checked = check(&site, &["--wait", "3s"]);
    assert_eq!(checked.exit, 5, "{checked:?}");
    let failed = failure(&checked);
    assert_eq!(failed["name"], "test job");
    let why = failed["detail"].as_str().unwrap_or_default();
    assert!(why.contains("did not start within 3s") && why.contains("nodes it needs are"), "{failed}");
    eventually("the job to be gone", || site.live_jobs().is_empty().then_some(()));
    assert_eq!(left_in(&site.login.home().join("depot")), Vec::<String>::new());
    let skipped = check(&site, &["--no-job"]);
    assert_eq!(skipped.exit, 0, "{skipped:?}");
}

#[test]
fn a_depot_that_the_nodes_do_not_see_is_told() {
    let site = Site::new(Slurm::shared(), "", "setup = ['exec false']\n");
    let checked = check(&site, &[]);
    assert_eq!(checked.exit, 5, "{checked:?}");
    let why = failure(&checked)["detail"].as_str().map(str::to_owned).unwrap_or_default();
    assert!(why.contains("left no trace"), "{why}");
    assert_eq!(left_in(&site.login.home().join("depot")), Vec::<String>::new());
}

#[test]
fn a_missing_container_runtime_is_told() {
    let site = Site::new(Slurm::shared(), "", "container = 'apptainer'\n");
    if site.login.ssh(site.login.host(), "command -v apptainer").exit == 0 {
        return;
    }
    let checked = check(&site, &[]);
    assert_eq!((checked.exit, &failure(&checked)["name"]), (5, &"containers".into()), "{checked:?}");
    assert_eq!(left_in(&site.login.home().join("depot")), Vec::<String>::new());
}

#[test]
fn a_test_image_is_opened_on_a_node() {
    let site = Site::new(Slurm::shared(), "", &trainyard_testkit::apptainer::target());
    let checked = check(&site, &[]);
    assert_eq!(checked.exit, 0, "{checked:?}\n{}", site.slurm.log());
    let steps = steps(&checked);
    let image = named(&steps, "image");
    assert_eq!(image["outcome"], "passed", "{steps:?}");
    assert!(image["detail"].as_str().unwrap().starts_with("apptainer opens"), "{steps:?}");
    assert_eq!(left_in(&site.login.home().join("depot")), Vec::<String>::new());
}

#[test]
fn a_plain_machine_is_proved_through_its_own_queue() {
    let login = Login::start(None);
    let depot = login.home().join("depot");
    let file = format!("[targets.euler]\nkind = 'ssh'\nhost = '{}'\ndepot = '{}'\n", login.host(), depot.display());
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &file);
    yard.set("YARD_SSH", &login.ssh_command());
    let checked = check(&yard, &[]);
    assert_eq!(checked.exit, 0, "{checked:?}");
    assert_eq!(named(&steps(&checked), "test job")["outcome"], "passed");
    assert_eq!(left_in(&depot), Vec::<String>::new());
    let agent = std::fs::read_dir(depot.join("bin")).unwrap().flatten().next().unwrap().path();
    let ps = format!("YARD_HOME={} {} --output json ps -a", depot.join("host").display(), agent.display());
    let there = login.ssh(login.host(), &ps);
    let there: Value = serde_json::from_str(&there.stdout).unwrap_or_else(|error| panic!("{error}: {there:?}"));
    assert_eq!(there["runs"].as_array().map(Vec::len), Some(0), "{there}");
}

#[test]
fn this_machine_is_checked_too() {
    let yard = Yard::new(env!("CARGO_BIN_EXE_yard"), "");
    let checked = yard.run(&["target", "check", "local"]);
    assert_eq!(checked.exit, 0, "{checked:?}");
    assert!(checked.stdout.contains("✓ depot"), "{checked:?}");
    assert_eq!(yard.run(&["target", "check", "nowhere"]).exit, 3);
}

/// A yard that knows no cluster, and the way to one.
fn newcomer(slurm: &Slurm) -> (Yard, Login<'_>) {
    let login = Login::start(Some(slurm));
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), "");
    yard.set("YARD_SSH", &login.ssh_command());
    yard.set("YARD_PACE", "300");
    (yard, login)
}

#[test]
fn a_target_is_added_from_flags_and_what_the_site_tells() {
    let (yard, login) = newcomer(Slurm::shared());
    let settings = yard.home().join("config.toml");
    std::fs::create_dir_all(yard.home()).unwrap();
    std::fs::write(&settings, "# mine\n").unwrap();
    let added = yard.run(&["target", "add", "euler", "--host", login.host(), "--yes"]);
    assert_eq!(added.exit, 0, "{added:?}");
    assert!(added.stdout.contains("yard target check euler"), "{added:?}");
    let text = std::fs::read_to_string(&settings).unwrap();
    assert!(text.starts_with("# mine\n\n[targets.euler]\nkind = \"slurm\"\nhost = \"login\"\n"), "{text}");
    assert!(text.contains("gpu-request = \"--gres=gpu:{gpus}\""), "{text}");
    assert!(text.contains(&format!("depot = \"{}/yard\"", login.home().display())), "{text}");
    let checked = check(&yard, &[]);
    assert_eq!(checked.exit, 0, "what was written works: {checked:?}");

    let again = yard.run(&["target", "add", "euler", "--host", login.host(), "--yes"]);
    assert_eq!(again.exit, 3, "{again:?}");
    assert_eq!(std::fs::read_to_string(&settings).unwrap(), text, "untouched");
    let forced =
        yard.run(&["target", "add", "euler", "--host", login.host(), "--yes", "--force", "--depot", "~/other"]);
    assert_eq!(forced.exit, 0, "{forced:?}");
    let text = std::fs::read_to_string(&settings).unwrap();
    assert!(text.contains("~/other") && text.matches("[targets.euler]").count() == 1, "{text}");
}

#[test]
fn what_cannot_be_right_is_refused_before_it_is_written() {
    let (yard, login) = newcomer(Slurm::shared());
    let add = |more: &[&str]| yard.run(&[&["target", "add", "euler", "--yes", "--host", login.host()], more].concat());
    for (words, exit) in [
        (&["--account", "<your account>"][..], 2),
        (&["--depot", "/scratch/.../yard"], 2),
        (&["--partition", "gpuu"], 5),
        (&["--gpu-request", "--gres=gpu:{gpu}"], 3),
    ] {
        let refused = add(words);
        assert_eq!(refused.exit, exit, "{words:?}: {refused:?}");
    }
    let unknown = yard.run(&["target", "add", "euler", "--yes"]);
    assert_eq!(unknown.exit, 2, "nobody said which host: {unknown:?}");
    assert!(!yard.home().join("config.toml").exists());
}

#[test]
fn three_questions_are_answered_in_a_terminal() {
    let (yard, login) = newcomer(Slurm::shared());
    let program = env!("CARGO_BIN_EXE_yard");
    let line = format!("{program} target add euler");
    let mut script = Command::new("script");
    script.args(["-qec", &line, "/dev/null"]).current_dir(yard.project());
    script.env("YARD_HOME", yard.home()).env("YARD_SSH", login.ssh_command());
    let input = tempfile::NamedTempFile::new().unwrap();
    let depot = login.home().join("Mine");
    std::fs::write(input.path(), format!("{}\ngpu\n<folder>\n{}\n", login.host(), depot.display())).unwrap();
    script.stdin(std::fs::File::open(input.path()).unwrap());
    let told = Output::of(&mut script);
    assert_eq!(told.exit, 0, "{told:?}");
    for part in ["Host of `euler`", "Folder there", "stands for something", "free", "written to"] {
        assert!(told.stdout.contains(part), "{part}: {told:?}");
    }
    let text = std::fs::read_to_string(yard.home().join("config.toml")).unwrap();
    assert!(text.contains(&format!("depot = \"{}\"", depot.display())), "{text}");
    assert!(text.contains("partition = \"gpu\""), "{text}");
}

#[test]
fn a_plain_machine_is_added_as_one() {
    let login = Login::start(None);
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), "");
    yard.set("YARD_SSH", &login.ssh_command());
    // The programs of SLURM are there, and no SLURM.
    let unclear = yard.run(&["target", "add", "box", "--host", login.host(), "--yes"]);
    assert_eq!(unclear.exit, 5, "{unclear:?}");
    assert!(unclear.stderr.contains("does not answer") && unclear.stderr.contains("--kind ssh"), "{unclear:?}");
    assert!(!yard.home().join("config.toml").exists());
    let added = yard.run(&["target", "add", "box", "--host", login.host(), "--yes", "--kind", "ssh"]);
    assert_eq!(added.exit, 0, "{added:?}");
    let text = std::fs::read_to_string(yard.home().join("config.toml")).unwrap();
    assert!(text.contains("kind = \"ssh\"\nhost = \"login\"\ndepot = "), "{text}");
}

#[test]
fn what_ssh_says_to_a_terminal_is_understood_all_the_same() {
    let site = Site::new(Slurm::shared(), "", "");
    site.login.refuse_key();
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{} target check euler", env!("CARGO_BIN_EXE_yard")), "/dev/null"]);
    script.current_dir(site.project()).env("YARD_HOME", site.home()).env("YARD_SSH", site.login.ssh_command());
    let told = Output::of(script.stdin(Stdio::null()));
    assert_eq!(told.exit, 4, "{told:?}");
    assert!(told.stdout.contains("`login` refused the key") && told.stdout.contains("ssh-copy-id"), "{told:?}");
}

#[test]
fn a_check_that_is_interrupted_leaves_nothing() {
    let site = Site::new(Slurm::shared(), "", "directives = ['--hold']\n");
    let mut check = Command::new(env!("CARGO_BIN_EXE_yard"));
    check.args(["target", "check", "euler"]).current_dir(site.project()).process_group(0);
    check.env("YARD_HOME", site.home()).env("YARD_SSH", site.login.ssh_command());
    let mut child = check.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the test job to wait", || (!site.live_jobs().is_empty()).then_some(()));
    // As a terminal does it: everybody in the group is told, ssh too.
    let group = format!("-{}", child.id());
    assert!(Command::new("kill").args(["-INT", "--", &group]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(site.live_jobs().is_empty(), "{:?}", site.live_jobs());
    assert_eq!(left_in(&site.login.home().join("depot")), Vec::<String>::new());
}
