//! A scheduler over pipes for `bench/run asha`. The first line is `stop` or `pause`, the first step, the factor and the
//! last step; then `begin T`, `next T`, `judge T STEP LOSS`, `end T` and `promote more` or `last` are answered one by one.
//!
//! `asha time` prints milliseconds of CPU: of one decision of each scheduler among 10,000 trials, and of the importance of
//! ten parameters from 1,000 trials.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{BufRead, Write};

use trainyard_core::search::{Fate, History, Outlook, Space, Trial, Verdict, importance, rng, scheduler};
use trainyard_core::spec::{Dimension, Domain, Goal, SchedulerKind, StopMode, StopSpec};
use trainyard_core::value::Params;

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1).as_deref() {
        Some("time") => time(),
        _ => serve(),
    }
}

fn time() -> Result<(), Box<dyn Error>> {
    const TRIALS: u32 = 10_000;
    let domain = |number: u32| match number % 3 {
        0 => Domain::Uniform { low: 0.0, high: 1.0 },
        1 => Domain::LogUniform { low: 1e-5, high: 1.0 },
        _ => Domain::Int { low: 1, high: 20 },
    };
    let dimensions = (0..10).map(|number| (format!("p{number}"), Dimension { domain: domain(number), when: None }));
    let space = Space::new(&dimensions.collect(), &[])?;
    let of = |kind| StopSpec { last: Some(1_000), ..StopSpec::of(kind) };
    let kinds = [
        ("median", of(SchedulerKind::Median)),
        ("asha, stop", of(SchedulerKind::Asha)),
        ("asha, pause", StopSpec { mode: StopMode::Pause, ..of(SchedulerKind::Asha) }),
        ("hyperband", of(SchedulerKind::Hyperband)),
        ("pbt", of(SchedulerKind::Pbt)),
    ];
    let mut out = std::io::stdout().lock();
    for (name, spec) in kinds {
        let mut judge = scheduler(Some(&spec), &space, 0);
        let (mut numbers, params) = (rng(1, 0), space.draw(&mut rng(0, 0)));
        (0..TRIALS).for_each(|trial| judge.begin(trial, &params));
        let start = cpu_milliseconds();
        for trial in 0..TRIALS {
            let step = judge.next_step(trial).unwrap_or(1);
            judge.judge(trial, step, numbers.unit());
            judge.promote(Outlook::More);
        }
        writeln!(out, "{name}\t{}", (cpu_milliseconds() - start) / f64::from(TRIALS))?;
    }
    let trial = |number| {
        let params = space.draw(&mut rng(1, number));
        let value = space.point(&params).iter().map(|at| (at - 0.3).powi(2)).sum();
        Trial { number, params, fate: Fate::Done { value }, reports: Vec::new() }
    };
    let trials: Vec<Trial> = (0..1_000).map(trial).collect();
    let history = History::new(Goal::Minimize, &trials);
    let start = cpu_milliseconds();
    (0..20).for_each(|_| drop(std::hint::black_box(importance(&space, &history))));
    writeln!(out, "importance\t{}", (cpu_milliseconds() - start) / 20.0)?;
    Ok(())
}

/// Of this thread; other work on the machine does not count.
fn cpu_milliseconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds: f64 = text.split_whitespace().next().and_then(|field| field.parse().ok()).unwrap_or(0.0);
    nanoseconds / 1e6
}

fn serve() -> Result<(), Box<dyn Error>> {
    let mut lines = std::io::stdin().lock().lines();
    let first = lines.next().ok_or("nothing was said")??;
    let [mode, first, factor, last] = first.split(' ').collect::<Vec<_>>()[..] else {
        return Err("MODE FIRST FACTOR LAST".into());
    };
    let spec = StopSpec {
        mode: if mode == "pause" { StopMode::Pause } else { StopMode::Stop },
        first: first.parse()?,
        factor: factor.parse()?,
        last: Some(last.parse()?),
        ..StopSpec::of(SchedulerKind::Asha)
    };
    let mut judge = scheduler(Some(&spec), &Space::new(&BTreeMap::new(), &[])?, 0);
    let mut out = std::io::stdout().lock();
    for line in lines {
        let line = line?;
        let answer = match line.split(' ').collect::<Vec<_>>()[..] {
            ["begin", trial] => {
                judge.begin(trial.parse()?, &Params::new());
                String::new()
            }
            ["next", trial] => judge.next_step(trial.parse()?).map(|step| step.to_string()).unwrap_or_default(),
            ["judge", trial, step, loss] => match judge.judge(trial.parse()?, step.parse()?, loss.parse()?) {
                Verdict::Continue => "continue".to_owned(),
                Verdict::Pause => "pause".to_owned(),
                Verdict::Stop => "stop".to_owned(),
                Verdict::Replace { .. } => return Err("this scheduler replaces nobody".into()),
            },
            ["end", trial] => {
                judge.end(trial.parse()?);
                String::new()
            }
            ["promote", outlook] => {
                let outlook = if outlook == "last" { Outlook::Last } else { Outlook::More };
                judge.promote(outlook).map(|trial| trial.to_string()).unwrap_or_default()
            }
            _ => return Err(format!("cannot read `{line}`").into()),
        };
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
