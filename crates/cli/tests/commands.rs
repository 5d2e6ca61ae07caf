//! What commands print: shapes that others build on, and messages that people read.
#![expect(clippy::unwrap_used, reason = "tests")]

use insta::assert_snapshot;
use serde_json::Value;
use trainyard_testkit::{Output, Yard, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");

const FILE: &str = r#"
[jobs.ok]
command = ["sh", "-c", "mkdir -p logs; echo '{\"step\":7,\"reward\":1.5}' > logs/m.jsonl; echo seed {seed}", "sh"]
outputs = ["logs/"]
seeds = [1, 2]
params = { lr = 0.5 }
[jobs.ok.metrics]
jsonl = "logs/m.jsonl"
[jobs.bad]
command = ["sh", "-c", "exit 3"]
[jobs.long]
command = ["sleep", "961"]
"#;

fn yard() -> Yard {
    Yard::new(PROGRAM, FILE)
}

/// Ids, times and folders differ from run to run.
fn redact(value: &Value) -> Value {
    match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (name.clone(), redact_field(name, value))).collect(),
        Value::Array(items) => items.iter().map(redact).collect(),
        other => other.clone(),
    }
}

fn redact_field(name: &str, value: &Value) -> Value {
    let hidden = ["id", "created", "started", "ended", "token", "folder", "peak_memory", "at", "to"];
    match value {
        Value::Null => Value::Null,
        value if hidden.contains(&name) => Value::from(format!("[{name}: {}]", kind(value))),
        value => redact(value),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(text) if uuid(text) => "uuid v7",
        Value::String(text) if text.len() == 24 && text.ends_with('Z') && text.contains('T') => "rfc 3339",
        Value::String(_) => "text",
        Value::Number(_) => "number",
        _ => "?",
    }
}

fn uuid(text: &str) -> bool {
    text.len() == 36 && text.as_bytes().get(14) == Some(&b'7')
}

fn shape(value: &Value) -> String {
    format!("{:#}", redact(value))
}

#[test]
fn run_detach_prints_its_documented_shape() {
    let yard = yard();
    let shown = yard.json(&["run", "long", "--detach"]);
    let state = shown["runs"][0]["state"].as_str().unwrap();
    assert!(["queued", "starting", "running"].contains(&state), "{shown}");
    let fields: Vec<&String> = shown["runs"][0].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["id", "name", "state"]);
    assert!(uuid(shown["runs"][0]["id"].as_str().unwrap()));
}

#[test]
fn ps_and_show_print_their_documented_shapes() {
    let yard = yard();
    yard.run(&["run", "ok", "--seeds", "2"]);
    yard.run(&["run", "bad"]);
    assert_snapshot!(shape(&yard.json(&["ps"])), @r#"
    {
      "runs": [
        {
          "attempt": 1,
          "created": "[created: rfc 3339]",
          "ended": "[ended: rfc 3339]",
          "exit_code": 0,
          "id": "[id: uuid v7]",
          "job": "ok",
          "metrics": {
            "reward": {
              "step": 7,
              "value": 1.5
            }
          },
          "name": "ok-s2",
          "note": null,
          "params": {
            "lr": 0.5
          },
          "reason": null,
          "retry_of": null,
          "seed": 2,
          "started": "[started: rfc 3339]",
          "state": "succeeded",
          "target": "local"
        },
        {
          "attempt": 1,
          "created": "[created: rfc 3339]",
          "ended": "[ended: rfc 3339]",
          "exit_code": 3,
          "id": "[id: uuid v7]",
          "job": "bad",
          "metrics": {},
          "name": "bad",
          "note": null,
          "params": {},
          "reason": "exit code 3",
          "retry_of": null,
          "seed": null,
          "started": "[started: rfc 3339]",
          "state": "failed",
          "target": "local"
        }
      ],
      "sites": []
    }
    "#);
    let mut shown = yard.show("ok-s2");
    // Whether a run this short is announced as started depends on the machine's mood.
    shown["events"].as_array_mut().unwrap().retain(|event| event["what"] != "attempt 1 started");
    assert_snapshot!(shape(&shown), @r#"
    {
      "attempt": 1,
      "attempts": [
        {
          "attempt": 1,
          "checkpoint": null,
          "devices": [],
          "ended": "[ended: rfc 3339]",
          "exit_code": 0,
          "notes": [],
          "outcome": "exit code 0",
          "peak_memory": "[peak_memory: number]",
          "resumed_from": null,
          "started": "[started: rfc 3339]",
          "token": "[token: text]"
        }
      ],
      "created": "[created: rfc 3339]",
      "ended": "[ended: rfc 3339]",
      "events": [
        {
          "at": "[at: rfc 3339]",
          "what": "attempt 1: exit code 0"
        }
      ],
      "exit_code": 0,
      "folder": "[folder: text]",
      "group": null,
      "id": "[id: uuid v7]",
      "job": "ok",
      "metrics": {
        "reward": {
          "step": 7,
          "value": 1.5
        }
      },
      "name": "ok-s2",
      "note": null,
      "params": {
        "lr": 0.5
      },
      "provenance": null,
      "reason": null,
      "retry_of": null,
      "seed": 2,
      "site": null,
      "started": "[started: rfc 3339]",
      "state": "succeeded",
      "target": "local"
    }
    "#);
}

#[test]
fn errors_are_one_clear_message_with_a_way_out() {
    let yard = yard();
    let said = |arguments: &[&str]| {
        let Output { exit, stdout, stderr } = yard.run(arguments);
        assert_eq!(stdout, "", "{arguments:?}");
        format!("exit {exit}\n{stderr}")
    };
    assert_snapshot!(said(&["run", "okk"]), @r#"
    exit 3
    error: no job `okk` in trainyard.toml
    hint: jobs: bad, long, ok
    "#);
    assert_snapshot!(said(&["run", "ok", "--on", "mars"]), @r#"
    exit 3
    error: no target `mars`
    hint: known: local
    "#);
    assert_snapshot!(said(&["run", "ok", "--seeds", "5-1"]), @r#"
    exit 2
    error: --seeds: the range `5-1` runs backwards, write `1-5`
    "#);
    assert_snapshot!(said(&["run", "ok", "--name", "../x"]), @r#"
    exit 2
    error: --name: `../x` is not a name: letters, digits, `-`, `_` and `.`, 64 at most
    "#);
    assert_snapshot!(said(&["--set", "jobs.ok.gpu=1", "run", "ok"]), @r#"
    exit 3
    error: --set jobs.ok.gpu: unknown key
    hint: did you mean `gpus`?
    "#);
    assert_snapshot!(said(&["--set", "jobs.ok.memory=12 bananas", "run", "ok"]), @r#"
    exit 3
    error: --set jobs.ok.memory: expected a size such as "32GB", found "12 bananas"
    "#);
    assert_snapshot!(said(&["--set", "targets.euler.kind=kubernetes", "run", "ok", "--on", "euler"]), @r#"
    exit 5
    error: target `euler` is of kind `kubernetes`, which this yard cannot run on yet
    hint: `--on local` runs it on this machine
    "#);
    assert_snapshot!(said(&["show", "nothing"]), @r#"
    exit 2
    error: no run `nothing`
    hint: `yard ps -a` lists all runs
    "#);
    assert_snapshot!(said(&["logs", "zzz"]), @r#"
    exit 2
    error: no run `zzz`
    hint: `yard ps -a` lists all runs
    "#);
    assert_snapshot!(said(&["-C", "nowhere", "ps"]), @r#"
    exit 2
    error: cannot go to `nowhere`: No such file or directory (os error 2)
    "#);
    assert_snapshot!(said(&["--output", "json", "run", "okk"]), @r#"
    exit 3
    {"error":{"causes":[],"class":"settings","exit_code":3,"hints":["jobs: bad, long, ok"],"message":"no job `okk` in trainyard.toml"}}
    "#);
}

#[test]
fn a_folder_without_a_project_says_how_to_make_one() {
    let yard = yard();
    std::fs::remove_file(yard.project().join("trainyard.toml")).unwrap();
    let output = yard.run(&["run", "ok"]);
    assert_eq!(output.exit, 3);
    assert!(
        output.stderr.contains("no trainyard.toml in") && output.stderr.contains("hint: `yard init` writes one"),
        "{output:?}"
    );
    assert_eq!(yard.run(&["init"]).exit, 0);
    let again = yard.run(&["init"]);
    assert!(again.exit == 3 && again.stderr.contains("is there already"), "{again:?}");
    assert_eq!(yard.run(&["run", "train", "--dry-run"]).exit, 0, "what init writes is valid");
}

#[test]
fn init_example_runs_as_it_is() {
    let yard = yard();
    assert_eq!(yard.run(&["init", "--example", "cartpole"]).exit, 0);
    let output = yard.run(&["-C", "cartpole", "run", "train", "--seeds", "1", "--", "--iterations", "60"]);
    assert_eq!(output.exit, 0, "{output:?}");
    let reward = yard.show("train-s1")["metrics"]["reward"]["value"].as_f64().unwrap();
    assert!(reward > 195.0, "it learned only {reward}");
}

#[test]
fn a_dry_run_touches_nothing() {
    let yard = yard();
    let output = yard.run(&["run", "ok", "--dry-run"]);
    assert_eq!(output.exit, 0, "{output:?}");
    assert!(output.stdout.contains("ok-s1  sh -c ") && output.stdout.contains("nothing was sent"), "{output:?}");
    assert!(!yard.home().exists());
    let plan = yard.json(&["run", "ok", "--dry-run"]);
    assert_eq!(plan["runs"][1]["argv"][4], "--lr=0.5");
    assert!(!yard.home().exists());
}

#[test]
fn runs_are_found_by_name_id_prefix_and_job() {
    let yard = yard();
    yard.run(&["run", "ok", "--name", "first"]);
    yard.run(&["run", "ok"]);
    let id = yard.show("ok-s1")["id"].as_str().unwrap().to_owned();
    assert_eq!(yard.show(&id)["name"], "ok-s1");
    assert_eq!(yard.show(&id.replace('-', "")[..20])["name"], "ok-s1");
    let all = yard.json(&["wait", "ok"]);
    let names: Vec<&str> = all["runs"].as_array().unwrap().iter().map(|run| run["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ok-s1", "ok-s2"], "a job means its newest submission");
    let named = yard.json(&["wait", "first"]);
    assert_eq!(named["runs"].as_array().unwrap().len(), 2);
    let several = yard.run(&["show", "ok"]);
    assert_eq!(several.exit, 2, "{several:?}");
    assert!(several.stderr.contains("`ok` means 2 runs") && several.stderr.contains("ok-s1, ok-s2"), "{several:?}");
    let ambiguous = yard.run(&["show", &id[..4]]);
    assert_eq!(ambiguous.exit, 2, "{ambiguous:?}");
    assert!(ambiguous.stderr.contains("could be any of"), "{ambiguous:?}");
    let short = yard.run(&["ps", "-l"]).stdout.lines().find(|line| line.contains(" ok-s1 ")).unwrap().to_owned();
    let short = short.split_whitespace().next().unwrap().to_owned();
    assert_eq!(yard.show(&short)["id"], id.as_str(), "what ps shows can be typed");
}

#[test]
fn logs_of_several_runs_carry_their_names() {
    let yard = yard();
    yard.run(&["run", "ok"]);
    assert_snapshot!(yard.run(&["logs", "ok"]).stdout, @r#"
    ok-s1 | seed 1
    ok-s2 | seed 2
    "#);
    assert_eq!(yard.run(&["logs", "ok-s1"]).stdout, "seed 1\n");
    assert_eq!(yard.run(&["logs", "ok-s1", "--since", "1h"]).stdout, "seed 1\n");
    assert_eq!(yard.run(&["logs", "-f", "ok-s1"]).stdout, "seed 1\n");
}

#[test]
fn logs_are_followed_to_the_end() {
    let yard =
        Yard::new(PROGRAM, "[jobs.slow]\ncommand = [\"sh\", \"-c\", \"for i in 1 2 3; do echo $i; sleep 0.2; done\"]");
    yard.run(&["run", "slow", "--detach"]);
    assert_eq!(yard.run(&["logs", "-f", "slow"]).stdout, "1\n2\n3\n");
}

#[test]
fn wait_tells_by_its_exit_code() {
    let yard = yard();
    yard.run(&["run", "bad", "--detach"]);
    assert_eq!(yard.run(&["wait", "bad"]).exit, 1);
    yard.run(&["run", "ok", "--detach"]);
    assert_eq!(yard.run(&["wait", "ok"]).exit, 0);
    yard.run(&["run", "long", "--detach"]);
    assert_eq!(yard.run(&["wait", "long", "--timeout", "100ms"]).exit, 6);
    yard.run(&["cancel", "--all"]);
    assert_eq!(yard.run(&["wait", "long"]).exit, 1);
    assert_eq!(yard.show("long")["state"], "cancelled");
}

#[test]
fn retry_makes_a_new_run_of_the_same_code() {
    let yard = Yard::new(PROGRAM, "[jobs.code]\ncommand = [\"cat\", \"code.txt\"]");
    yard.write("code.txt", "old\n");
    yard.run(&["run", "code"]);
    let first = yard.show("code");
    yard.write("code.txt", "new\n");
    assert_eq!(yard.run(&["retry", "code"]).exit, 0);
    let second = yard.show("code");
    assert_ne!(first["id"], second["id"]);
    assert_eq!(second["retry_of"], first["id"]);
    assert_eq!(yard.run(&["logs", "code"]).stdout, "old\n", "a retry runs what was submitted");
    yard.run(&["run", "code"]);
    assert_eq!(yard.run(&["logs", "code"]).stdout, "new\n");
}

#[test]
fn a_queued_run_keeps_the_code_it_was_submitted_with() {
    let yard = Yard::new(
        PROGRAM,
        "[jobs.code]\ncommand = [\"cat\", \"code.txt\"]\n[jobs.block]\ncommand = [\"sleep\", \"962\"]\n[targets.local]\nkind = \"local\"\ncpus = 1\n",
    );
    yard.write("code.txt", "submitted\n");
    yard.run(&["run", "block", "--detach"]);
    yard.wait_for("block", "running");
    yard.run(&["run", "code", "--detach"]);
    assert_eq!(yard.show("code")["state"], "queued");
    yard.write("code.txt", "edited\n");
    yard.run(&["cancel", "block"]);
    yard.wait_for("code", "succeeded");
    assert_eq!(yard.run(&["logs", "code"]).stdout, "submitted\n");
}

#[test]
fn ignored_and_excluded_files_are_not_shipped_and_odd_names_are() {
    let yard = Yard::new(
        PROGRAM,
        "[project]\nexclude = [\"*.mp4\"]\n[jobs.ls]\ncommand = [\"find\", \".\", \"-mindepth\", \"1\"]",
    );
    for name in ["a b/é.txt", ".hidden", "skip.log", "film.mp4", "yard-results/x", "deep/keep.txt", ".yardskip"] {
        yard.write(name, "x");
    }
    yard.write(".gitignore", "*.log\n");
    yard.write(".yardignore", ".yardskip\n");
    std::fs::create_dir(yard.project().join("empty")).unwrap();
    std::os::unix::fs::symlink("nowhere", yard.project().join("dangling")).unwrap();
    yard.run(&["run", "ls"]);
    let log = yard.run(&["logs", "ls"]).stdout;
    let mut found: Vec<&str> = log.lines().collect();
    found.sort_unstable();
    let expected = [
        "./.gitignore",
        "./.hidden",
        "./.yardignore",
        "./a b",
        "./a b/é.txt",
        "./dangling",
        "./deep",
        "./deep/keep.txt",
        "./empty",
        "./trainyard.toml",
    ];
    assert_eq!(found, expected);
}

#[test]
fn in_place_runs_in_the_project_itself() {
    let yard = Yard::new(PROGRAM, "[jobs.here]\ncommand = [\"sh\", \"-c\", \"pwd; touch made\"]\nin-place = true");
    let output = yard.run(&["run", "here"]);
    assert_eq!(output.exit, 0, "{output:?}");
    let project = yard.project().canonicalize().unwrap();
    assert_eq!(yard.run(&["logs", "here"]).stdout, format!("{}\n", project.display()));
    assert!(project.join("made").exists());
    let refused = yard.run(&["run", "here", "--seeds", "1-2"]);
    assert_eq!(refused.exit, 3, "{refused:?}");
}

#[test]
fn pull_brings_outputs_home_once() {
    let yard = yard();
    yard.run(&["run", "ok", "--seeds", "2"]);
    let first = yard.json(&["pull", "ok"]);
    let to = first["pulled"][0]["to"].as_str().unwrap().to_owned();
    assert_eq!((&first["pulled"][0]["files"], &first["pulled"][0]["unchanged"]), (&Value::from(1), &Value::from(0)));
    assert!(std::path::Path::new(&to).join("logs/m.jsonl").is_file());
    let second = yard.json(&["pull", "ok"]);
    assert_eq!((&second["pulled"][0]["files"], &second["pulled"][0]["unchanged"]), (&Value::from(0), &Value::from(1)));
}

#[test]
fn pull_goes_on_until_the_run_has_ended() {
    let yard = yard();
    let job = "\n[jobs.grow]\ncommand = ['sh', '-c', 'echo 1 > log; until [ -e \"$GO\" ]; do sleep 0.02; done; echo 2 >> log']\n\
               outputs = ['log']\nenv = { GO = '{GO}' }\n";
    let go = yard.root().join("go");
    let file = std::fs::read_to_string(yard.project().join("trainyard.toml")).unwrap();
    yard.write("trainyard.toml", &(file + &job.replace("{GO}", &go.display().to_string())));
    yard.run(&["run", "grow", "--detach"]);
    let to = yard.root().join("to");
    let mut pulling = yard.command(&["pull", "grow", "--watch", "--to", to.to_str().unwrap()]).spawn().unwrap();
    let pulled = || {
        let folder = std::fs::read_dir(&to).ok()?.next()?.ok()?.path();
        std::fs::read_to_string(folder.join("log")).ok()
    };
    eventually("the first line", || pulled().filter(|text| text == "1\n"));
    assert_eq!(yard.show("grow")["state"], "running");
    std::fs::write(go, "").unwrap();
    assert!(pulling.wait().unwrap().success());
    assert_eq!(pulled().unwrap(), "1\n2\n");
}

#[test]
fn clean_shows_its_plan_and_takes_only_what_has_ended() {
    let yard = yard();
    yard.run(&["run", "ok"]);
    yard.run(&["run", "long", "--detach"]);
    yard.wait_for("long", "running");
    let plan = yard.run(&["clean", "--older", "0s"]);
    assert!(
        plan.stdout.contains("would remove 2 runs: ok-s1, ok-s2") && plan.stdout.contains("`--yes` does it"),
        "{plan:?}"
    );
    assert_eq!(yard.runs().len(), 3, "a plan is only a plan");
    assert_eq!(yard.run(&["clean", "long"]).exit, 2, "an open run is not cleaned");
    yard.run(&["clean", "--older", "0s", "--yes"]);
    let left: Vec<String> = yard.runs().iter().map(|run| run["name"].as_str().unwrap().to_owned()).collect();
    assert_eq!(left, ["long"]);
    let folders = std::fs::read_dir(yard.home().join("depot/runs")).unwrap().count();
    assert_eq!(folders, 1);
}

#[test]
fn settings_say_where_they_come_from() {
    let yard = yard();
    std::fs::create_dir_all(yard.home()).unwrap();
    std::fs::write(yard.home().join("config.toml"), "[targets.local]\nkind = \"local\"\ngpus = 3\n").unwrap();
    let shown = yard.json(&["--set", "jobs.ok.cpus=2", "show-config"]);
    let from = |path: &str| {
        let entry = shown["settings"].as_array().unwrap().iter().find(|entry| entry["path"] == path).unwrap().clone();
        format!("{} from {}", entry["value"].as_str().unwrap(), entry["origin"])
    };
    assert!(from("targets.local.gpus").contains("config.toml"), "{}", from("targets.local.gpus"));
    assert!(
        from("jobs.ok.cpus").starts_with("2 from ")
            && from("jobs.ok.cpus").contains("--set") | from("jobs.ok.cpus").contains("flag"),
        "{}",
        from("jobs.ok.cpus")
    );
    assert!(from("jobs.bad.cpus").to_lowercase().contains("default"), "{}", from("jobs.bad.cpus"));
}

#[test]
fn everything_has_help_completions_and_a_manual() {
    let yard = yard();
    for shell in ["bash", "zsh", "fish"] {
        assert!(yard.run(&["completions", shell]).stdout.contains("yard"), "{shell}");
    }
    assert!(yard.run(&["man"]).stdout.contains(".TH"));
    assert!(yard.run(&["man", "run"]).stdout.contains("seeds"));
    assert!(yard.json(&["schema"])["properties"]["jobs"].is_object());
    assert_eq!(yard.run(&["--help"]).exit, 0);
    assert_eq!(yard.run(&["frobnicate"]).exit, 2);
}

#[test]
fn the_yardmaster_leaves_when_idle_and_is_never_two() {
    let yard = yard();
    let mut first = yard.command(&["yardmaster", "--idle", "300ms"]).spawn().unwrap();
    eventually("the yardmaster to be there", || (yard.yardmasters().len() == 1).then_some(()));
    let second = yard.run(&["yardmaster", "--idle", "300ms"]);
    assert_eq!(second.exit, 0, "{second:?}");
    eventually("the yardmaster to leave", || first.try_wait().unwrap().map(|status| assert!(status.success())));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let yard = yard();
    yard.run(&["run", "ok"]);
    let shell = format!("'{PROGRAM}' ps -a | true; '{PROGRAM}' schema | head -1; echo ${{PIPESTATUS[0]}}");
    let output = std::process::Command::new("bash")
        .args(["-c", &shell])
        .env("YARD_HOME", yard.home())
        .current_dir(yard.project())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\n0\n");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
