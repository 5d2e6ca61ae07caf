//! Metrics from real programs, by every way they have, and the commands that show them.
#![expect(clippy::unwrap_used, reason = "tests")]

use serde_json::Value;
use trainyard_testkit::{Yard, eventually};

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");

fn yard(job: &str) -> Yard {
    Yard::new(PROGRAM, &format!("[jobs.train]\n{job}"))
}

fn ran(job: &str) -> Yard {
    let yard = yard(job);
    let output = yard.run(&["run", "train"]);
    assert_eq!(output.exit, 0, "{output:?}");
    yard
}

/// Name, points, last step and last value of each metric.
fn metrics(yard: &Yard, run: &str) -> Vec<(String, u64, i64, Option<f64>)> {
    let shown = yard.json(&["show", run, "--metrics"]);
    let told = |one: &Value| {
        let name = one["name"].as_str().unwrap().to_owned();
        let (points, step) = (one["points"].as_u64().unwrap(), one["last"]["step"].as_i64().unwrap());
        (name, points, step, one["last"]["value"].as_f64())
    };
    shown["metrics"].as_array().unwrap().iter().map(told).collect()
}

fn steps(yard: &Yard, arguments: &[&str]) -> Vec<f64> {
    let plot = yard.json(&[&["plot"], arguments].concat());
    plot["lines"][0]["points"].as_array().unwrap().iter().map(|point| point["x"].as_f64().unwrap()).collect()
}

fn notes(yard: &Yard) -> String {
    yard.show("train")["attempts"][0]["notes"].to_string()
}

#[test]
fn a_program_reports_by_command_and_by_hand() {
    let yard = ran(r#"metrics = "report"
shell = '''
for i in 1 2 3; do "$YARD" report step=$i reward=$i.5 loss=nan || exit 9; done
echo '{"step": 4, "reward": 9, "other": NaN}' >> "$YARD_METRICS"
"$YARD" report step=x && exit 8
exit 0
'''"#);
    let expected = [("loss", 3, 3, None), ("other", 1, 4, None), ("reward", 4, 4, Some(9.0))];
    let expected: Vec<_> =
        expected.iter().map(|(name, points, at, value)| ((*name).to_owned(), *points, *at, *value)).collect();
    assert_eq!(metrics(&yard, "train"), expected);
    assert_eq!(yard.show("train")["metrics"]["reward"]["value"], 9.0);
    let outside = yard.run(&["report", "reward=1"]);
    assert_eq!(outside.exit, 2, "{outside:?}");
    assert!(outside.stderr.contains("YARD_METRICS is not set"), "{outside:?}");
}

#[test]
fn tables_are_read_with_the_habits_of_a_library() {
    let yard = ran(r##"metrics = "sb3"
shell = """
mkdir -p logs/run_1
printf '#{"t_start": 1.5}\nr,l,t\n' > logs/run_1/monitor.csv
for i in 1 2 3; do echo "$i.25,10,$i.5" >> logs/run_1/monitor.csv; done
printf 'time/total_timesteps,rollout/ep_rew_mean\n100,1.5\n200,2.5\n' > logs/run_1/progress.csv
"""
"##);
    let found = metrics(&yard, "train");
    assert!(found.contains(&("r".to_owned(), 3, 3, Some(3.25))), "{found:?}");
    assert!(found.contains(&("rollout/ep_rew_mean".to_owned(), 2, 200, Some(2.5))), "{found:?}");
    let plot = yard.json(&["plot", "train"]);
    assert_eq!(plot["metric"], "rollout/ep_rew_mean", "the library's headline: {plot}");
}

#[test]
fn a_job_whose_metrics_never_came_is_told_where_they_were_sought() {
    let yard = ran("command = ['true']\nmetrics.tensorboard = 'logs/'\nmetrics.csv = 'progress.csv'\n");
    let notes = notes(&yard);
    assert!(notes.contains("no event files in `logs/`") && notes.contains("in `progress.csv`"), "{notes}");
    let shown = yard.run(&["show", "train", "--metrics"]);
    assert_eq!(shown.exit, 2, "{shown:?}");
    assert!(shown.stderr.contains("train has no metrics"), "{shown:?}");
}

/// Each attempt writes three steps more than its checkpoint, and goes back one step after it was interrupted.
const RESUMED: &str = r#"
shell = '''
from=0; if [ -n "$YARD_CHECKPOINT" ]; then from=$(($(cat "$YARD_CHECKPOINT") - 1)); fi
mkdir -p logs
for i in 1 2 3; do echo "{\"step\": $((from + i)), \"reward\": $YARD_ATTEMPT}" >> logs/metrics.jsonl; done
echo $((from + 3)) > logs/tmp && mv logs/tmp logs/model_$((from + 3))
[ $YARD_ATTEMPT -ge 3 ] || exit 5
'''
outputs = ["logs/"]
metrics.jsonl = "logs/metrics.jsonl"
[jobs.train.resume]
attempts = 3
on = ["failed"]
checkpoint = "logs/model_*"
"#;

#[test]
fn a_resumed_run_has_one_curve() {
    let yard = ran(RESUMED);
    let plot = yard.json(&["plot", "train", "--metric", "reward"]);
    let points = plot["lines"][0]["points"].as_array().unwrap();
    let points: Vec<(f64, f64)> =
        points.iter().map(|point| (point["x"].as_f64().unwrap(), point["mean"].as_f64().unwrap())).collect();
    let expected = [(1.0, 1.0), (2.0, 1.0), (3.0, 2.0), (4.0, 2.0), (5.0, 3.0), (6.0, 3.0), (7.0, 3.0)];
    assert_eq!(points, expected, "what an attempt says anew counts");
}

#[test]
fn curves_grow_while_the_run_goes() {
    let yard = yard(
        "metrics = 'report'\nshell = '''\ni=0; while [ ! -e stop ]; do i=$((i + 1)); \"$YARD\" report step=$i a=$i; sleep 0.1; done'''",
    );
    assert_eq!(yard.run(&["run", "train", "--detach"]).exit, 0);
    yard.wait_for("train", "running");
    let first = eventually("a first point", || {
        let plot = yard.run(&["--output", "json", "plot", "train"]);
        (plot.exit == 0).then(|| steps(&yard, &["train"]).len())
    });
    eventually("more points", || (steps(&yard, &["train"]).len() > first).then_some(()));
    let folder = yard.show("train")["folder"].as_str().unwrap().to_owned();
    std::fs::write(format!("{folder}/stop"), "").unwrap();
    yard.wait_for("train", "succeeded");
}

const SEEDS: &str = r#"
command = ["sh", "-c", "for i in 1 2 3; do echo it $i reward $(($1 * i)) loss 0.$i; done", "sh", "{seed}"]
seeds = [1, 2, 3]
metrics.stdout = 'it (?<step>\d+) reward (?<reward>\S+) loss (?<loss>\S+)'
"#;

#[test]
fn seeds_are_drawn_as_their_mean_and_range() {
    let yard = ran(SEEDS);
    let plot = yard.json(&["plot", "train", "--metric", "reward"]);
    let lines = plot["lines"].as_array().unwrap();
    assert_eq!((lines.len(), lines[0]["runs"].as_array().unwrap().len()), (1, 3), "{plot}");
    let last = lines[0]["points"].as_array().unwrap().last().unwrap();
    assert_eq!((&last["mean"], &last["min"], &last["max"]), (&6.0.into(), &3.0.into(), &9.0.into()));
    let each = yard.json(&["plot", "train", "--metric", "reward", "--each"]);
    assert_eq!(each["lines"].as_array().unwrap().len(), 3);
    let text = yard.run(&["plot", "train-s1", "train-s2", "--metric", "reward"]);
    assert!(text.stdout.contains("● train-s1\n× train-s2\n"), "{text:?}");
    assert!(text.stdout.lines().all(|line| line.chars().count() <= 80), "{text:?}");
    assert!(!text.stdout.contains('\x1b'), "no colour where nobody looks");
    let svg = yard.run(&["plot", "train", "--metric", "loss", "--log", "--to", "loss.svg"]);
    assert_eq!(svg.exit, 0, "{svg:?}");
    assert!(std::fs::read_to_string(yard.project().join("loss.svg")).unwrap().starts_with("<svg"));
    let wrong = yard.run(&["plot", "train", "--to", "loss.png"]);
    assert_eq!(wrong.exit, 2, "{wrong:?}");
}

#[test]
fn an_unknown_metric_is_told_with_the_nearest() {
    let yard = ran(SEEDS);
    for command in [&["plot", "train"][..], &["export", "csv", "train"]] {
        let output = yard.run(&[command, &["--metric", "rewrad"]].concat());
        assert_eq!(output.exit, 2, "{output:?}");
        for part in ["no metric `rewrad` in 3 runs", "did you mean `reward`?", "there are `loss`, `reward`"] {
            assert!(output.stderr.contains(part), "{part}: {output:?}");
        }
    }
}

#[test]
fn points_leave_as_a_table() {
    let yard = ran(SEEDS);
    let output = yard.run(&["export", "csv", "train-s2", "--metric", "reward"]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert_eq!(lines[0], "run,seed,metric,step,time,value");
    assert_eq!(lines.len(), 4, "{output:?}");
    assert!(lines[3].starts_with("train-s2,2,reward,3,") && lines[3].ends_with(",6"), "{output:?}");
    let written = yard.run(&["export", "csv", "train", "--to", "all.csv"]);
    assert_eq!(written.exit, 0, "{written:?}");
    assert_eq!(std::fs::read_to_string(yard.project().join("all.csv")).unwrap().lines().count(), 1 + 3 * 2 * 3);
}

#[test]
fn points_leave_as_event_files_and_again_without_doubling() {
    let yard = ran(SEEDS);
    for _ in 0..2 {
        let output = yard.json(&["export", "tensorboard", "train", "boards"]);
        assert_eq!((output["points"].as_u64(), output["folders"].as_array().unwrap().len()), (Some(18), 3));
    }
    let mut files = Vec::new();
    for folder in std::fs::read_dir(yard.project().join("boards")).unwrap() {
        files.extend(std::fs::read_dir(folder.unwrap().path()).unwrap().map(|file| file.unwrap().path()));
    }
    assert_eq!(files.len(), 3, "{files:?}");
    let missing = yard.run(&["export", "tensorboard", "train"]);
    assert_eq!(missing.exit, 2, "{missing:?}");
}

/// What the agent holds does not grow with what a program writes.
#[test]
fn long_logs_are_followed_in_little_memory() {
    let yard = ran(r#"
shell = '''
line='{"step": 1, "reward": 2.5, "text": "'$(head -c 4000 /dev/zero | tr '\0' x)'"}'
for i in $(seq 10); do for j in 1 2 3 4 5 6 7 8 9 10; do echo "$line"; echo "$line"; done; done > block
for i in $(seq 100); do cat block; done > metrics.jsonl
for i in $(seq 100); do cat block; done
'''
metrics.jsonl = "metrics.jsonl"
metrics.stdout = '"step": (?<step>\d+), "reward": (?<again>\d+)'
"#);
    let found = metrics(&yard, "train");
    assert_eq!(found.iter().map(|one| one.0.as_str()).collect::<Vec<_>>(), ["again", "reward"], "{found:?}");
    let agents = yard.agents();
    assert!(!agents.is_empty());
    for agent in agents {
        let status = std::fs::read_to_string(format!("/proc/{agent}/status")).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        let kilobytes: u64 = peak.trim().trim_end_matches(" kB").parse().unwrap();
        assert!(kilobytes < 60_000, "an agent took {kilobytes} kB for 160 MB");
    }
}
