//! What a sweep can say, and what is wrong with what it says.

use insta::assert_snapshot;

use super::{config, flat, problems};
use crate::spec::{CurveValue, Repeats, SchedulerKind, StopMode, StopSpec};

const JOB: &str = "[jobs.a]
shell = 'x'
gpus = 1
outputs = ['logs']
metrics = { jsonl = 'm' }
resume = { checkpoint = 'logs/*.pt', args = ['--resume'] }
[jobs.plain]
shell = 'x'
metrics = { jsonl = 'm' }
[sweeps.s]
metric = 'm'
goal = 'maximize'
";

/// The problems of a sweep with these lines, over the job that writes checkpoints.
fn sweep(lines: &str) -> String {
    problems(&format!("{JOB}job = 'a'\n{lines}"))
}

fn small(lines: &str) -> String {
    sweep(&format!("trials = 1\nspace.x.int = [0, 9]\nspace.y.uniform = [0, 1]\n{lines}"))
}

#[test]
fn what_is_not_written_has_defaults() {
    let config = config(&format!("{JOB}job = 'a'\ntrials = 9\nstop.scheduler = 'asha'\nspace.x.int = [0, 1]"));
    let sweep = &config.sweeps["s"];
    assert_eq!((sweep.repeats, sweep.value), (Repeats::Adaptive, CurveValue::Tail));
    assert_eq!((sweep.retries, sweep.give_up), (2, 10));
    assert_eq!(sweep.stop, Some(StopSpec::of(SchedulerKind::Asha)));
    assert!(sweep.budget.is_unlimited() && sweep.points.is_empty());
}

#[test]
fn everything_is_read() {
    let config = config(&format!(
        "{JOB}job = 'a'
budget = {{ gpu-hours = 2.5, time = '24h' }}
repeats = 5
aggregate = 'iqm'
value = 'best'
stop = {{ scheduler = 'pbt', first = 10, every = 5, quantile = 0.3, threshold = 0, mutate = {{ rate = 0.5 }} }}
constraints = ['x + n <= 9']
points = [{{ x = 1.5, n = 2 }}, {{ n = 3 }}, {{}}]
from = ['before', 'old.csv']
retries = 0
give-up = 3
[sweeps.s.space]
x = {{ uniform = [0, 8] }}
n = {{ int = [1, 4] }}
b = {{ fixed = 'k' }}"
    ));
    assert_eq!(config.sweeps["s"].stop.map(|stop| (stop.mode, stop.last)), Some((StopMode::Stop, None)));
    assert_snapshot!(flat(&config.sweeps["s"]), @r#"
    /aggregate "iqm"
    /budget/gpu_hours 2.5
    /budget/time 86400000
    /constraints ["x + n <= 9"]
    /from ["before","old.csv"]
    /give_up 3
    /goal "maximize"
    /job "a"
    /metric "m"
    /name "s"
    /parallel 1
    /points [{"n":2,"x":1.5},{"n":3},{}]
    /repeats/each 5
    /retries 0
    /sampler "auto"
    /seed 0
    /space/b/domain/fixed "k"
    /space/n/domain/int/high 4
    /space/n/domain/int/low 1
    /space/x/domain/uniform/high 8.0
    /space/x/domain/uniform/low 0.0
    /stop/every 5
    /stop/factor 3
    /stop/first 10
    /stop/mode "stop"
    /stop/mutate/range [1.1,2.0]
    /stop/mutate/rate 0.5
    /stop/quantile 0.3
    /stop/scheduler "pbt"
    /stop/threshold 0.0
    /value "best"
    "#);
}

#[test]
fn expressions_are_read_with_the_file() {
    assert_snapshot!(
        sweep(
            "trials = 1
constraints = ['x <', 'x < 3', 'y < lrr', 'y < z']
[sweeps.s.space]
x = { int = [0, 9], when = 'y >' }
y = { derived = '1 + + 2 )' }
z = { derived = 'z + 1' }
lr = { uniform = [0, 1], when = 'w > 1' }"
        ),
        @r"
    trainyard.toml:15:16: sweeps.s.constraints[0]: cannot read `x <`: unexpected end at column 4
    trainyard.toml:15:32: sweeps.s.constraints[2]: no parameter of the space is called `lrr`
      hint: did you mean `lr`?
    trainyard.toml:17:28: sweeps.s.space.x.when: cannot read `y >`: unexpected end at column 4
    trainyard.toml:18:17: sweeps.s.space.y.derived: cannot read `1 + + 2 )`: unexpected `+` at column 5
    trainyard.toml:19:17: sweeps.s.space.z.derived: depends on itself
    trainyard.toml:20:33: sweeps.s.space.lr.when: no parameter of the space is called `w`
    "
    );
    assert_snapshot!(
        sweep("trials = 1\n[sweeps.s.space]\na = { int = [0, 1], when = 'b == 1' }\nb = { derived = 'a + 1' }"),
        @"trainyard.toml:16:28: sweeps.s.space.a.when: `a` depends on itself"
    );
    assert_snapshot!(
        sweep("trials = 1\n[sweeps.s.space]\no = { choice = ['adam', 'sgd'] }\nb = { derived = 'o * 2' }"),
        @"trainyard.toml:17:17: sweeps.s.space.b.derived: cannot evaluate `o * 2`: expected a number, got a text at column 3"
    );
}

#[test]
fn constraints_leave_something() {
    assert_snapshot!(small("constraints = ['x > 100']"), @r"
    trainyard.toml:17:15: sweeps.s.constraints: none of 4000 configurations of the space keeps them
      hint: narrow the ranges, or derive one parameter from the others
    ");
    assert_eq!(small("constraints = ['x == 9', 'y < 0.05']"), "no problem");
}

#[test]
fn points_lie_in_the_space() {
    assert_snapshot!(
        small(
            "space.d.derived = 'x + 1'
space.k = { boolean = true, when = 'x > 5' }
constraints = ['x + y < 9']
points = [{ X = 1 }, { x = 10 }, { x = 0.5 }, { d = 1 }, { x = 9, y = 0.5, k = true }, { x = 1, y = 0.5, k = true }, \
             { x = 1, y = 0.5 }, { y = 1 }]"
        ),
        @r"
    trainyard.toml:20:11: sweeps.s.points[0]: no parameter of the space is called `X`
    trainyard.toml:20:22: sweeps.s.points[1]: `x` is none of the values it may take
    trainyard.toml:20:34: sweeps.s.points[2]: `x` is none of the values it may take
    trainyard.toml:20:47: sweeps.s.points[3]: `d` is not searched but follows from the others
    trainyard.toml:20:58: sweeps.s.points[4]: the constraint `x + y < 9` does not hold
    trainyard.toml:20:88: sweeps.s.points[5]: `k` is given but not searched here
    "
    );
    assert_snapshot!(small("points = [1]\nconstraints = 'x > 1'"), @r#"
    trainyard.toml:17:11: sweeps.s.points[0]: expected a table, found 1
    trainyard.toml:18:15: sweeps.s.constraints: expected a list, found "x > 1"
      hint: write `["x > 1"]`
    "#);
}

#[test]
fn schedulers_have_what_they_need() {
    let stop = |stop: &str| small(&format!("stop = {stop}"));
    assert_snapshot!(stop("{ scheduler = 'hyperband' }"), @r"
    trainyard.toml:17:22: sweeps.s.stop.scheduler: `hyperband` needs to know how long a training is
      hint: add `last = N`: the training step at which a training is complete
    ");
    assert_snapshot!(stop("{ scheduler = 'asha', first = 9, last = 9 }"), @"trainyard.toml:17:48: sweeps.s.stop.last: must lie above `first`, which is 9, found 9");
    assert_snapshot!(
        stop("{ scheduler = 'asha', every = 2, quantile = 0.1, mutate = {}, threshold = 1 }"),
        @r"
    trainyard.toml:17:38: sweeps.s.stop.every: means something with `median`, `pbt` only
    trainyard.toml:17:52: sweeps.s.stop.quantile: means something with `pbt` only
    trainyard.toml:17:66: sweeps.s.stop.mutate: means something with `pbt` only
    trainyard.toml:17:82: sweeps.s.stop.threshold: means something with `pbt` only
    "
    );
    assert_snapshot!(stop("{ scheduler = 'median', mode = 'pause' }"), @"trainyard.toml:17:39: sweeps.s.stop.mode: means something with `asha`, `hyperband` only");
    assert_snapshot!(
        stop("{ scheduler = 'pbt', quantile = 0.6, threshold = -1, mutate = { rate = 0, range = [0.5, 2] } }"),
        @r"
    trainyard.toml:17:40: sweeps.s.stop.quantile: expected a share above 0 and at most 0.5, found 0.6
    trainyard.toml:17:57: sweeps.s.stop.threshold: expected a number of at least 0, found -1
    trainyard.toml:17:79: sweeps.s.stop.mutate.rate: expected a chance above 0 and at most 1, found 0
    trainyard.toml:17:90: sweeps.s.stop.mutate.range: expected two factors above 1, the smaller first, found 0.5 and 2
    "
    );
    for right in [
        "{ scheduler = 'pbt', first = 5, every = 2, quantile = 0.5 }",
        "{ scheduler = 'hyperband', last = 81 }",
        "{ scheduler = 'asha', mode = 'pause', last = 9 }",
        "{ scheduler = 'median', first = 3, every = 1 }",
        "{ scheduler = 'none' }",
    ] {
        assert_eq!(stop(right), "no problem", "{right}");
    }
}

#[test]
fn what_goes_on_needs_checkpoints() {
    let with = |job: &str, stop: &str| {
        problems(&format!("{JOB}job = '{job}'\ntrials = 1\nspace.x.int = [0, 1]\nstop = {{ scheduler = {stop} }}"))
    };
    assert_snapshot!(with("plain", "'pbt'"), @r#"
    trainyard.toml:16:22: sweeps.s.stop.scheduler: `pbt` hands checkpoints on, and the job `plain` has no `resume.checkpoint`
      hint: add `[jobs.plain.resume]` with `checkpoint = "logs/**/model_*.pt"` and `args`
    "#);
    assert_snapshot!(with("plain", "'asha', mode = 'pause'"), @r#"
    trainyard.toml:16:37: sweeps.s.stop.mode: a paused trial goes on from its checkpoint, and the job `plain` has no `resume.checkpoint`
      hint: add `[jobs.plain.resume]` with `checkpoint = "logs/**/model_*.pt"` and `args`
    "#);
    assert_eq!(with("plain", "'asha'"), "no problem");
}

#[test]
fn budgets_can_be_spent() {
    let with = |job: &str, lines: &str| problems(&format!("{JOB}job = '{job}'\nspace.x.int = [0, 1]\n{lines}"));
    assert_snapshot!(with("plain", "budget = { gpu-hours = 5 }"), @r#"
    trainyard.toml:15:24: sweeps.s.budget.gpu-hours: the job `plain` has no GPU, so it would never spend any
      hint: write `time = "24h"` instead
    "#);
    assert_snapshot!(with("a", "budget = { gpu-hours = 0 }"), @"trainyard.toml:15:24: sweeps.s.budget.gpu-hours: must be more than nothing, found 0");
    assert_snapshot!(with("a", "budget = {}"), @"trainyard.toml:15:10: sweeps.s.budget: needs at least one of `gpu-hours`, `time`");
    assert_snapshot!(with("a", "trials = 3\naggregate = 'iqm'"), @r"
    trainyard.toml:16:13: sweeps.s.aggregate: adaptive repeats have a mean of their own
      hint: write `repeats = 3`, or leave `aggregate` out
    ");
    assert_eq!(with("a", "budget = { gpu-hours = 0.5 }"), "no problem");
}

#[test]
fn a_file_of_parameters_is_asked_for_and_has_a_template() {
    use super::job_problems;
    assert_snapshot!(job_problems("params-style = 'file'"), @r#"
    trainyard.toml:3:16: jobs.train.params-style: `file` needs `params-file`
      hint: add `params-file = { template = "conf.tmpl.yaml", to = "conf.yaml" }`
    "#);
    assert_snapshot!(job_problems("params-file = { template = 'a', to = 'b' }"), @r#"
    trainyard.toml:3:15: jobs.train.params-file: means nothing with `params-style = "flags"`
      hint: write `params-style = "file"`
    "#);
    assert_snapshot!(job_problems("params-style = 'file'\nparams-file = { template = 'a/../../x', to = './a' }"), @r#"trainyard.toml:4:28: jobs.train.params-file.template: expected a path inside the working folder, found "a/../../x": `..` leads out of it"#);
    assert_snapshot!(job_problems("params-style = 'file'\nparams-file = { template = 'a', to = './a' }"), @"trainyard.toml:4:38: jobs.train.params-file.to: is the template itself");
    assert_snapshot!(job_problems("params-style = 'file'\nin-place = true\nparams-file = { template = 'a', to = 'b' }"), @"trainyard.toml:4:12: jobs.train.in-place: would write `params-file.to` into the project folder itself");
    assert_eq!(job_problems("params-style = 'file'\nparams-file = { template = 'a', to = 'd/b' }"), "no problem");
}
