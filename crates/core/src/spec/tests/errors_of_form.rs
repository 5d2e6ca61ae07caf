//! Messages about one value: syntax, types, keys, content.

use insta::assert_snapshot;

use super::{job_problems, problems};

#[test]
fn syntax() {
    assert_snapshot!(problems("[project]\nname = \"x"), @r#"trainyard.toml:2:10: invalid basic string, expected `"`"#);
    assert_snapshot!(problems("[project\nname = 1"), @"trainyard.toml:1:9: unclosed table, expected `]`");
    assert_snapshot!(problems("a = 1\nä = \"ö\" x"), @"trainyard.toml:2:9: unexpected key or value, expected newline, `#`");
    assert_snapshot!(problems("a = 1\na = 2"), @"trainyard.toml:2:1: duplicate key");
    assert_snapshot!(problems("name ="), @"trainyard.toml:1:7: string values must be quoted, expected literal string");
}

#[test]
fn the_byte_order_mark_has_no_column() {
    assert_snapshot!(problems("\u{feff}name = 1"), @r"
    trainyard.toml:1:1: name: unknown key
      hint: allowed here: `project`, `image`, `images`, `jobs`, `groups`, `sweeps`, `targets`, `defaults`
    ");
}

#[test]
fn integers_have_64_bits() {
    assert_snapshot!(job_problems("params.x = 99999999999999999999"), @"trainyard.toml:3:12: jobs.train.params.x: `99999999999999999999` does not fit into 64 bits");
}

#[test]
fn unknown_keys() {
    assert_snapshot!(job_problems("memry = '1GB'"), @r"
    trainyard.toml:3:1: jobs.train.memry: unknown key
      hint: did you mean `memory`?
    ");
    assert_snapshot!(job_problems("colour = 1"), @r"
    trainyard.toml:3:1: jobs.train.colour: unknown key
      hint: allowed here: `command`, `shell`, `env`, `params`, `params-style`, `params-file`, `image`, `target`, `gpus`, `pack`, `nodes`, `tasks`, `cpus`, `memory`, `node`, `resources`, `per-node`, `time`, `outputs`, `seeds`, `in-place`, `copy`, `grace`, `resume`, `metrics`
    ");
    assert_snapshot!(problems("[job.train]\ncommand = ['a']"), @r"
    trainyard.toml:1:2: job: unknown key
      hint: did you mean `jobs`?
    ");
    assert_snapshot!(problems("[project]\nxyzzy = 1"), @r"
    trainyard.toml:2:1: project.xyzzy: unknown key
      hint: allowed here: `name`, `exclude`, `allow-large`
    ");
}

#[test]
fn missing_keys() {
    assert_snapshot!(problems("[jobs.train]\ngpus = 1"), @"trainyard.toml:1:1: jobs.train: needs one of `command`, `shell`");
    assert_snapshot!(job_problems("[jobs.train.resume.warn]\nsignal = 'USR1'"), @r"
    trainyard.toml:3:1: jobs.train.resume.warn: missing key `before`
      hint: `before`: how long before the time limit it is sent
    ");
    assert_snapshot!(job_problems("[jobs.train.metrics]"), @"trainyard.toml:3:1: jobs.train.metrics: needs at least one of `preset`, `tensorboard`, `jsonl`, `csv`, `stdout`");
    assert_snapshot!(problems("[image]"), @"trainyard.toml:1:1: image: needs one of `docker`, `podman`, `archive`, `oci`, `folder`, `dockerfile`, `registry`, `sif`");
    assert_snapshot!(problems("[sweeps.s]"), @r#"
    trainyard.toml:1:1: sweeps.s: missing key `goal`
      hint: `goal`: which way the metric should go
    trainyard.toml:1:1: sweeps.s: missing key `job`
      hint: `job`: the job whose parameters are searched
    trainyard.toml:1:1: sweeps.s: missing key `metric`
      hint: `metric`: the metric that says how good a run is
    trainyard.toml:1:1: sweeps.s: missing key `space`
      hint: `space`: what is searched: each parameter and the values it may take
    trainyard.toml:1:1: sweeps.s: missing key `trials`: only a grid knows its end
      hint: add `trials`, or a `budget` such as `{ time = "24h" }`
    "#);
}

#[test]
fn keys_that_exclude_or_need_each_other() {
    assert_snapshot!(job_problems("shell = 'b'"), @"trainyard.toml:3:1: jobs.train.shell: excludes `command`, which is given too");
    assert_snapshot!(problems("[image]\ndocker = 'a'\nsif = 'b'\ncontext = '.'"), @r"
    trainyard.toml:3:1: image.sif: excludes `docker`, which is given too
    trainyard.toml:4:1: image.context: means nothing without `dockerfile`
    ");
    assert_snapshot!(problems("[image]\nregistry = 'a'\nusername = 'me'"), @"trainyard.toml:3:1: image.username: means nothing without `password`");
}

#[test]
fn types() {
    assert_snapshot!(problems("jobs = 1"), @"trainyard.toml:1:8: jobs: expected a table, found 1");
    assert_snapshot!(problems("[jobs]\ntrain = 'python'"), @r#"trainyard.toml:2:9: jobs.train: expected a table, found "python""#);
    assert_snapshot!(problems("[jobs.train]\ncommand = 'python train.py'"), @r#"
    trainyard.toml:2:11: jobs.train.command: expected a list, found "python train.py"
      hint: write `["python", "train.py"]`
    "#);
    assert_snapshot!(problems("[jobs.train]\ncommand = ['python', 3]"), @r#"
    trainyard.toml:2:22: jobs.train.command[1]: expected text, found 3
      hint: put it in quotes: `"3"`
    "#);
    assert_snapshot!(problems("[jobs.train]\ncommand = []"), @"trainyard.toml:2:11: jobs.train.command: expected a list with at least 1 item");
    assert_snapshot!(job_problems("in-place = 'yes'"), @r#"trainyard.toml:3:12: jobs.train.in-place: expected `true` or `false`, found "yes""#);
    assert_snapshot!(job_problems("cpus = 1.5"), @"trainyard.toml:3:8: jobs.train.cpus: expected a whole number of at least 1, found 1.5");
    assert_snapshot!(job_problems("cpus = 0"), @"trainyard.toml:3:8: jobs.train.cpus: expected a whole number of at least 1, found 0");
    assert_snapshot!(job_problems("resume.attempts = 0"), @"trainyard.toml:3:19: jobs.train.resume.attempts: expected a whole number from 1 to 10000, found 0");
    assert_snapshot!(job_problems("image = 1979-05-27"), @r#"
    trainyard.toml:3:9: jobs.train.image: expected a line of text, found the date 1979-05-27
      hint: put it in quotes: `"1979-05-27"`
    "#);
    assert_snapshot!(problems(&format!("[jobs.train]\ncommand = '{}'", "x".repeat(99))), @r#"
    trainyard.toml:2:11: jobs.train.command: expected a list, found "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
      hint: write `["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"]`
    "#);
}

#[test]
fn messages_do_not_command_the_terminal() {
    assert_snapshot!(job_problems("image = \"\\u001b[2J\\nx\"\ntarget = \"\\u001b[2J\""), @r#"
    trainyard.toml:3:9: jobs.train.image: expected a line of text, found "\u001B[2J\nx"
    trainyard.toml:4:10: jobs.train.target: no target is called `\u{1b}[2J`
      hint: known here: `local`
    "#);
}

#[test]
fn choices() {
    assert_snapshot!(job_problems("params-style = 'flag'"), @r#"
    trainyard.toml:3:16: jobs.train.params-style: expected one of `flags`, `hydra`, `env`, `file`, found "flag"
      hint: did you mean `flags`?
    "#);
    assert_snapshot!(job_problems("resume.on = ['walltime', 'preemptd']"), @r#"
    trainyard.toml:3:14: jobs.train.resume.on[0]: expected one of `time-limit`, `preempted`, `node-failure`, `failed`, found "walltime"
    trainyard.toml:3:26: jobs.train.resume.on[1]: expected one of `time-limit`, `preempted`, `node-failure`, `failed`, found "preemptd"
      hint: did you mean `preempted`?
    "#);
    assert_snapshot!(job_problems("resume.warn = { signal = 'SIGUSR2', before = '1m' }"), @r#"
    trainyard.toml:3:26: jobs.train.resume.warn.signal: expected one of `USR1`, `USR2`, `TERM`, `INT`, `HUP`, found "SIGUSR2"
      hint: did you mean `USR2`?
    "#);
}

#[test]
fn sizes() {
    assert_snapshot!(job_problems("memory = \"12 bananas\""), @r#"trainyard.toml:3:10: jobs.train.memory: expected a size such as "32GB", found "12 bananas""#);
    assert_snapshot!(job_problems("memory = 32"), @r#"trainyard.toml:3:10: jobs.train.memory: expected a size such as "32GB", found 32: write it with a unit"#);
    assert_snapshot!(job_problems("memory = '32'"), @r#"trainyard.toml:3:10: jobs.train.memory: expected a size such as "32GB", found "32": write it with a unit"#);
    assert_snapshot!(job_problems("memory = '0GB'"), @r#"trainyard.toml:3:10: jobs.train.memory: expected a size such as "32GB", found "0GB": it must be more than nothing"#);
    assert_snapshot!(job_problems("memory = '99999999PB'"), @r#"trainyard.toml:3:10: jobs.train.memory: expected a size such as "32GB", found "99999999PB": more than 64 bits of bytes"#);
}

#[test]
fn durations() {
    assert_snapshot!(job_problems("time = 'tomorrow'"), @r#"trainyard.toml:3:8: jobs.train.time: expected a duration such as "1h30m", found "tomorrow""#);
    assert_snapshot!(job_problems("time = 3600"), @r#"trainyard.toml:3:8: jobs.train.time: expected a duration such as "1h30m", found 3600: write it with a unit"#);
    assert_snapshot!(job_problems("time = '10:30'"), @r#"trainyard.toml:3:8: jobs.train.time: expected a duration such as "1h30m", found "10:30": write "HH:MM:SS", or units as in "1h30m""#);
    assert_snapshot!(job_problems("time = '0s'"), @r#"trainyard.toml:3:8: jobs.train.time: expected a duration such as "1h30m", found "0s": it must be longer than nothing"#);
    assert_snapshot!(job_problems("grace = '0s'"), @"no problem");
}

#[test]
fn gpus() {
    assert_snapshot!(job_problems("gpus = 0.4"), @"trainyard.toml:3:8: jobs.train.gpus: 0.4 of a GPU does not share one evenly; the nearest that do are `0.333` (1/3) and `0.5` (1/2)");
    assert_snapshot!(job_problems("gpus = 1.5"), @"trainyard.toml:3:8: jobs.train.gpus: GPUs beyond one are given whole, found 1.5; the nearest are `1` and `2`");
    assert_snapshot!(job_problems("gpus = -1"), @"trainyard.toml:3:8: jobs.train.gpus: expected `0` or more GPUs, found -1");
    assert_snapshot!(job_problems("gpus = 'all'"), @r#"trainyard.toml:3:8: jobs.train.gpus: expected a number of GPUs such as `1` or `0.25`, found "all""#);
    assert_snapshot!(job_problems("gpus = nan"), @"trainyard.toml:3:8: jobs.train.gpus: expected `0` or more GPUs, found NaN");
}

#[test]
fn seeds() {
    assert_snapshot!(job_problems("seeds = [1, 2, 1]"), @"trainyard.toml:3:16: jobs.train.seeds[2]: seed 1 is given twice");
    assert_snapshot!(job_problems("seeds = [1, -2, 'x']"), @r#"
    trainyard.toml:3:13: jobs.train.seeds[1]: expected a whole number of at least 0, found -2
    trainyard.toml:3:17: jobs.train.seeds[2]: expected a whole number of at least 0, found "x"
    "#);
    assert_snapshot!(job_problems("seeds = '1-3,2'"), @"trainyard.toml:3:9: jobs.train.seeds: seed 2 is given twice");
    assert_snapshot!(job_problems("seeds = '5-1'"), @"trainyard.toml:3:9: jobs.train.seeds: the range `5-1` runs backwards, write `1-5`");
    assert_snapshot!(job_problems("seeds = 7"), @r#"
    trainyard.toml:3:9: jobs.train.seeds: expected seeds such as `[1, 2, 3]` or "1-3", found 7
      hint: write `[7]`
    "#);
    let many = (0..=100_000).map(|seed| seed.to_string()).collect::<Vec<_>>().join(",");
    assert_snapshot!(job_problems(&format!("seeds = [{many}]")), @"trainyard.toml:3:9: jobs.train.seeds: more than 100000 seeds");
}

#[test]
fn names() {
    assert_snapshot!(problems("[jobs.'my job']\nshell = 'a'"), @r#"trainyard.toml:1:7: jobs."my job": a name starts with a letter or digit, goes on with letters, digits, `_`, `.` or `-`, and has at most 64 characters"#);
    assert_snapshot!(problems("[jobs._x]\nshell = 'a'"), @"trainyard.toml:1:7: jobs._x: a name starts with a letter or digit, goes on with letters, digits, `_`, `.` or `-`, and has at most 64 characters");
    assert_snapshot!(problems(&format!("[jobs.{}]\nshell = 'a'", "x".repeat(65))), @"trainyard.toml:1:7: jobs.xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx: a name starts with a letter or digit, goes on with letters, digits, `_`, `.` or `-`, and has at most 64 characters");
    assert_eq!(problems(&format!("[jobs.{}]\nshell = 'a'", "x".repeat(64))), "no problem");
    assert_snapshot!(problems("[targets.-x]\nkind = 'local'"), @"trainyard.toml:1:10: targets.-x: a name starts with a letter or digit, goes on with letters, digits, `_`, `.` or `-`, and has at most 64 characters");
    assert_snapshot!(problems("[images.'']\nsif = 'a'"), @r#"trainyard.toml:1:9: images."": a name starts with a letter or digit, goes on with letters, digits, `_`, `.` or `-`, and has at most 64 characters"#);
    assert_snapshot!(job_problems("env.'A-B' = 'x'\nenv.2A = 'x'\nenv._A2 = 'x'"), @r"
    trainyard.toml:3:5: jobs.train.env.A-B: the name of a variable has letters, digits and `_`, and does not start with a digit
    trainyard.toml:4:5: jobs.train.env.2A: the name of a variable has letters, digits and `_`, and does not start with a digit
    ");
    assert_snapshot!(job_problems("params.'' = 1"), @r#"trainyard.toml:3:8: jobs.train.params."": a name is not empty"#);
}

#[test]
fn paths_stay_inside() {
    assert_snapshot!(
        job_problems("outputs = ['/tmp/x', '../x', 'a/../b', '~/x', '', 'logs/*.pt', 'a\\b', 'logs/', 'a..b']"),
        @r#"
    trainyard.toml:3:12: jobs.train.outputs[0]: expected a path inside the working folder, found "/tmp/x": it is absolute
    trainyard.toml:3:22: jobs.train.outputs[1]: expected a path inside the working folder, found "../x": `..` leads out of it
    trainyard.toml:3:30: jobs.train.outputs[2]: expected a path inside the working folder, found "a/../b": `..` leads out of it
    trainyard.toml:3:40: jobs.train.outputs[3]: expected a path inside the working folder, found "~/x": it is absolute
    trainyard.toml:3:47: jobs.train.outputs[4]: expected a path inside the working folder, found "": it is no path
    trainyard.toml:3:51: jobs.train.outputs[5]: expected a path inside the working folder, found "logs/*.pt": name the folder instead of a pattern
    trainyard.toml:3:64: jobs.train.outputs[6]: expected a path inside the working folder, found "a\\b": folders are separated by `/`
    "#
    );
    assert_snapshot!(job_problems("metrics = 'rl-games'"), @r#"
    trainyard.toml:3:11: jobs.train.metrics: expected one of `rl_games`, `rsl_rl`, `skrl`, `sb3`, `lightning`, `report`, found "rl-games"
      hint: did you mean `rl_games`?
    "#);
    assert_snapshot!(job_problems("metrics.tensorboard = '/logs'"), @r#"trainyard.toml:3:23: jobs.train.metrics.tensorboard: expected a path inside the working folder, found "/logs": it is absolute"#);
}

#[test]
fn patterns_have_a_named_group() {
    assert_snapshot!(job_problems("metrics.stdout = 'reward: (\\S+)'"), @r"trainyard.toml:3:18: jobs.train.metrics.stdout: expected a regular expression with a named group such as `(?<reward>\S+)`");
    for pattern in ["", "(?<=x)", "(?<!x)", r"\(?<a>", "(?P=a)", "(?<>x)", "(?<a", "\\"] {
        assert_ne!(job_problems(&format!("metrics.stdout = '{pattern}'")), "no problem", "{pattern}");
    }
    for pattern in ["(?<a>x)", "(?P<a>x)", r"\((?<a>x)", r"(?<=y)(?<_a>x)", r"\\(?<a>x)"] {
        assert_eq!(job_problems(&format!("metrics.stdout = '{pattern}'")), "no problem", "{pattern}");
    }
}

#[test]
fn parameters_are_finite_and_no_dates() {
    assert_snapshot!(job_problems("params.a = 1979-05-27\nparams.b = [inf, { c = nan }]"), @r#"
    trainyard.toml:3:12: jobs.train.params.a: a parameter cannot be a date
      hint: put it in quotes: `"1979-05-27"`
    trainyard.toml:4:13: jobs.train.params.b[0]: a parameter is a finite number
      hint: put it in quotes: `"inf"`
    trainyard.toml:4:24: jobs.train.params.b[1].c: a parameter is a finite number
      hint: put it in quotes: `"NaN"`
    "#);
}

#[test]
fn environment_values_are_text_or_secrets() {
    assert_snapshot!(job_problems("env.A = 3"), @r#"
    trainyard.toml:3:9: jobs.train.env.A: expected text or a secret such as `{ env = "NAME" }`, found 3
      hint: put it in quotes: `"3"`
    "#);
    assert_snapshot!(job_problems("env.A = { env = 'B', file = 'c' }"), @"trainyard.toml:3:22: jobs.train.env.A.file: excludes `env`, which is given too");
    assert_snapshot!(job_problems("env.A = { value = 'B' }"), @r"
    trainyard.toml:3:9: jobs.train.env.A: needs one of `env`, `file`, `command`
    trainyard.toml:3:11: jobs.train.env.A.value: unknown key
      hint: allowed here: `env`, `file`, `command`
    ");
    assert_snapshot!(job_problems("env.A = { command = [] }"), @"trainyard.toml:3:21: jobs.train.env.A.command: expected a list with at least 1 item");
    assert_snapshot!(job_problems("env.A = \"a\\u0000b\""), @r#"trainyard.toml:3:9: jobs.train.env.A: expected text, found "a\u0000b": no program can be given a NUL character"#);
}

#[test]
fn secrets_are_not_written_down_nor_repeated() {
    let text = "[targets.r]\nkind = 'ray'\naddress = 'x'\ntoken = 'hunter2'";
    assert_snapshot!(problems(text), @r#"
    trainyard.toml:4:9: targets.r.token: a secret is not written into the file, only where it is found
      hint: write `{ env = "NAME" }`, `{ file = "PATH" }` or `{ command = ["PROGRAM", …] }`
    "#);
    assert!(!problems(text).contains("hunter2"));
    assert!(!problems(&text.replace("'hunter2'", "7531")).contains("7531"));
    assert_snapshot!(problems("[image]\nregistry = 'x'\nusername = 'me'\npassword = 'hunter2'"), @r#"
    trainyard.toml:4:12: image.password: a secret is not written into the file, only where it is found
      hint: write `{ env = "NAME" }`, `{ file = "PATH" }` or `{ command = ["PROGRAM", …] }`
    "#);
}
