//! `yard run` against real programs: what goes in arrives, what comes out is told.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::prelude::*;
use serde_json::Value;
use trainyard_testkit::{Output, Yard, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");

fn yard(file: &str) -> Yard {
    Yard::new(PROGRAM, file)
}

/// A job that writes its arguments, each ended by a NUL, to `out/args`.
const ECHO: &str = r#"
[jobs.echo]
command = ["sh", "-c", "mkdir out; for a; do printf '%s\\0' \"$a\"; done > out/args", "sh"]
outputs = ["out/"]
"#;

fn arrived(yard: &Yard, run: &str) -> Vec<String> {
    let folder = yard.show(run)["folder"].as_str().unwrap().to_owned();
    let bytes = std::fs::read(format!("{folder}/out/args")).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let mut parts: Vec<String> = text.split('\0').map(str::to_owned).collect();
    parts.pop();
    parts
}

fn hostile() -> Vec<String> {
    let long = "x".repeat(100_000);
    [
        "k={name:default,x:1}",
        "units=[256, 128]",
        "it's",
        "\"q\"",
        "$HOME",
        "$(touch x)",
        "`id`",
        "a*b",
        "+env.x=1",
        "a\nb",
        "a\tb",
        "🤖",
        "",
        "--",
        "-n",
        "{seed}",
        "{{",
        "}}",
        "\\",
        "\\n",
        "a b",
        ";",
        "&&",
        "|",
        "#",
        "~",
        "!",
        "%s",
        "ü\u{301}",
        &long,
    ]
    .map(str::to_owned)
    .to_vec()
}

#[test]
fn hostile_arguments_arrive_from_the_command_line() {
    let yard = yard(ECHO);
    let arguments = hostile();
    let mut call = vec!["run", "echo", "--"];
    call.extend(arguments.iter().map(String::as_str));
    let output = yard.run(&call);
    assert_eq!(output.exit, 0, "{output:?}");
    assert_eq!(arrived(&yard, "echo"), arguments);
    assert!(!yard.project().join("x").exists());
}

#[test]
fn hostile_arguments_arrive_from_the_file() {
    let given: Vec<String> =
        hostile().into_iter().filter(|text| !["{seed}", "{{", "}}"].contains(&text.as_str())).collect();
    let list: Vec<String> = given.iter().map(|text| toml_string(text)).collect();
    let file = ECHO.replace("\"sh\"]", &format!("\"sh\", {}]", list.join(", ")));
    let yard = yard(&file);
    let output = yard.run(&["run", "echo"]);
    assert_eq!(output.exit, 0, "{output:?}");
    assert_eq!(arrived(&yard, "echo"), given);
}

fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            letter if u32::from(letter) < 32 || u32::from(letter) == 127 => {
                quoted.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            letter => quoted.push(letter),
        }
    }
    quoted.push('"');
    quoted
}

#[test]
fn any_arguments_arrive() {
    let yard = yard(ECHO);
    let config = ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(arguments in prop::collection::vec("[^\0]{0,40}", 0..8))| {
        let mut call = vec!["run", "echo", "--"];
        call.extend(arguments.iter().map(String::as_str));
        let output = yard.run(&call);
        prop_assert_eq!(output.exit, 0, "{:?}", output);
        prop_assert_eq!(arrived(&yard, "echo"), arguments);
    });
}

#[test]
fn exit_status_is_carried() {
    let yard = yard(
        r#"
        [jobs.zero]
        command = ["true"]
        [jobs.three]
        command = ["sh", "-c", "exit 3"]
        [jobs.oom]
        command = ["sh", "-c", "kill -9 $$"]
        [jobs.missing]
        command = ["no-such-program"]
        [jobs.folder]
        command = ["./sub"]
        [jobs.plain]
        command = ["./notes.txt"]
        [jobs.promised]
        command = ["true"]
        outputs = ["logs/"]
        "#,
    );
    yard.write("sub/x", "");
    yard.write("notes.txt", "hello");
    let expected = [
        ("zero", 0, "succeeded", 0, ""),
        ("three", 1, "failed", 3, "exit code 3"),
        ("oom", 1, "failed", 137, "killed by SIGKILL (often the kernel, when memory runs out)"),
        ("missing", 1, "failed", 127, "program not found: `no-such-program` is not in PATH"),
        ("folder", 1, "failed", 126, "`./sub` is a folder, not a program"),
        ("plain", 1, "failed", 126, "`./notes.txt` is not executable (try `chmod +x`)"),
        ("promised", 1, "failed", 0, "ended with 0 but left no logs/"),
    ];
    for (job, exit, state, code, reason) in expected {
        let output = yard.run(&["run", job]);
        assert_eq!(output.exit, exit, "{job}: {output:?}");
        let shown = yard.show(job);
        assert_eq!(shown["state"], state, "{job}: {shown}");
        assert_eq!(shown["exit_code"], code, "{job}: {shown}");
        assert_eq!(shown["reason"].as_str().unwrap_or(""), reason, "{job}");
    }
}

#[test]
fn stdout_and_stderr_keep_their_order_and_every_byte() {
    let yard = yard(
        r#"
        [jobs.talk]
        command = ["sh", "-c", "for i in $(seq 2000); do echo out$i; echo err$i >&2; done; printf '\\377\\000end'"]
        "#,
    );
    assert_eq!(yard.run(&["run", "talk", "--detach"]).exit, 0);
    assert_eq!(yard.run(&["wait", "talk"]).exit, 0);
    let output = yard.command(&["logs", "talk"]).output().unwrap().stdout;
    let mut expected: Vec<u8> = (1..=2000).flat_map(|i| format!("out{i}\nerr{i}\n").into_bytes()).collect();
    expected.extend(b"\xff\0end");
    assert!(output == expected, "{} bytes instead of {}", output.len(), expected.len());
}

#[test]
fn the_environment_is_told_and_secrets_stay_secret() {
    let yard = yard(
        r#"
        [jobs.env]
        command = ["sh", "-c", "env"]
        seeds = [7]
        time = "1h"
        outputs = ["."]
        [jobs.env.env]
        PLAIN = "s{seed}"
        TOKEN = { env = "MY_TOKEN" }
        FROM_FILE = { file = "key.txt" }
        FROM_COMMAND = { command = ["cat", "spoken.txt"] }
        "#,
    );
    yard.write("key.txt", "lock\n");
    yard.write("spoken.txt", "spoken\n");
    let refused = yard.run(&["run", "env"]);
    assert_eq!(refused.exit, 3, "{refused:?}");
    assert!(refused.stderr.contains("MY_TOKEN, which is not set"), "{}", refused.stderr);

    let output = yard.command(&["run", "env"]).env("MY_TOKEN", "hunter2-secret").env("OTHER", "x").output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let seen = String::from_utf8(output.stdout).unwrap();
    let shown = yard.show("env-s7");
    let has = |line: &str| seen.lines().any(|found| found == line);
    assert!(
        has("PLAIN=s7") && has("TOKEN=hunter2-secret") && has("FROM_COMMAND=spoken") && has("FROM_FILE=lock"),
        "{seen}"
    );
    assert!(has(&format!("YARD_RUN={}", shown["id"].as_str().unwrap())), "{seen}");
    assert!(
        has("YARD_ATTEMPT=1") && has("YARD_SEED=7") && has("YARD_GPUS=0") && has("CUDA_VISIBLE_DEVICES="),
        "{seen}"
    );
    assert!(seen.contains("YARD_DEADLINE=1") && seen.contains("YARD_OUTPUT=/") && has("YARD_CHECKPOINT="), "{seen}");
    assert!(!seen.contains("OTHER="), "only what is named is handed on");

    let mut found = Vec::new();
    grep(&yard.home(), b"hunter2-secret", &mut found);
    found.retain(|path| !path.ends_with("output.log"));
    assert!(found.is_empty(), "the secret lies in {found:?}");
}

fn grep(folder: &std::path::Path, needle: &[u8], found: &mut Vec<std::path::PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            grep(&entry.path(), needle, found);
        } else if kind.is_file()
            && std::fs::read(entry.path()).unwrap().windows(needle.len()).any(|part| part == needle)
        {
            found.push(entry.path());
        }
    }
}

#[test]
fn killing_a_run_kills_everything_it_started() {
    let yard = yard(
        r#"
        [jobs.family]
        command = ["sh", "-c", "setsid sh -c 'setsid sleep 987 & sleep 986' & (trap '' TERM; sleep 985) & sleep 984"]
        grace = "1s"
        "#,
    );
    yard.run(&["run", "family", "--detach"]);
    let id = yard.wait_for("family", "running")["id"].as_str().unwrap().to_owned();
    let mark = format!("YARD_RUN={id}");
    let running = || trainyard_testkit::processes::with_environment(&mark);
    eventually("the family to be complete", || (running().len() >= 6).then_some(()));
    assert_eq!(yard.run(&["cancel", "family"]).exit, 0);
    yard.wait_for("family", "cancelled");
    assert_eq!(running(), Vec::<i32>::new());
}

#[test]
fn a_cancel_while_a_secret_is_looked_up_is_not_forgotten() {
    let yard = yard(
        r#"
        [jobs.slow]
        command = ["sleep", "980"]
        [jobs.slow.env]
        KEY = { command = ["sh", "-c", "while [ ! -e GO ]; do sleep 0.02; done; echo k"] }
        "#,
    );
    let go = yard.root().join("go");
    let file = std::fs::read_to_string(yard.project().join("trainyard.toml")).unwrap();
    yard.write("trainyard.toml", &file.replace("GO", &go.display().to_string()));
    yard.run(&["run", "slow", "--detach"]);
    assert_eq!(yard.show("slow")["state"], "starting");
    yard.run(&["cancel", "slow"]);
    assert_eq!(yard.show("slow")["state"], "cancelling");
    std::fs::write(&go, "").unwrap();
    yard.wait_for("slow", "cancelled");
}

#[test]
fn a_program_starts_with_no_signal_blocked_or_ignored() {
    let yard = yard("[jobs.signals]\ncommand = [\"grep\", \"-E\", \"^Sig(Blk|Ign)\", \"/proc/self/status\"]");
    let output = yard.run(&["run", "signals"]);
    let mask = |line: &str| u64::from_str_radix(line.split_whitespace().last().unwrap(), 16).unwrap();
    // 1 to 31; the C library keeps 32 and 33 to itself.
    let masks: Vec<u64> =
        output.stdout.lines().filter(|line| line.starts_with("Sig")).map(|line| mask(line) & 0x7fff_ffff).collect();
    assert_eq!(masks, [0, 0], "{output:?}");
}

#[test]
fn leftovers_of_a_program_that_ended_are_ended_and_noted() {
    let yard = yard("[jobs.daemon]\ncommand = [\"sh\", \"-c\", \"setsid sleep 983 & exit 0\"]\ngrace = \"1s\"");
    assert_eq!(yard.run(&["run", "daemon"]).exit, 0);
    let shown = yard.show("daemon");
    assert_eq!(shown["state"], "succeeded");
    assert_eq!(shown["attempts"][0]["notes"][0], "processes left behind were ended: 1");
    let mark = format!("YARD_RUN={}", shown["id"].as_str().unwrap());
    assert_eq!(trainyard_testkit::processes::with_environment(&mark), Vec::<i32>::new());
}

fn states(yard: &Yard, state: &str) -> Vec<Value> {
    yard.runs().into_iter().filter(|run| run["state"] == state).collect()
}

#[test]
fn shares_of_a_gpu_are_exact() {
    let yard = yard(
        r#"
        [targets.local]
        kind = "local"
        gpus = 2
        cpus = 64
        [jobs.quarter]
        command = ["sleep", "982"]
        gpus = 0.25
        "#,
    );
    yard.run(&["run", "quarter", "--seeds", "1-12", "--detach"]);
    eventually("eight to run", || (states(&yard, "running").len() == 8).then_some(()));
    assert_eq!(states(&yard, "queued").len(), 4);
    let mut devices = std::collections::BTreeMap::new();
    for run in states(&yard, "running") {
        let shown = yard.show(run["id"].as_str().unwrap());
        *devices.entry(shown["attempts"][0]["devices"].to_string()).or_insert(0) += 1;
    }
    assert_eq!(devices.into_iter().collect::<Vec<_>>(), [("[\"0\"]".to_owned(), 4), ("[\"1\"]".to_owned(), 4)]);
    yard.run(&["cancel", "quarter-s1"]);
    yard.wait_for("quarter-s9", "running");
    assert_eq!(states(&yard, "running").len(), 8);
    assert_eq!(states(&yard, "queued").len(), 3);
}

#[test]
fn whole_gpus_never_overlap_and_a_fake_driver_is_believed() {
    let yard = yard(
        "[jobs.two]\ncommand = [\"sh\", \"-c\", \"echo $CUDA_VISIBLE_DEVICES; sleep 981\"]\ngpus = 2\n[targets.local]\nkind = \"local\"\ncpus = 8\n",
    );
    let tools = yard.root().join("tools");
    std::fs::create_dir(&tools).unwrap();
    let driver = tools.join("nvidia-smi");
    std::fs::write(&driver, "#!/bin/sh\nprintf '0\\n1\\n2\\n3\\n4\\n'\n").unwrap();
    std::process::Command::new("chmod").arg("+x").arg(&driver).status().unwrap();
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let output = yard.command(&["run", "two", "--seeds", "1-3", "--detach"]).env("PATH", path).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    eventually("two to run", || (states(&yard, "running").len() == 2).then_some(()));
    let seen: Vec<String> = ["two-s1", "two-s2"]
        .map(|run| eventually("the log", || Some(yard.run(&["logs", run]).stdout).filter(|text| !text.is_empty())))
        .into();
    assert_eq!(seen, ["0,1\n", "2,3\n"]);
    assert_eq!(states(&yard, "queued").len(), 1);
}

#[test]
fn a_depot_of_the_targets_own_is_found_from_anywhere() {
    let yard = yard("[jobs.t]\ncommand = [\"pwd\"]\n[targets.local]\nkind = \"local\"\ndepot = \"../elsewhere\"\n");
    let output = yard.run(&["run", "t"]);
    assert_eq!(output.exit, 0, "{output:?}");
    assert_eq!(std::fs::read_dir(yard.root().join("elsewhere/runs")).unwrap().count(), 1);
    let outside = Output::of(yard.command(&["logs", "t"]).current_dir("/"));
    assert!(outside.stdout.ends_with("/work\n"), "{outside:?}");
}

#[test]
fn what_can_never_fit_is_refused() {
    let yard = yard("[jobs.big]\ncommand = [\"true\"]\ngpus = 9\n[targets.local]\nkind = \"local\"\ngpus = 2\n");
    let output = yard.run(&["run", "big"]);
    assert_eq!(output.exit, 5, "{output:?}");
    assert!(output.stdout.contains("needs 9 GPU, this machine has 2"), "{output:?}");
    let output = yard.run(&["run", "big", "--detach"]);
    assert_eq!(output.exit, 5, "{output:?}");
}
