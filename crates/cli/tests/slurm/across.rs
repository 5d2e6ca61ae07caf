//! Runs that outlive the time limit of their partition, across several allocations, by each of the three ways, with
//! nobody watching.

use std::time::Duration;

use serde_json::Value;
use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::within;

use crate::site::Site;

/// Counts seconds into `ck/N`, one file a second, and goes on from the newest one.
const COUNTER: &str = r#"
import os, sys, time, pathlib
start = int(pathlib.Path(sys.argv[1]).name) if len(sys.argv) > 1 else 0
os.makedirs('ck', exist_ok=True)
print('from', start, flush=True)
for n in range(start + 1, int(os.environ['SECONDS']) + 1):
    time.sleep(1)
    part = pathlib.Path(f'ck/.{n}')
    part.write_text('x')
    part.rename(f'ck/{n}')
print('done', flush=True)
"#;

const SECONDS: usize = 300;

fn counting(slurm: &Slurm, target: &str) -> Value {
    let jobs = format!(
        "[jobs.count]\ncommand = ['python3', 'count.py']\ntime = '5m'\noutputs = ['ck/']\nenv.SECONDS = '{SECONDS}'\n\
         [jobs.count.resume]\nattempts = 20\ncheckpoint = 'ck/*'\nargs = ['{{checkpoint}}']\n"
    );
    let site = Site::new(slurm, &jobs, &format!("partition = 'short'\n{target}"));
    site.write("count.py", COUNTER);
    let ran = site.run(&["run", "count", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    // Nobody is there: the laptop is switched off.
    for pid in site.yardmasters() {
        trainyard_testkit::processes::kill(pid);
    }
    within(Duration::from_secs(1200), "the queue to be empty", || {
        let rows = site.slurm.jobs();
        rows.iter().all(|row| !matches!(row.state.as_str(), "PENDING" | "RUNNING" | "COMPLETING")).then_some(())
    });
    let ran = site.run(&["wait", "count", "--timeout", "20s"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}\n{}", site.show("count"), site.slurm.log());
    site.show("count")
}

fn check(shown: &Value) {
    let attempts = shown["attempts"].as_array().cloned().unwrap_or_default();
    let least = SECONDS.div_ceil(60);
    assert!((least..=2 * least + 2).contains(&attempts.len()), "{shown}");
    for (before, after) in attempts.iter().zip(attempts.iter().skip(1)) {
        assert_eq!(before["checkpoint"], after["resumed_from"], "{shown}");
        assert_eq!(before["outcome"], "time limit reached", "{shown}");
    }
}

/// By all three ways at the same time: each takes its five minutes. By its name this comes first, so that the others are
/// done meanwhile.
#[test]
fn five_minutes_of_work_in_allocations_of_one() {
    std::thread::scope(|scope| {
        for by in ["requeue", "array", "chain"] {
            scope.spawn(move || {
                let slurm = Slurm::start(Options { nodes: 1, ..Options::default() });
                check(&counting(&slurm, &format!("resume-by = '{by}'")));
            });
        }
    });
}
