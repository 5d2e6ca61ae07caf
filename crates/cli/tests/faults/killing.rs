//! `kill -9` at random moments, under load: commands, yardmasters and agents.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use trainyard_agent::claim::Claim;
use trainyard_agent::depot::Depot;
use trainyard_agent::disk::read_json;
use trainyard_agent::process::Identity;
use trainyard_testkit::census::{self, Process};
use trainyard_testkit::{Output, Yard, processes, within};

use crate::{LOST, PROGRAM};

const KILLS: usize = 200;
/// For all of them; it takes a tenth of that.
const PATIENCE: Duration = Duration::from_secs(200);
const BATCHES: usize = 10;
const RUNS: usize = 30;

const JOBS: &str = r#"
[targets.local]
kind = "local"
cpus = 8

[jobs.once]
command = ["sh", "work.sh"]
env = { BOOK = "BOOK-FILE" }

[jobs.again]
outputs = ["ckpt/"]
command = ["sh", "work.sh"]
env = { BOOK = "BOOK-FILE" }
[jobs.again.resume]
attempts = 20
on = ["node-failure"]
checkpoint = "ckpt/*"
args = ["{checkpoint}"]
"#;

/// What it starts aside outlives it by far, and would be seen in the book if nobody ended it.
const WORK: &str = r#"
echo "$YARD_RUN $YARD_ATTEMPT start" >> "$BOOK"
mkdir -p ckpt
echo progress > "ckpt/$YARD_ATTEMPT"
setsid sh -c 'sleep 3; echo "$YARD_RUN $YARD_ATTEMPT escaped" >> "$BOOK"' &
sleep "0.$(printf %03d $((YARD_SEED * 37 % 300)))"
echo "$YARD_RUN $YARD_ATTEMPT end" >> "$BOOK"
if [ $((YARD_SEED % 7)) -eq 3 ]; then exit 3; fi
"#;

/// SplitMix64: the same moments for the same seed, as far as the machine allows.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) % limit as u64) as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Role {
    Yardmaster,
    Agent,
    Command,
}

const ROLES: [Role; 3] = [Role::Yardmaster, Role::Agent, Role::Command];

fn role(home: &Path, process: &Process, all: &BTreeMap<i32, Process>) -> Option<Role> {
    let ours = |process: &Process| process.arguments.first().is_some_and(|program| program == PROGRAM);
    let word = |process: &Process| process.arguments.get(1).cloned().unwrap_or_default();
    if process.variable("YARD_HOME").map(Path::new) != Some(home) || !ours(process) {
        return None;
    }
    match word(process).as_str() {
        "yardmaster" => Some(Role::Yardmaster),
        // A fork of an agent that is about to become the program.
        "agent" if all.get(&process.parent).is_some_and(|parent| ours(parent) && word(parent) == "agent") => None,
        "agent" => Some(Role::Agent),
        _ => Some(Role::Command),
    }
}

fn living(home: &Path) -> Vec<(Role, i32)> {
    let all: BTreeMap<i32, Process> = census::take().into_iter().map(|process| (process.pid, process)).collect();
    all.values().filter_map(|process| Some((role(home, process, &all)?, process.pid))).collect()
}

/// Whom it hit.
#[derive(Debug, Default)]
struct Toll {
    agents: Vec<Identity>,
    counts: BTreeMap<Role, usize>,
}

fn kill_at_random(home: &Path, random: &mut Random, kills: &AtomicUsize) -> Toll {
    let mut toll = Toll::default();
    let until = Instant::now() + PATIENCE;
    while kills.load(Ordering::SeqCst) < KILLS {
        assert!(Instant::now() < until, "too few to kill: {toll:?}");
        std::thread::sleep(Duration::from_millis(random.below(50) as u64));
        let wanted = ROLES[random.below(ROLES.len())];
        let all = living(home);
        let candidates: Vec<i32> = all.iter().filter(|(role, _)| *role == wanted).map(|(_, pid)| *pid).collect();
        if candidates.is_empty() {
            continue;
        }
        let victim = candidates[random.below(candidates.len())];
        if wanted == Role::Agent {
            toll.agents.extend(Identity::of(victim));
        }
        processes::kill(victim);
        *toll.counts.entry(wanted).or_default() += 1;
        kills.fetch_add(1, Ordering::SeqCst);
    }
    toll
}

/// `exit` is -1 for a command that was killed.
fn may_only_miss_the_yardmaster(output: &Output) {
    let fine = match output.exit {
        -1 | 0 => true,
        // It was killed before it could answer, several times in a row.
        3 => output.stderr.contains("yardmaster"),
        _ => false,
    };
    assert!(fine, "{output:?}");
}

fn submit(yard: &Yard, batch: usize, kills: &AtomicUsize) -> Output {
    within(PATIENCE, "its turn", || (kills.load(Ordering::SeqCst) >= batch * KILLS / BATCHES).then_some(()));
    let job = if batch.is_multiple_of(2) { "once" } else { "again" };
    let (name, seeds) = (format!("b{batch}"), format!("1-{RUNS}"));
    yard.run(&["run", job, "--detach", "--name", &name, "--seeds", &seeds])
}

/// Submits while the killing goes on, and keeps somebody at the door all the time.
fn under_load(yard: &Yard, random: &mut Random) -> (Toll, Vec<Output>) {
    let kills = &AtomicUsize::new(0);
    let home = yard.home();
    std::thread::scope(|scope| {
        let submitters: Vec<_> = (0..BATCHES).map(|batch| scope.spawn(move || submit(yard, batch, kills))).collect();
        for _ in 0..2 {
            scope.spawn(|| {
                while kills.load(Ordering::SeqCst) < KILLS {
                    may_only_miss_the_yardmaster(&Output::of(yard.command(&["ps"]).stdout(Stdio::null())));
                }
            });
        }
        let toll = kill_at_random(&home, random, kills);
        (toll, submitters.into_iter().map(|submitter| submitter.join().unwrap()).collect())
    })
}

/// How often each line stands in the book.
fn read_book(path: &Path) -> BTreeMap<String, usize> {
    let mut lines = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        *lines.entry(line.to_owned()).or_default() += 1;
    }
    lines
}

/// All runs of a submission are there, or none; and none only if its command was killed.
fn submissions_are_whole(runs: &[Value], outputs: &[Output]) {
    for (batch, output) in outputs.iter().enumerate() {
        may_only_miss_the_yardmaster(output);
        let prefix = format!("b{batch}-s");
        let there = runs.iter().filter(|run| run["name"].as_str().unwrap().starts_with(&prefix)).count();
        assert!(there == RUNS || (there == 0 && output.exit == -1), "{there} runs of batch {batch}: {output:?}");
    }
}

struct Evidence<'a> {
    depot: Depot,
    book: BTreeMap<String, usize>,
    toll: &'a Toll,
}

impl Evidence<'_> {
    fn has(&self, run: &Value, attempt: u64, what: &str) -> bool {
        self.book.contains_key(&format!("{} {attempt} {what}", run["id"].as_str().unwrap()))
    }

    fn starts(&self, run: &Value) -> usize {
        let id = run["id"].as_str().unwrap();
        self.book.keys().filter(|line| line.starts_with(id) && line.ends_with("start")).count()
    }

    fn agent_was_killed(&self, run: &Value, attempt: u64) -> bool {
        let folder = self.depot.run(run["id"].as_str().unwrap().parse().unwrap()).attempt(attempt as u32);
        let claim = read_json::<Claim>(&folder.claim()).unwrap_or_else(|| panic!("no claim for {run}"));
        claim.agent.is_some_and(|agent| self.toll.agents.contains(&agent))
    }

    fn got_somewhere(&self, run: &Value, attempt: u64) -> bool {
        let work = self.depot.run(run["id"].as_str().unwrap().parse().unwrap()).work();
        std::fs::metadata(work.join(format!("ckpt/{attempt}"))).is_ok_and(|checkpoint| checkpoint.len() > 0)
    }

    fn gave_up_rightly(&self, run: &Value, attempt: u64, reason: &str) -> bool {
        let killed = (1..=attempt).filter(|attempt| self.agent_was_killed(run, *attempt)).count();
        let crash_loop = reason.contains("crash loop") && killed >= 2 && !self.got_somewhere(run, attempt);
        crash_loop || (reason.contains("all 20 attempts used") && killed >= 20)
    }

    fn judge(&self, run: &Value) {
        let attempt = run["attempt"].as_u64().unwrap();
        let fails = run["seed"].as_u64().unwrap() % 7 == 3;
        let (state, code) = if fails { ("failed", 3) } else { ("succeeded", 0) };
        if run["state"] == state && run["exit_code"] == code {
            assert!(self.has(run, attempt, "start") && self.has(run, attempt, "end"), "ended without a trace: {run}");
        } else {
            let reason = run["reason"].as_str().unwrap_or_default();
            assert!(run["state"] == "failed" && reason.starts_with(LOST), "{run}");
            assert!(self.agent_was_killed(run, attempt), "nobody killed its agent: {run}");
            if run["job"] == "again" {
                assert!(self.gave_up_rightly(run, attempt, reason), "{run}");
            }
        }
        let most = if run["job"] == "again" { attempt as usize } else { 1 };
        assert!(self.starts(run) <= most, "executed {} times: {run}", self.starts(run));
    }
}

fn nothing_is_left(yard: &Yard, runs: &[Value]) {
    let ids: BTreeSet<&str> = runs.iter().map(|run| run["id"].as_str().unwrap()).collect();
    let of_runs: Vec<Process> = census::take()
        .into_iter()
        .filter(|process| process.variable("YARD_RUN").is_some_and(|run| ids.contains(run)))
        .collect();
    assert!(of_runs.is_empty(), "{of_runs:?}");
    let home = yard.home();
    let agents = || living(&home).into_iter().filter(|(role, _)| *role == Role::Agent).count();
    within(Duration::from_secs(20), "idle agents to leave", || (agents() == 0).then_some(()));
}

fn ledger_is_sound(yard: &Yard) {
    let ledger = rusqlite::Connection::open(yard.home().join("ledger.db")).unwrap();
    let said: String = ledger.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(said, "ok");
}

#[test]
fn two_hundred_kills_lose_nothing_and_repeat_nothing() {
    let yard = crate::yard("");
    let book: PathBuf = yard.root().join("book");
    yard.write("trainyard.toml", &JOBS.replace("BOOK-FILE", &book.to_string_lossy()));
    yard.write("work.sh", WORK);

    let (toll, outputs) = under_load(&yard, &mut Random(20_260_101));
    let waited = yard.run(&["wait", "--timeout", "60s"]);
    assert!(waited.exit <= 1, "{waited:?}");

    let runs = yard.runs();
    submissions_are_whole(&runs, &outputs);
    assert!(runs.len() >= BATCHES / 2 * RUNS, "too few for a load: {}", runs.len());
    assert!(ROLES.iter().all(|role| toll.counts.get(role).is_some_and(|count| *count > 20)), "{:?}", toll.counts);
    let evidence = Evidence { depot: Depot::new(yard.home().join("depot")), book: read_book(&book), toll: &toll };
    for (line, count) in &evidence.book {
        assert!(*count == 1 && !line.ends_with("escaped"), "{count} times {line}");
    }
    runs.iter().for_each(|run| evidence.judge(run));
    let resumed = runs.iter().filter(|run| evidence.starts(run) > 1).count();
    let lost = runs.iter().filter(|run| run["reason"] == LOST).count();
    assert!(resumed > 3 && lost > 3, "too few hits for a test: {resumed} runs resumed, {lost} lost");
    nothing_is_left(&yard, &runs);
    ledger_is_sound(&yard);
}

const QUEUE: &str = r#"
[targets.local]
kind = "local"
cpus = 1
[jobs.blocker]
command = ["sh", "-c", "echo begun; sleep 600"]
[jobs.waiting]
command = ["true"]
"#;

/// Killed at moments from its first to its last.
#[test]
fn a_submission_is_there_as_a_whole_or_not_at_all() {
    const MOMENTS: u32 = 16;
    let yard = crate::yard(QUEUE);
    crate::begin(&yard, &["blocker"]);
    let submit = |name: &str| yard.command(&["run", "waiting", "--detach", "--name", name, "--seeds", "1-1000"]);
    let began = Instant::now();
    assert_eq!(Output::of(&mut submit("whole")).exit, 0);
    let length = began.elapsed();

    let ledger = rusqlite::Connection::open(yard.home().join("ledger.db")).unwrap();
    let mut counts = BTreeSet::new();
    for moment in 0..MOMENTS {
        let name = format!("k{moment}");
        let mut command = submit(&name).stdout(Stdio::null()).spawn().unwrap();
        std::thread::sleep(length * moment / MOMENTS);
        command.kill().unwrap();
        command.wait().unwrap();
        let there = "SELECT count(*) FROM runs WHERE name LIKE ?1 || '-s%'";
        counts.insert(ledger.query_row(there, [&name], |row| row.get::<_, i64>(0)).unwrap());
    }
    assert_eq!(counts, BTreeSet::from([0, 1000]));
}
