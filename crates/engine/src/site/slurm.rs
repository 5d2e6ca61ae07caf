//! A SLURM cluster, spoken to at its login node through the pipe.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use trainyard_agent::look::{Fate, Finding, Question};
use trainyard_agent::order::Source;
use trainyard_agent::parcel::Scheduler;
use trainyard_agent::pipe::message::Status;
use trainyard_agent::post::{Letter, NO_CODE, Posted};
use trainyard_core::id::RunId;
use trainyard_core::plan::slurm::{
    self, Accounting, Array, Interruption, Queue, QueueRow, SlurmState, StateClass, Task, Wanted,
};
use trainyard_core::spec::{JobSpec, ResumeBy, Setting, TargetKind};
use trainyard_core::time::{Instant, Span};

use super::{Asked, InQueue, Over, Place, Seen, Shipment, Site, SitePlan};
use crate::pipe::{Pipe, PipeError, Ran};
use crate::target::SubmitError;

/// A controller that does not answer makes its clients wait for some ten seconds.
const PATIENCE: Duration = Duration::from_secs(60);
/// Posting waits for what an earlier, broken posting may still bring about.
const POSTING: Duration = Duration::from_secs(180);
/// Clocks of site and laptop may differ.
const SKEW: Span = Span::seconds(3600);

/// SLURM's name of a parcel: readable, and unique by its end.
pub fn job_name(job: &str, parcel: &str) -> String {
    format!("{job}.{parcel}")
}

#[derive(Debug)]
pub struct Slurm {
    pipe: Pipe,
}

impl Slurm {
    pub fn new(pipe: Pipe) -> Self {
        Self { pipe }
    }

    fn run(&mut self, argv: &[String], stdin: &[u8], limit: Duration) -> Result<Ran, PipeError> {
        self.pipe.run(argv, stdin, &BTreeMap::new(), limit)
    }

    /// What the command printed; its failure is the site's refusal to answer.
    fn ask(&mut self, argv: &[String]) -> Result<String, PipeError> {
        let ran = self.run(argv, &[], PATIENCE)?;
        if ran.succeeded() {
            return Ok(ran.stdout().into_owned());
        }
        let program = argv.iter().find(|word| word.starts_with('s')).map_or("the command", String::as_str);
        Err(PipeError::Refused(match &ran.status {
            Status::NotStarted(why) => format!("`{program}` cannot be started: {why}"),
            Status::TimedOut => format!("`{program}` did not answer in {} s", PATIENCE.as_secs()),
            _ => format!("`{program}`: {}", ran.stderr().trim().replace('\n', "; ")),
        }))
    }

    fn parcel_folder(&self, parcel: &str) -> String {
        format!("{}/parcels/{parcel}", self.pipe.depot())
    }

    fn script(&self, shipment: &Shipment) -> Result<String, SubmitError> {
        script(shipment, self.pipe.depot(), self.pipe.agent()).map_err(SubmitError::Refused)
    }

    fn books(&mut self, names: &BTreeSet<String>, since: Instant) -> Accounting {
        let names: Vec<String> = names.iter().cloned().collect();
        // A site without accounting has no books; nothing follows from that.
        let text = self.ask(&slurm::accounting(&names, since)).unwrap_or_default();
        slurm::parse_accounting(&text)
    }

    fn look(&mut self, asked: &[&Asked]) -> Result<HashMap<RunId, Finding>, PipeError> {
        if asked.is_empty() {
            return Ok(HashMap::new());
        }
        let questions: Vec<Question> = asked.iter().map(|it| Question { run: it.run, known: it.known }).collect();
        let found: Vec<Finding> = self.pipe.task(&["look"], &questions, PATIENCE)?;
        Ok(found.into_iter().map(|finding| (finding.run, finding)).collect())
    }
}

/// The batch script of a parcel; also what `--dry-run` shows.
pub fn script(shipment: &Shipment, depot: &str, agent: &str) -> Result<String, String> {
    let (parcel, plan) = (&shipment.parcel, &shipment.plan);
    let (TargetKind::Slurm(target), Some(facts)) = (&plan.target.kind, &plan.facts) else {
        return Err("this is no SLURM cluster".to_owned());
    };
    let is_secret = |(_, setting): &(&String, &Setting)| matches!(setting, Setting::Secret(_));
    let secrets: Vec<String> = parcel.job.env.iter().filter(is_secret).map(|(name, _)| name.clone()).collect();
    let words = [agent, "agent", "parcel", "--depot", depot, "--parcel", &parcel.id, "--group"];
    let agent: Vec<String> = words.map(str::to_owned).to_vec();
    let name = job_name(&parcel.job.name, &parcel.id);
    let wanted = Wanted {
        job: &parcel.job,
        target,
        facts,
        name: &name,
        parcel_folder: &format!("{depot}/parcels/{}", parcel.id),
        agent: &agent,
        array: array(plan, parcel.groups.len(), &parcel.job),
        mechanism: plan.by,
        secrets: &secrets,
    };
    wanted.script().map(|script| script.to_string()).map_err(|error| error.to_string())
}

fn array(plan: &SitePlan, groups: usize, job: &JobSpec) -> Array {
    let last = u32::try_from(groups).unwrap_or(u32::MAX).saturating_sub(1);
    match plan.by {
        ResumeBy::Array if job.resume.attempts > 1 => Array::Attempts(job.resume.attempts),
        // A successor in a chain is asked for by its place in the array.
        ResumeBy::Chain => Array::Groups { first: 0, last, at_most: None },
        _ if last == 0 => Array::None,
        _ => Array::Groups { first: 0, last, at_most: None },
    }
}

impl Site for Slurm {
    fn submit(&mut self, shipment: &Shipment) -> Result<String, SubmitError> {
        let unsure = |error: PipeError| SubmitError::Unsure(std::io::Error::other(super::chain(&error)));
        let (mut parcel, text) = (shipment.parcel.clone(), self.script(shipment)?);
        if let Scheduler::Slurm { script, .. } = &mut parcel.scheduler {
            script.clone_from(&text);
        }
        let snapshot = match &parcel.source {
            Source::Snapshot(digest) => Some(digest),
            Source::InPlace(_) => None,
        };
        let name = job_name(&parcel.job.name, &parcel.id);
        let whole = serde_json::to_vec(&parcel).map_err(|error| SubmitError::Refused(error.to_string()))?;
        let letter = Letter { parcel: &parcel.id, name: &name, snapshot, text: &whole, script: text.as_bytes() };
        let posted = self.pipe.post(&letter, &shipment.secrets, POSTING).map_err(unsure)?;
        match posted {
            Posted::Job { id, .. } => Ok(format!("SLURM job {id}")),
            Posted::Refused { why } if why == NO_CODE => Err(SubmitError::Refused(why)),
            Posted::Refused { why } => Err(SubmitError::Refused(format!("SLURM: {why}"))),
            Posted::Unreachable { why } => Err(SubmitError::Unreachable(std::io::Error::other(why))),
            Posted::Unsure { why } => Err(SubmitError::Unsure(std::io::Error::other(why))),
        }
    }

    fn observe(&mut self, asked: &[Asked]) -> Result<Vec<Seen>, PipeError> {
        let queue = slurm::parse_queue(&self.ask(&slurm::queue())?);
        let table = Table::new(&queue);
        let mut standing: Vec<Option<InQueue>> = asked.iter().map(|it| table.standing(it)).collect();
        let absent: BTreeSet<String> =
            asked.iter().zip(&standing).filter(|(_, it)| it.is_none()).map(|(it, _)| it.name()).collect();
        let since = asked.iter().zip(&standing).filter(|(_, it)| it.is_none()).map(|(it, _)| it.sent).min();
        if let (Some(since), true) = (since, queue.unread.is_empty()) {
            let books = self.books(&absent, Instant(since.0.saturating_sub_unsigned(SKEW.0)));
            for (it, standing) in asked.iter().zip(&mut standing).filter(|(_, standing)| standing.is_none()) {
                *standing = Some(in_books(&books, it).unwrap_or(InQueue::Absent));
            }
        }
        let worth_a_look = |(it, standing): &(&Asked, &Option<InQueue>)| {
            it.begun || table.has_begun(it) || !matches!(standing, Some(InQueue::Waiting { .. }))
        };
        let wanted: Vec<&Asked> = asked.iter().zip(&standing).filter(worth_a_look).map(|(it, _)| it).collect();
        let found = self.look(&wanted)?;
        let seen = asked.iter().zip(standing).map(|(it, standing)| {
            // A line that could not be read may have been this run's: nothing follows from its absence.
            let queue = standing.unwrap_or(InQueue::Running);
            Seen { run: it.run, queue, finding: found.get(&it.run).cloned() }
        });
        Ok(seen.collect())
    }

    fn cancel(&mut self, asked: &[Asked], insist: bool) -> Result<(), PipeError> {
        let depot = self.pipe.depot().to_owned();
        let marks: Vec<(String, Vec<u8>)> =
            asked.iter().map(|it| (format!("{depot}/runs/{}/cancel", it.run), Vec::new())).collect();
        self.pipe.write(&marks)?;
        let queue = slurm::parse_queue(&self.ask(&slurm::queue())?);
        let groups: BTreeSet<(String, u32)> = asked.iter().map(|it| (it.name(), it.place.group)).collect();
        let mut ending: BTreeMap<String, Vec<Task>> = BTreeMap::new();
        for row in queue.rows {
            // What runs is ended by its agent, which has seen the mark and gives the program its grace. A group that
            // others share goes on without it.
            let waits = row.state.class() == StateClass::Queued;
            let alone = self.is_whole_group(&row, &groups, asked);
            if !row.state.has_ended() && alone && (waits || insist) {
                ending.entry(row.name.clone()).or_default().push(row.task);
            }
        }
        for (name, tasks) in ending {
            self.ask(&slurm::cancel_tasks(&name, &tasks))?;
        }
        Ok(())
    }

    fn settle(&mut self, asked: &Asked, attempt: u32, job: &JobSpec) -> Result<Fate, PipeError> {
        let (run, attempt) = (asked.run.to_string(), attempt.to_string());
        self.pipe.task(&["settle", "--run", &run, "--attempt", &attempt], job, PATIENCE)
    }
}

impl Slurm {
    /// Whether the allocation serves nobody but the runs that are to stop.
    fn is_whole_group(&mut self, row: &QueueRow, groups: &BTreeSet<(String, u32)>, asked: &[Asked]) -> bool {
        let group = row.task.index.unwrap_or(0);
        let Some(it) = asked.iter().find(|it| it.name() == row.name) else { return false };
        let group = if groups.contains(&(row.name.clone(), group)) {
            group
        } else if it.sequential {
            0
        } else {
            return false;
        };
        if it.pack <= 1 {
            return true;
        }
        let path = format!("{}/parcel.json", self.parcel_folder(&it.place.parcel));
        let text = self.pipe.read(&path, 0, u64::MAX).unwrap_or_default();
        let parcel = serde_json::from_slice::<trainyard_agent::parcel::Parcel>(&text);
        let going: BTreeSet<RunId> = asked.iter().map(|it| it.run).collect();
        parcel.is_ok_and(|parcel| parcel.group(group).iter().all(|member| going.contains(&member.id)))
    }
}

impl Asked {
    fn name(&self) -> String {
        job_name(&self.job, &self.place.parcel)
    }
}

/// SLURM's rows by parcel and group.
struct Table<'a> {
    rows: HashMap<(&'a str, Option<u32>), Vec<&'a QueueRow>>,
}

impl<'a> Table<'a> {
    fn new(queue: &'a Queue) -> Self {
        let mut rows: HashMap<(&str, Option<u32>), Vec<&QueueRow>> = HashMap::with_capacity(queue.rows.len());
        for row in &queue.rows {
            let Some((_, parcel)) = row.name.rsplit_once('.') else { continue };
            rows.entry((parcel, row.task.index)).or_default().push(row);
            // A waiting array that was cancelled before it began is one row without a place.
            if row.task.index.is_some() {
                rows.entry((parcel, None)).or_default().push(row);
            }
        }
        Self { rows }
    }

    fn of(&self, asked: &Asked) -> Vec<&'a QueueRow> {
        let Place { parcel, group } = &asked.place;
        let get = |index| self.rows.get(&(parcel.as_str(), index)).cloned().unwrap_or_default();
        let all = get(None);
        if asked.sequential {
            return all;
        }
        let own = get(Some(*group));
        let whole = all.into_iter().filter(|row| row.task.index.is_none());
        if own.is_empty() { whole.collect() } else { own }
    }

    fn has_begun(&self, asked: &Asked) -> bool {
        self.of(asked).iter().any(|row| row.state.class() != StateClass::Queued)
    }

    /// `None` when there is no row.
    fn standing(&self, asked: &Asked) -> Option<InQueue> {
        let rows = self.of(asked);
        let class = |wanted: StateClass| rows.iter().find(|row| row.state.class() == wanted);
        if class(StateClass::Running).is_some() {
            return Some(InQueue::Running);
        }
        // Of a chain the next link waits for the one that runs; of several that wait, the others say more.
        let mut waiting: Vec<_> = rows.iter().filter(|row| row.state.class() == StateClass::Queued).collect();
        waiting.sort_by_key(|row| row.reason.as_deref().is_some_and(|why| why.contains("Dependency")));
        if let Some(row) = waiting.first() {
            return Some(InQueue::Waiting { why: why(row) });
        }
        if let Some(row) = class(StateClass::Unknown) {
            return Some(InQueue::Other { state: row.state.to_string() });
        }
        let newest = rows.iter().max_by_key(|row| (row.submitted, row.end))?;
        Some(InQueue::Over(over(&newest.state)))
    }
}

/// Why a job waits, and when SLURM believes it will start.
fn why(row: &QueueRow) -> Option<String> {
    let waiting = slurm::waiting(row)?;
    let words = waiting.words.or(waiting.reason);
    let starts = waiting.expected.and_then(|at| jiff::Timestamp::from_millisecond(at.0).ok()).map(|at| {
        let local = at.to_zoned(jiff::tz::TimeZone::system());
        let today = local.date() == jiff::Zoned::now().date();
        let text = if today { local.strftime("%H:%M") } else { local.strftime("%a %H:%M") };
        format!("SLURM expects it to start about {text}")
    });
    let parts: Vec<String> = words.into_iter().chain(starts).collect();
    (!parts.is_empty()).then(|| parts.join("; "))
}

fn in_books(books: &Accounting, asked: &Asked) -> Option<InQueue> {
    let name = asked.name();
    let of_it = |row: &&slurm::AccountingRow| {
        row.name == name && (asked.sequential || row.task.index.is_none_or(|index| index == asked.place.group))
    };
    let newest = books.rows.iter().filter(of_it).max_by_key(|row| (row.start, row.end))?;
    Some(if newest.state.has_ended() { InQueue::Over(over(&newest.state)) } else { InQueue::Unsettled })
}

fn over(state: &SlurmState) -> Over {
    match state.class() {
        StateClass::Cancelled => Over::Cancelled,
        StateClass::Resumable(Interruption::TimeLimit) => Over::TimeLimit,
        StateClass::Resumable(Interruption::Preempted) => Over::Preempted,
        StateClass::Resumable(Interruption::NodeFailure) => Over::NodeFailure,
        StateClass::Failed if *state == SlurmState::OutOfMemory => Over::OutOfMemory,
        StateClass::Failed => Over::Failed { how: state.to_string() },
        StateClass::Succeeded | StateClass::Queued | StateClass::Running | StateClass::Unknown => Over::Ended,
    }
}
