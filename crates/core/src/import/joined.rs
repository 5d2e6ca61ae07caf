//! Command lines that hold several jobs: `submit_job.py --aggregate_jobs A '*' B`, `wrap_resources.py --sub_jobs A + B`.
//!
//! Jobs end only at a separator that is a word of its own: Hydra's `+key=value` and a glob are parts of jobs.

use super::draft::{Draft, DraftJob, is_gpus};
use super::{ImportError, Imported, Remark, at};
use crate::spec::Start;

const AGGREGATE: &str = "--aggregate_jobs";
const SUB_JOBS: &str = "--sub_jobs";
/// What `submit_job.py` put before each job.
const LAUNCHER: [&str; 2] = ["/workspace/isaaclab/isaaclab.sh", "-p"];

pub(super) fn is_joined(text: &str) -> bool {
    text.split_whitespace().any(|word| word == AGGREGATE || word == SUB_JOBS)
}

pub(super) fn translate(text: &str) -> Result<Imported, ImportError> {
    let (mut draft, mut remarks) = (Draft { start: Some(Start::WhenFree), ..Draft::default() }, Vec::new());
    for (line, text) in lines(text) {
        if !is_joined(&text) {
            let said = !text.trim().is_empty() && !text.trim_start().starts_with('#');
            remarks.extend(said.then(|| at(line, "this holds no jobs, and was left out")));
            continue;
        }
        let words = shlex::split(&text).ok_or_else(|| ImportError::At(at(line, "a quote is not closed")))?;
        one(&words, line, &mut draft, &mut remarks);
    }
    if draft.jobs.is_empty() {
        return Err(ImportError::Nothing {
            what: "there is no job behind `--aggregate_jobs` or `--sub_jobs`",
            remarks,
        });
    }
    Ok(Imported { text: draft.write(), remarks })
}

/// With their numbers; one that ends with a backslash goes on in the next.
fn lines(text: &str) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (number, line) in (1..).zip(text.lines()) {
        let (part, more) = line.trim_end().strip_suffix('\\').map_or((line, false), |part| (part, true));
        match all.last_mut().filter(|_| goes_on) {
            Some((_, last)) => *last = format!("{last} {part}"),
            None => all.push((number, part.to_owned())),
        }
        goes_on = more;
    }
    all
}

fn one(words: &[String], line: usize, draft: &mut Draft, remarks: &mut Vec<Remark>) {
    let is_flag = |word: &String| word == AGGREGATE || word == SUB_JOBS;
    let Some(place) = words.iter().position(is_flag) else { return };
    let (before, rest) = words.split_at(place);
    let is_aggregate = words.get(place).is_some_and(|flag| flag == AGGREGATE);
    let rest = rest.get(1..).unwrap_or_default();
    if !is_aggregate {
        return wrapped(before, &jobs(rest, "+"), line, draft, remarks);
    }
    read(before, line, draft, remarks);
    for job in jobs(rest, "*") {
        if job.iter().any(|word| word == SUB_JOBS) {
            one(&job, line, draft, remarks);
        } else {
            let command = LAUNCHER.map(str::to_owned).into_iter().chain(job).collect();
            add(draft, DraftJob { command, ..DraftJob::default() });
        }
    }
}

/// All in one word means the same: the tool joined the words before it took them apart.
fn jobs(words: &[String], separator: &str) -> Vec<Vec<String>> {
    let again = match words {
        [one] if one.contains(' ') => shlex::split(one),
        _ => None,
    };
    let words = again.as_deref().unwrap_or(words);
    words.split(|word| word == separator).filter(|job| !job.is_empty()).map(<[String]>::to_vec).collect()
}

fn add(draft: &mut Draft, mut job: DraftJob) {
    let script = job.command.iter().find(|word| word.ends_with(".py"));
    let script = script.and_then(|path| path.rsplit('/').next()).and_then(|name| name.strip_suffix(".py"));
    job.name = draft.name(script.unwrap_or("job"));
    draft.jobs.push(job);
}

/// `wrap_resources.py`: lists of numbers, one for each job; the last counts for those that have none.
#[derive(Default)]
struct Shares {
    gpus: Vec<f64>,
    cpus: Vec<f64>,
    gigabytes: Vec<f64>,
    workers: Vec<f64>,
}

fn wrapped(flags: &[String], jobs: &[Vec<String>], line: usize, draft: &mut Draft, remarks: &mut Vec<Remark>) {
    let shares = read(flags, line, draft, remarks);
    let nth = |list: &[f64], index: usize| list.get(index).or(list.last()).copied();
    for (index, command) in jobs.iter().enumerate() {
        let mut job = DraftJob { command: command.clone(), ..DraftJob::default() };
        job.gpus = nth(&shares.gpus, index).filter(|gpus| match is_gpus(*gpus) {
            Ok(()) => true,
            Err(why) => {
                remarks.push(at(line, format!("`--gpu_per_worker {gpus}` was left out: {why}")));
                false
            }
        });
        job.cpus = nth(&shares.cpus, index).map(|cpus| cpus.ceil().max(1.0) as u64);
        let bytes = nth(&shares.gigabytes, index).map(|gigabytes| (gigabytes * 1e9).ceil() as u64);
        job.memory = bytes.filter(|bytes| *bytes > 0);
        let says_amounts = job.gpus.is_some() || job.cpus.is_some() || job.memory.is_some();
        job.per_node = nth(&shares.workers, index).filter(|_| !says_amounts).map(|workers| workers.max(1.0) as u64);
        add(draft, job);
    }
}

fn read(flags: &[String], line: usize, draft: &mut Draft, remarks: &mut Vec<Remark>) -> Shares {
    let mut shares = Shares::default();
    let is_flag = |word: &&String| word.starts_with("--");
    let mut rest = flags.iter().skip_while(|word| !is_flag(word)).peekable();
    while let Some(flag) = rest.next() {
        let mut values = Vec::new();
        while let Some(value) = rest.next_if(|word| !is_flag(word)) {
            values.push(value.clone());
        }
        let mut numbers = |values: &[String]| -> Vec<f64> {
            let number = |value: &String| match value.parse::<f64>() {
                Ok(number) if number.is_finite() && number >= 0.0 => Some(number),
                _ => {
                    remarks.push(at(line, format!("`{value}` of `{flag}` is no number, and was left out")));
                    None
                }
            };
            values.iter().filter_map(number).collect()
        };
        match flag.as_str() {
            "--gpu_per_worker" => shares.gpus = numbers(&values),
            "--cpu_per_worker" | "--num_cpu_per_worker" => shares.cpus = numbers(&values),
            "--ram_gb_per_worker" => shares.gigabytes = numbers(&values),
            "--num_workers" => shares.workers = numbers(&values),
            "--py_modules" => draft.py_modules.extend(values),
            "--test" => remarks.push(at(line, "`--test` is `yard target check ray`")),
            "--ray_address" | "--config_file" => {
                remarks.push(at(
                    line,
                    format!("`{flag} {}` was left out: name the cluster in the target", values.join(" ")),
                ));
            }
            _ => remarks.push(at(line, format!("`{flag}` is not known, and was left out"))),
        }
    }
    shares
}
