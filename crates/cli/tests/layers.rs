//! Large projects lie under the working folders of their runs. Everything is done twice where root does it: once as root
//! and once as nobody, since the kernel goes different ways.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use trainyard_testkit::{Output, Yard, eventually, processes};

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");

#[derive(Clone, Copy, PartialEq)]
enum Who {
    Me,
    Nobody,
}

/// A yard with a project of more than a thousand files.
struct Large {
    yard: Yard,
    who: Who,
}

impl Large {
    fn new(who: Who, file: &str) -> Self {
        let yard = Yard::new(PROGRAM, file);
        for n in 0..1_200 {
            yard.write(&format!("src/part{}/f{n}", n % 7), &format!("{n}\n"));
        }
        let large = Self { yard, who };
        large.hand_over();
        large
    }

    fn hand_over(&self) {
        if self.who == Who::Nobody {
            let done = Command::new("chown").args(["-R", "65534:65534"]).arg(self.yard.root()).status().unwrap();
            assert!(done.success());
        }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let command = self.yard.command(arguments);
        let mut lowered = match self.who {
            Who::Me => Command::new("env"),
            Who::Nobody => {
                let mut lowered = Command::new("setpriv");
                lowered.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
                lowered
            }
        };
        lowered.arg(command.get_program()).args(command.get_args());
        lowered.current_dir(command.get_current_dir().unwrap());
        lowered.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Output::of(&mut lowered)
    }

    fn show(&self, run: &str) -> serde_json::Value {
        serde_json::from_str(&self.run(&["--output", "json", "show", run]).stdout).unwrap()
    }

    fn run_folder(&self, run: &str) -> PathBuf {
        let work = PathBuf::from(self.show(run)["folder"].as_str().unwrap());
        work.parent().unwrap().to_owned()
    }
}

fn everybody(test: impl Fn(Who)) {
    test(Who::Me);
    if rustix::process::geteuid().is_root() {
        test(Who::Nobody);
    }
}

fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push(entry.path());
        if entry.file_type().unwrap().is_dir() {
            found.extend(below(&entry.path()));
        }
    }
    found
}

const CHANGES: &str = r#"
[jobs.change]
shell = '''
if [ $YARD_ATTEMPT = 1 ]; then
    echo more >> src/part1/f1 && rm src/part2/f2 && mv src/part3/f3 src/moved
    rm -r src/part6 && mkdir src/part6 && echo new > src/part6/new
    mkdir out && pwd > out/where && id -u > out/who
    exit 9
fi
cat src/part1/f1 src/moved src/part6/* src/part5/f5 > out/seen
! ls src/part2/f2 src/part3/f3 2>/dev/null
'''
outputs = ["out/", "src/"]
resume = { attempts = 2, on = ["failed"] }
"#;

#[test]
fn a_run_changes_only_its_own_files_and_finds_them_again() {
    everybody(|who| {
        let large = Large::new(who, CHANGES);
        let output = large.run(&["run", "change", "--seeds", "1-2"]);
        assert_eq!(output.exit, 0, "{output:?}\n{}", large.run(&["logs", "change-s1"]).stdout);
        assert_eq!(large.show("change-s1")["attempts"].as_array().unwrap().len(), 2);
        let folder = large.run_folder("change-s1");
        assert!(folder.join("layers.json").exists(), "no overlay on this machine");
        assert!(below(&folder).len() < 40, "only what the run has changed: {:?}", below(&folder));
        assert!(!folder.join("overlay").exists() && !folder.join("trial").exists());

        let to = large.yard.root().join("pulled");
        std::fs::create_dir(&to).unwrap();
        large.hand_over();
        let pulled = large.run(&["pull", "change-s1", "--to", to.to_str().unwrap()]);
        assert_eq!(pulled.exit, 0, "{pulled:?}");
        let out = below(&to).into_iter().find(|path| path.ends_with("out/seen")).unwrap();
        assert_eq!(std::fs::read_to_string(&out).unwrap(), "1\nmore\n3\nnew\n5\n");
        let top = out.parent().unwrap().parent().unwrap();
        assert_eq!(
            std::fs::read_to_string(top.join("out/where")).unwrap().trim(),
            folder.join("work").to_str().unwrap()
        );
        assert_eq!(std::fs::read_to_string(top.join("src/part1/f1")).unwrap(), "1\nmore\n");
        assert_eq!(std::fs::read_to_string(top.join("src/part1/f8")).unwrap(), "8\n", "from below");
        assert!(!top.join("src/part2/f2").exists() && !top.join("src/part3/f3").exists());
        assert_eq!(below(&top.join("src/part6")), [top.join("src/part6/new")]);
        let odd = |path: &PathBuf| path.symlink_metadata().unwrap().file_type().is_char_device();
        assert!(!below(&to).iter().any(odd), "marks are not results");

        assert_eq!(std::fs::read_to_string(large.yard.project().join("src/part1/f1")).unwrap(), "1\n");
        let cleaned = large.run(&["clean", "--yes", "change-s1", "change-s2"]);
        assert_eq!((cleaned.exit, folder.exists()), (0, false), "{cleaned:?}");
    });
}

#[test]
fn a_checkpoint_of_the_project_is_handed_on() {
    let file = r#"
[jobs.go-on]
command = ["cat"]
outputs = ["ckpt/"]
resume = { checkpoint = "ckpt/model_*", args = ["{checkpoint}"] }
"#;
    everybody(|who| {
        let large = Large::new(who, file);
        large.yard.write("ckpt/model_5", "five");
        large.hand_over();
        let output = large.run(&["run", "go-on"]);
        assert_eq!(output.exit, 0, "{output:?}");
        assert!(large.run_folder("go-on").join("layers.json").exists());
        assert!(large.run(&["logs", "go-on"]).stdout.contains("five"));
        assert_eq!(large.show("go-on")["attempts"][0]["resumed_from"], "ckpt/model_5");
    });
}

#[test]
fn a_job_that_hands_its_folder_on_gets_copies() {
    let large = Large::new(Who::Me, "[jobs.whole]\ncommand = [\"true\"]\ncopy = true\n");
    assert_eq!(large.run(&["run", "whole"]).exit, 0);
    let folder = large.run_folder("whole");
    assert!(!folder.join("layers.json").exists());
    assert_eq!(std::fs::read_to_string(folder.join("work/src/part1/f1")).unwrap(), "1\n");
}

#[test]
fn a_program_in_an_overlay_dies_with_its_agent() {
    everybody(|who| {
        let file = "[jobs.long]\nshell = 'sleep 1000 & sleep 1000'\nresume = { attempts = 1 }\n";
        let large = Large::new(who, file);
        assert_eq!(large.run(&["run", "long", "--detach"]).exit, 0);
        eventually("the program to run", || (large.show("long")["state"] == "running").then_some(()));
        let mark = format!("YARD_RUN={}", large.show("long")["id"].as_str().unwrap());
        eventually("both to sleep", || (processes::with_environment(&mark).len() >= 3).then_some(()));
        for agent in large.yard.agents() {
            processes::kill(agent);
        }
        eventually("all to end", || processes::with_environment(&mark).is_empty().then_some(()));
        eventually("the run to end", || (large.show("long")["state"] == "failed").then_some(()));
    });
}
