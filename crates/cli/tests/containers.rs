//! Runs in images by a real Podman and a real Docker daemon on this machine, and images that these have.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::fs::Permissions;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use trainyard_testkit::container_engine::ContainerEngine;
use trainyard_testkit::docker::{Docker, Kind};
use trainyard_testkit::podman::Podman;
use trainyard_testkit::{Yard, apptainer, eventually, ports, processes};

/// Each with an engine of its own.
macro_rules! by_all {
    ($($test:ident),*) => {
        mod podman {
            $(#[test] fn $test() { super::$test(&super::Podman::new()); })*
        }
        mod docker {
            $(#[test] fn $test() { super::$test(&super::Docker::new(super::Kind::Containerd)); })*
        }
        mod old_docker {
            $(#[test] fn $test() { super::$test(&super::Docker::new(super::Kind::Old)); })*
        }
    };
}

by_all!(
    a_program_gets_everything_and_leaves_its_results,
    signals_go_in_and_nothing_is_left_of_a_cancelled_run,
    what_ends_a_program_is_told,
    a_container_ends_with_the_agent_that_started_it,
    what_engines_do_not_run_is_refused
);

/// A project whose job runs in `lab.tar`, on a machine that has nothing but this engine.
fn yard(engine: &dyn ContainerEngine, job: &str) -> Yard {
    let file = format!("[image]\narchive = 'lab.tar'\n[jobs.train]\n{job}\n");
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &file);
    lab(&yard, "one");
    yard.write(".gitignore", "lab.tar\n");
    yard.set("PATH", engine.programs().to_str().unwrap());
    engine.variables().iter().for_each(|(name, value)| yard.set(name, value));
    yard
}

/// `lab.tar` with another content.
fn lab(yard: &Yard, version: &str) {
    apptainer::docker_archive(&yard.project().join("lab.tar"), "lab", |root| {
        std::fs::write(root.join("version"), format!("{version}\n")).unwrap();
    });
}

const HOSTILE: &[&str] =
    &["a b", "$HOME", "`id`", "{x: [1,2]}", "it's", "\"q\"", "*", "a,b", "-n", "--volume", "ü\n2", "", "\\"];

fn a_program_gets_everything_and_leaves_its_results(engine: &dyn ContainerEngine) {
    let mut yard = yard(
        engine,
        r#"command = ['sh', '-c', '''
cat /image /version; pwd; echo "code $(cat code.txt)"; echo "odd $ODD"; echo "path $PATH"; echo "lab $LAB"
echo scratch > /written || exit 9
mkdir -p out; for word in "$@"; do printf '<%s>' "$word"; done > out/words; echo "$KEY" > out/key
"$YARD" report step=1 reward=2.5; exit 37''', 'sh']
outputs = ['out']
metrics = 'report'
[jobs.train.env]
ODD = "a \"b\" $c `d`\ne"
PATH = "/own/bin:/bin"
KEY = { env = "MY_KEY" }
"#,
    );
    yard.set("MY_KEY", "s3cret");
    yard.write("code.txt", "42");
    let ran = yard.run(&[&["run", "train", "--"], HOSTILE].concat());
    assert_eq!(ran.exit, 1, "{ran:?}");
    let shown = yard.show("train");
    assert_eq!(shown["exit_code"], 37, "{shown:#}\n{ran:?}");
    let metrics = yard.json(&["show", "train", "--metrics"]);
    assert_eq!(metrics["metrics"][0]["last"]["value"], 2.5, "{metrics:#}");
    let work = shown["folder"].as_str().unwrap().to_owned();
    for line in ["lab\none", &work, "code 42", "odd a \"b\" $c `d`\ne", "path /own/bin:/bin", "lab lab"] {
        assert!(ran.stdout.contains(&format!("{line}\n")), "{line}: {ran:?}");
    }
    let words: String = HOSTILE.iter().map(|word| format!("<{word}>")).collect();
    assert_eq!(std::fs::read_to_string(format!("{work}/out/words")).unwrap(), words, "byte for byte");
    assert_eq!(std::fs::read_to_string(format!("{work}/out/key")).unwrap(), "s3cret\n");
    assert!(engine.containers().is_empty(), "a container goes when it ends");
    let images = engine.ask(&["images", "--format", "{{.Repository}}"]);
    assert_eq!(yard.run(&["run", "train"]).exit, 1);
    assert_eq!(engine.ask(&["images", "--format", "{{.Repository}}"]), images, "loaded once");
}

fn signals_go_in_and_nothing_is_left_of_a_cancelled_run(engine: &dyn ContainerEngine) {
    let yard = yard(
        engine,
        "command = ['sh', '-c', 'trap \"echo told; exit 3\" TERM; (setsid sleep 600) & echo up; while true; do sleep 0.2; done']\n\
         grace = '60s'\n",
    );
    assert_eq!(yard.run(&["run", "train", "--detach"]).exit, 0);
    eventually("the program", || yard.run(&["logs", "train"]).stdout.contains("up").then_some(()));
    let mark = format!("YARD_RUN={}", yard.show("train")["id"].as_str().unwrap());
    assert!(processes::with_environment(&mark).len() >= 2);
    assert_eq!(yard.run(&["cancel", "train"]).exit, 0);
    yard.wait_for("train", "cancelled");
    assert!(yard.run(&["logs", "train"]).stdout.contains("told"), "it had its grace");
    eventually("all processes to be gone", || processes::with_environment(&mark).is_empty().then_some(()));
    eventually("the container to be gone", || engine.containers().is_empty().then_some(()));
}

fn what_ends_a_program_is_told(engine: &dyn ContainerEngine) {
    let yard = yard(engine, "command = ['sh', '-c', 'kill -SEGV $$']\n");
    let ran = yard.run(&["run", "train"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    let shown = yard.show("train");
    assert!(shown["reason"].as_str().unwrap().contains("SIGSEGV"), "{shown:#}");
    yard.write("trainyard.toml", "[image]\narchive = 'lab.tar'\n[jobs.train]\ncommand = ['no-such-program']\n");
    let ran = yard.run(&["run", "train", "--name", "second"]);
    assert_eq!((ran.exit, &yard.show("second")["exit_code"]), (1, &127.into()), "{ran:?}");
    assert!(ran.stdout.contains("cannot start `no-such-program`"), "{ran:?}");
}

fn a_container_ends_with_the_agent_that_started_it(engine: &dyn ContainerEngine) {
    let yard = yard(engine, "command = ['sh', '-c', 'trap \"\" TERM; echo up; while true; do sleep 0.2; done']\n");
    assert_eq!(yard.run(&["run", "train", "--detach"]).exit, 0);
    eventually("the program", || yard.run(&["logs", "train"]).stdout.contains("up").then_some(()));
    let mark = format!("YARD_RUN={}", yard.show("train")["id"].as_str().unwrap());
    for pid in yard.yardmasters().into_iter().chain(yard.agents()) {
        kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
    }
    eventually("all processes to be gone, with nobody left to end them", || {
        processes::with_environment(&mark).is_empty().then_some(())
    });
    eventually("the container to be gone", || engine.containers().is_empty().then_some(()));
    let state = eventually("the run to end", || {
        let state = yard.show("train")["state"].as_str().unwrap().to_owned();
        (yard.run(&["ps"]).exit == 0 && state != "running").then_some(state)
    });
    assert_eq!(state, "failed", "{:#}", yard.show("train"));
}

fn what_engines_do_not_run_is_refused(engine: &dyn ContainerEngine) {
    let yard = yard(engine, "command = ['true']\n");
    yard.write("lab.sif", "x");
    for (image, why) in [("sif = 'lab.sif'", "neither `apptainer` nor `singularity`"), ("folder = '.'", "`folder`")] {
        yard.write("trainyard.toml", &format!("[image]\n{image}\n[jobs.train]\ncommand = ['true']\n"));
        let ran = yard.run(&["run", "train"]);
        assert_eq!(ran.exit, 5, "{image}: {ran:?}");
        assert!(ran.stderr.contains(why), "{image}: {ran:?}");
    }
    assert_eq!(yard.runs().len(), 0);
}

#[test]
fn a_sweep_makes_its_image_once_and_all_trials_run_in_it() {
    let podman = Podman::new();
    let yard = yard(
        &podman,
        "command = ['sh', '-c', 'cat /version; echo reward 1']\nmetrics = { stdout = 'reward (?<reward>\\S+)' }\n\
         [sweeps.tune]\njob = 'train'\nmetric = 'reward'\ngoal = 'maximize'\nsampler = 'random'\ntrials = 3\nparallel = 1\n\
         [sweeps.tune.space]\nx = { uniform = [0.0, 1.0] }\n",
    );
    let begun = yard.run(&["sweep", "tune", "--detach"]);
    assert_eq!(begun.exit, 0, "{begun:?}");
    lab(&yard, "two");
    let ended = eventually("three trials to end", || {
        let runs = yard.runs();
        (runs.len() >= 3 && runs.iter().all(|run| run["state"] == "succeeded")).then_some(runs)
    });
    for run in ended {
        assert!(yard.run(&["logs", run["name"].as_str().unwrap()]).stdout.starts_with("one\n"), "{run:#}");
    }
    let made = yard.json(&["image", "ls"]);
    assert_eq!(made["images"].as_array().unwrap().len(), 1, "{made:#}");
}

#[test]
fn what_a_docker_daemon_has_and_builds() {
    let digests = Kind::ALL.map(|kind| had_and_built(&Docker::new(kind)));
    assert!(digests.iter().all(|digest| *digest == digests[0]), "the same image from all of them: {digests:?}");
}

/// Tells what the image became.
fn had_and_built(docker: &Docker) -> String {
    let yard = yard(docker, "");
    let load = || docker.ask(&["load", "--quiet", "--input", yard.project().join("lab.tar").to_str().unwrap()]);
    load();
    yard.write("docker/version", "built\n");
    yard.write("docker/Dockerfile", "FROM lab\nENV LAB=other\nCOPY version /version\n");
    let job = "[jobs.train]\ncommand = ['sh', '-c', 'cat /version; echo $LAB']\n";
    let images = "[image]\ndocker = 'lab'\n[images.built]\ndockerfile = 'docker/Dockerfile'\ncontext = 'docker'\n\
                  [images.gone]\ndocker = 'gone:1'\n";
    yard.write("trainyard.toml", &format!("{images}{job}"));
    for (words, said) in [(&[][..], "one\nlab\n"), (&["--image", "built"], "built\nother\n")] {
        let ran = yard.run(&[&["run", "train"], words].concat());
        assert!(ran.exit == 0 && ran.stdout.contains(said), "{words:?}: {ran:?}");
    }
    // For Apptainer, too; and the same name is another image after this.
    let first = yard.json(&["image", "build"]);
    assert_eq!(yard.json(&["image", "build"])["was_made_before"], true);
    lab(&yard, "two");
    load();
    let second = yard.json(&["image", "build"]);
    assert_eq!((&first["was_made_before"], &second["was_made_before"]), (&false.into(), &false.into()));
    assert_ne!(first["digest"], second["digest"]);
    let ran = yard.run(&["run", "train"]);
    assert!(ran.exit == 0 && ran.stdout.contains("two\nlab\n"), "{ran:?}");
    let gone = yard.run(&["image", "build", "gone"]);
    assert!(gone.exit == 3 && gone.stderr.contains("has no image `gone:1`"), "{gone:?}");
    first["digest"].as_str().unwrap().to_owned()
}

#[test]
fn a_docker_context_is_the_same_docker_for_image_and_run() {
    let docker = Docker::new(Kind::Newest);
    let mut yard = yard(&docker, "command = ['cat', '/version']\n");
    docker.ask(&["load", "--quiet", "--input", yard.project().join("lab.tar").to_str().unwrap()]);
    yard.write("trainyard.toml", "[image]\ndocker = 'lab'\n[jobs.train]\ncommand = ['cat', '/version']\n");
    let settings = yard.root().join("docker");
    let [(_, host)] = &docker.variables()[..] else { panic!("one variable") };
    let context = |words: &[&str]| {
        let mut command = Command::new(docker.programs().join("docker"));
        let ran = command.arg("context").args(words).env("DOCKER_CONFIG", &settings).output().unwrap();
        assert!(ran.status.success(), "{ran:?}");
    };
    context(&["create", "lab", "--docker", &format!("host={host}")]);
    yard.set("DOCKER_HOST", "");
    yard.set("DOCKER_CONFIG", settings.to_str().unwrap());
    yard.set("DOCKER_CONTEXT", "lab");
    let ran = yard.run(&["run", "train"]);
    assert!(ran.exit == 0 && ran.stdout.contains("one\n"), "{ran:?}");
    yard.set("DOCKER_CONTEXT", "gone");
    let gone = yard.run(&["run", "train"]);
    assert!(gone.exit == 3 && gone.stderr.contains("no Docker context `gone`"), "{gone:?}");
    yard.set("DOCKER_CONTEXT", "");
    context(&["use", "lab"]);
    let ran = yard.run(&["run", "train"]);
    assert!(ran.exit == 0 && ran.stdout.contains("one\n"), "{ran:?}");
}

/// A registry on loopback that has `lab.tar`, ended with its value.
struct Registry {
    process: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Registry {
    fn start(yard: &Yard) -> Self {
        Self::guarded(yard, "", &[])
    }

    /// With more in its settings, and what skopeo needs then.
    fn guarded(yard: &Yard, more: &str, login: &[&str]) -> Self {
        let (folder, port) = (tempfile::tempdir().unwrap(), ports::free());
        let root = folder.path().display();
        let text = format!(
            "version: 0.1\nstorage:\n  filesystem:\n    rootdirectory: {root}/data\nhttp:\n  addr: 127.0.0.1:{port}\n  secret: x\n{more}"
        );
        std::fs::write(folder.path().join("config.yml"), text).unwrap();
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(folder.path().join("config.yml")).env("OTEL_TRACES_EXPORTER", "none");
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let registry = Self { process, port, _folder: folder };
        eventually("the registry", || TcpStream::connect(("127.0.0.1", port)).ok());
        let archive = format!("docker-archive:{}", yard.project().join("lab.tar").display());
        let mut copy = Command::new("skopeo");
        copy.args(["--insecure-policy", "copy", "--quiet", "--dest-tls-verify=false"]).args(login).arg(&archive);
        let copied = copy.arg(format!("docker://127.0.0.1:{port}/lab:1")).output().unwrap();
        assert!(copied.status.success(), "{}", String::from_utf8_lossy(&copied.stderr));
        registry
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
fn profiles_of_a_registry_and_of_a_dockerfile() {
    let podman = Podman::new();
    let yard = yard(&podman, "");
    let registry = Registry::start(&yard);
    let busybox = std::fs::read(apptainer::programs().join("busybox")).unwrap();
    std::fs::create_dir(yard.project().join("docker")).unwrap();
    std::fs::write(yard.project().join("docker/busybox"), busybox).unwrap();
    yard.write("docker/version", "built\n");
    yard.write(
        "docker/Dockerfile",
        "FROM scratch\nARG WORD\nENV WORD=$WORD\nCOPY busybox /bin/cat\nCOPY version /version\n",
    );
    let file = format!(
        "[images.base]\nregistry = '127.0.0.1:{}/lab:1'\n\
         [images.ros2]\ndockerfile = 'docker/Dockerfile'\ncontext = 'docker'\nbuild-args = {{ WORD = 'a b' }}\n\
         [jobs.train]\ncommand = ['/bin/cat', '/version']\nimage = 'base'\n",
        registry.port
    );
    yard.write("trainyard.toml", &file);
    std::fs::set_permissions(yard.project().join("docker/busybox"), Permissions::from_mode(0o755)).unwrap();
    let ran = yard.run(&["run", "train"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.stdout.contains("one\n"), "{ran:?}");
    let ran = yard.run(&["run", "train", "--image", "ros2"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.stdout.contains("built\n"), "{ran:?}");
    let ran = yard.run(&["run", "train", "--image", "none"]);
    assert_ne!(ran.exit, 0, "{ran:?}");
}

#[test]
fn a_dockerfile_is_built_by_buildah_where_there_is_nothing_else() {
    let podman = Podman::new();
    let mut yard = yard(&podman, "");
    yard.write("docker/version", "built\n");
    yard.write("docker/Dockerfile", "FROM scratch\nARG WORD\nLABEL word=$WORD\nCOPY version /version\n");
    yard.write(
        "trainyard.toml",
        "[image]\ndockerfile = 'docker/Dockerfile'\ncontext = 'docker'\nbuild-args = { WORD = 'a b' }\n",
    );
    yard.set("PATH", podman.buildah().to_str().unwrap());
    let made = yard.json(&["image", "build"]);
    assert_eq!(made["was_made_before"], false, "{made:#}");
    assert_eq!(yard.json(&["image", "build"])["was_made_before"], true);
    let mut inspect = Command::new(apptainer::programs().join("apptainer"));
    let labels = inspect.args(["inspect", "--labels", made["path"].as_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8_lossy(&labels.stdout).contains("word: a b"), "{labels:?}");
    yard.write("docker/Dockerfile", "FROM scratch\nCOPY missing /\n");
    let failed = yard.run(&["image", "build"]);
    assert!(failed.exit == 3 && failed.stderr.contains("`buildah` ended with"), "{failed:?}");
}

#[test]
fn a_credential_helper_is_asked_for_the_login_and_images_are_listed() {
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), "");
    lab(&yard, "one");
    let hash = Command::new("htpasswd").args(["-Bbn", "me", "open sesame"]).output().expect("htpasswd");
    let passwords = yard.root().join("htpasswd");
    std::fs::write(&passwords, hash.stdout).unwrap();
    let settings = format!("auth:\n  htpasswd:\n    realm: x\n    path: {}\n", passwords.display());
    let registry = Registry::guarded(&yard, &settings, &["--dest-creds", "me:open sesame"]);
    let host = format!("127.0.0.1:{}", registry.port);
    yard.write("trainyard.toml", &format!("[images.base]\nregistry = '{host}/lab:1'\n"));
    let folder = yard.root().join("helper");
    std::fs::create_dir(&folder).unwrap();
    let helper = folder.join("docker-credential-lab");
    let program = format!(
        "#!/bin/sh\nread host\nif [ \"$1 $host\" = 'get {host}' ]\nthen echo '{{\"Username\":\"me\",\"Secret\":\"open sesame\"}}'\n\
         else echo 'credentials not found in native keychain'; exit 1\nfi\n"
    );
    std::fs::write(&helper, program).unwrap();
    std::fs::set_permissions(&helper, Permissions::from_mode(0o755)).unwrap();
    yard.set("PATH", folder.to_str().unwrap());
    yard.set("DOCKER_CONFIG", folder.to_str().unwrap());
    let told = |config: &str| std::fs::write(folder.join("config.json"), config).unwrap();

    told("{}");
    let denied = yard.run(&["image", "build"]);
    assert!(denied.exit == 3 && denied.stderr.contains("docker login"), "{denied:?}");
    told(r#"{"credsStore": "missing"}"#);
    let missing = yard.run(&["image", "build"]);
    assert!(missing.exit == 3 && missing.stderr.contains("`docker-credential-missing`"), "{missing:?}");
    told(r#"{"credHelpers": {"elsewhere.example": "missing"}, "credsStore": "lab"}"#);
    let made = yard.run(&["image", "build"]);
    assert_eq!(made.exit, 0, "{made:?}");
    let listed = yard.run(&["image", "ls"]).stdout;
    let lines: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["IMAGE", "DIGEST", "SIZE", "MADE", "FROM", "OPEN", "RUNS"], "{listed}");
    assert!(
        lines[1][0] == "base"
            && (listed.contains(" now ") || listed.contains(" ago"))
            && listed.contains(&format!("{host}/lab:1")),
        "{listed}"
    );
    let listed = yard.json(&["image", "ls"]);
    let image = &listed["images"][0];
    let size = std::fs::metadata(image["path"].as_str().unwrap()).unwrap().len();
    assert_eq!(image["bytes"], size, "{listed:#}");

    yard.write("trainyard.toml", "[images.one]\narchive = 'lab.tar'\n[images.two]\ndocker = 'lab'\n");
    let which = yard.run(&["image", "build"]);
    assert!(which.exit == 2 && which.stderr.contains("name one of them: one, two"), "{which:?}");
    yard.set("DOCKER_HOST", "unix:///nowhere.sock");
    let silent = yard.run(&["image", "build", "two"]);
    assert!(silent.exit == 3 && silent.stderr.contains("nobody answers at unix:///nowhere.sock"), "{silent:?}");
}
