//! What a SLURM target says to `sbatch`: options that other keys stand for, or that `yard` sets itself, are refused.

use crate::spec::problem::Problem;
use crate::spec::read::Reader;
use crate::template;

const IN_GPU_REQUEST: [&str; 5] = ["gpus", "gpus_per_task", "total_gpus", "nodes", "tasks"];
const GPU_OPTIONS: [&str; 6] = ["G", "gres", "gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"];

/// Options with a key of their own.
const KEYS: [(&str, char, &str); 19] = [
    ("account", 'A', "`account` of the target"),
    ("partition", 'p', "`partition` of the target"),
    ("qos", 'q', "`qos` of the target"),
    ("constraint", 'C', "`constraint` of the target"),
    ("reservation", ' ', "`reservation` of the target"),
    ("nodes", 'N', "`nodes` of the job"),
    ("ntasks", 'n', "`nodes` and `tasks` of the job"),
    ("ntasks-per-node", ' ', "`tasks` of the job"),
    ("tasks-per-node", ' ', "`tasks` of the job"),
    ("cpus-per-task", 'c', "`cpus` of the job"),
    ("mem", ' ', "`memory` of the job"),
    ("mem-per-cpu", ' ', "`memory` of the job and `memory-request = \"cpu\"` of the target"),
    ("time", 't', "`time` of the job and `max-time` of the target"),
    ("mail-user", ' ', "`mail` of the target"),
    ("mail-type", ' ', "`mail-type` of the target"),
    ("gpus", 'G', "`gpus` of the job and `gpu-request` of the target"),
    ("gpus-per-node", ' ', "`gpus` of the job and `gpu-request` of the target"),
    ("gpus-per-task", ' ', "`gpus` of the job and `gpu-request` of the target"),
    ("gpus-per-socket", ' ', "`gpus` of the job and `gpu-request` of the target"),
];

/// Options that would make `yard` lose its jobs, and what it does with them.
const OURS: [(&str, char, &str); 22] = [
    ("job-name", 'J', "runs are found again by it"),
    ("array", 'a', "it makes one task for each group of runs"),
    ("output", 'o', "every run has its own log: `yard logs`"),
    ("error", 'e', "every run has its own log: `yard logs`"),
    ("input", 'i', "programs read nothing"),
    ("open-mode", ' ', "logs are never truncated"),
    ("dependency", 'd', "it is how runs go on: `resume-by`"),
    ("requeue", ' ', "it is how runs go on: `resume-by`"),
    ("no-requeue", ' ', "it is how runs go on: `resume-by`"),
    ("signal", ' ', "it warns programs itself: `resume.warn` of the job"),
    ("export", ' ', "the environment of a run is `env` of job and target"),
    ("export-file", ' ', "the environment of a run is `env` of job and target"),
    ("chdir", 'D', "every run has its own working folder"),
    ("workdir", ' ', "every run has its own working folder"),
    ("parsable", ' ', "it reads the answer"),
    ("quiet", 'Q', "it reads the answer"),
    ("test-only", ' ', "nothing would be submitted"),
    ("wait", 'W', "it waits by itself"),
    ("wrap", ' ', "it writes the script"),
    ("clusters", 'M', "jobs of other clusters are not seen: make a target for each"),
    ("help", 'h', "nothing would be submitted"),
    ("usage", ' ', "nothing would be submitted"),
];

pub(super) fn check(target: &Reader<'_>, problems: &mut Vec<Problem>) {
    gpu_request(target, problems);
    directives(target, problems);
    for (index, bind) in list(target, "binds").iter().enumerate() {
        problems.extend(unfit_bind(bind).map(|message| target.item_problem("binds", index, message)));
    }
    for (index, path) in list(target, "cache").iter().enumerate() {
        if !path.starts_with('/') || path.contains([',', ':']) {
            let message = "expected a path in the container that begins with `/`, without `,` and `:`";
            problems.push(target.item_problem("cache", index, message));
        }
    }
    if let Ok(Some(scratch)) = target.get::<String>("scratch")
        && !scratch.starts_with(['/', '$'])
    {
        let message = "expected a path that begins with `/` or a variable such as `$TMPDIR`";
        problems.push(target.problem("scratch", message));
    }
}

fn list(target: &Reader<'_>, key: &str) -> Vec<String> {
    target.get(key).ok().flatten().unwrap_or_default()
}

fn unfit_bind(bind: &str) -> Option<&'static str> {
    let parts: Vec<&str> = bind.split(':').collect();
    let begins = |path: &str| path.starts_with(['/', '$', '~']);
    match parts[..] {
        _ if bind.contains(',') => Some("container runtimes read a comma as the end of a bind"),
        [source] if begins(source) => None,
        [source, inside] | [source, inside, _] if begins(source) && inside.starts_with('/') => None,
        _ => Some("expected `/SOURCE`, `/SOURCE:/INSIDE` or `/SOURCE:/INSIDE:ro`"),
    }
}

fn gpu_request(target: &Reader<'_>, problems: &mut Vec<Problem>) {
    let Ok(Some(request)) = target.get::<String>("gpu-request") else { return };
    let mut refuse = |message: String| problems.push(target.problem("gpu-request", message));
    if let Some(other) = template::names(&request).into_iter().find(|name| !IN_GPU_REQUEST.contains(name)) {
        let known = IN_GPU_REQUEST.map(|name| format!("`{{{name}}}`")).join(", ");
        return refuse(format!("unknown placeholder `{{{other}}}`, here can stand {known}"));
    }
    let Some(words) = shlex::split(&request) else { return refuse("a quote is not closed".to_owned()) };
    if !words.first().is_some_and(|word| word.starts_with('-')) {
        return refuse("expected options of `sbatch`, such as `--gres=gpu:{gpus}`".to_owned());
    }
    for word in &words {
        let Given { name, is_given, .. } = Given::read(word);
        if is_given
            && !GPU_OPTIONS.contains(&name.as_str())
            && let Some(reason) = reserved(word)
        {
            return refuse(reason);
        }
    }
}

fn directives(target: &Reader<'_>, problems: &mut Vec<Problem>) {
    for (index, directive) in list(target, "directives").iter().enumerate() {
        problems.extend(
            unfit_directive(target, directive).map(|message| target.item_problem("directives", index, message)),
        );
    }
}

/// A directive that is no option would end the `#SBATCH` lines of the script, and the rest with them.
fn unfit_directive(target: &Reader<'_>, directive: &str) -> Option<String> {
    let Some(words) = shlex::split(directive) else { return Some("a quote is not closed".to_owned()) };
    // Refused by its form already.
    if directive.contains(char::is_control) {
        return None;
    }
    if !directive.starts_with('-') || words.first().is_none_or(|word| word.trim_matches('-').is_empty()) {
        return Some("expected an option of `sbatch`, such as `--exclusive`".to_owned());
    }
    let request: String = target.get("gpu-request").ok().flatten().unwrap_or_default();
    words.iter().find_map(|word| {
        let option = Given::read(word);
        if !option.is_given {
            return None;
        }
        if option.name == "gres" && option.value.is_none_or(|value| value.contains("gpu")) {
            return Some("write `gpus` of the job and `gpu-request` of the target instead".to_owned());
        }
        if option.name == "gres" && request.contains("--gres") {
            let value = option.value.unwrap_or_default();
            return Some(format!("a second `--gres` replaces the first: write `gpu-request = \"{request},{value}\"`"));
        }
        if option.name.starts_with("container") {
            return Some("images are run by `container` of the target".to_owned());
        }
        reserved(word)
    })
}

/// One word of a command line, as `getopt` reads it.
struct Given<'w> {
    /// Long or short.
    name: String,
    value: Option<&'w str>,
    /// Whether it is an option at all.
    is_given: bool,
}

impl<'w> Given<'w> {
    fn read(word: &'w str) -> Self {
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value)));
            return Self { name: name.to_owned(), value, is_given: !name.is_empty() };
        }
        let short = word.strip_prefix('-').unwrap_or_default();
        // Flags without a value may stand together: `-Hs`.
        let letter = short.chars().find(|letter| !"HIOksvV".contains(*letter)).or_else(|| short.chars().next());
        Self { name: letter.map(String::from).unwrap_or_default(), value: None, is_given: letter.is_some() }
    }

    /// `--part` is `--partition` to `getopt`.
    fn is(&self, long: &str, short: char) -> bool {
        match self.name.len() {
            0 => false,
            1 => self.name.starts_with(short),
            _ => long.starts_with(&self.name),
        }
    }
}

fn reserved(word: &str) -> Option<String> {
    let option = Given::read(word);
    let key = KEYS.iter().find(|(long, short, _)| option.is(long, *short));
    let exact = |list: &[(&'static str, char, &'static str)]| {
        list.iter().find(|(long, ..)| *long == option.name).map(|(long, _, text)| (*long, *text))
    };
    if let Some((_, text)) = exact(&KEYS) {
        return Some(format!("write {text} instead"));
    }
    if let Some((long, text)) = exact(&OURS) {
        return Some(format!("`--{long}` is set by `yard`: {text}"));
    }
    if let Some((_, _, text)) = key {
        return Some(format!("write {text} instead"));
    }
    let (long, _, text) = OURS.iter().find(|(long, short, _)| option.is(long, *short))?;
    Some(format!("`--{long}` is set by `yard`: {text}"))
}
