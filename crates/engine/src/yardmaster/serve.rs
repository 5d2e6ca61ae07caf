//! The loop.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use tokio::net::UnixListener;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant as Clock;
use trainyard_agent::depot::Depot;
use trainyard_agent::disk::now;
use trainyard_core::id::RunId;
use trainyard_core::plan::slots::{Capacity, Slots};
use trainyard_core::run::{Effect, Event};

use super::effects::{self, Submission};
use super::keep::Keep;
use super::lock::{Lock, LockError};
use super::remote::Remote;
use super::sites::{Revealed, Unsent};
use super::socket::{self, Answer, Visit};
use super::sweeps::Sweeps;
use crate::home::Home;
use crate::ledger::{Commit, Ledger, LedgerError};
use crate::site::{self, Reach};
use crate::target::{Declared, Local, News, SubmitError, Target, capacity};

/// How a yardmaster behaves on this machine.
#[derive(Debug, Clone)]
pub struct Settings {
    pub program: PathBuf,
    pub depot: Depot,
    /// Leaves after this long without an open run or a visitor.
    pub idle: Duration,
    /// How sites are reached.
    pub reach: Reach,
    /// The pause between questions to a site, if it is not ours to choose.
    pub pace: Option<Duration>,
}

#[derive(Debug, thiserror::Error)]
pub enum YardmasterError {
    #[error(transparent)]
    Lock(#[from] LockError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("cannot open the door")]
    Door(#[source] std::io::Error),
}

/// A ledger that refuses (a full disk) and attempts in doubt are tried again this often.
pub(super) const AGAIN: Duration = Duration::from_secs(1);
/// Attempts of agents that others started report to nobody.
const LOOK: Duration = Duration::from_secs(2);
/// Agents without work are kept this long.
const DISMISS: Duration = Duration::from_secs(5);

/// Runs until idle, told to leave, or terminated. `ready` is called when visitors are answered.
pub async fn serve(home: &Home, settings: Settings, ready: impl FnOnce()) -> Result<(), YardmasterError> {
    let lock = Lock::take(home)?;
    let ledger = Ledger::open(&home.ledger())?;
    let listener = socket::open(home).map_err(YardmasterError::Door)?;
    let mut yard = Yardmaster::new(ledger, settings);
    yard.take_up().await;
    yard.settle().await;
    ready();
    let done = yard.run(listener).await;
    drop(lock);
    done
}

pub(super) struct Yardmaster {
    ledger: Ledger,
    pub(super) settings: Settings,
    /// What the slot table was made from.
    declared: Option<Declared>,
    local: Rc<Local>,
    pub(super) remote: Remote,
    site_news: mpsc::UnboundedReceiver<site::News>,
    revealed_news: mpsc::UnboundedReceiver<Revealed>,
    pub(super) revealed: mpsc::UnboundedSender<Revealed>,
    sweeps: Sweeps,
    /// Parcels that could not be sent, until they are tried again.
    pub(super) unsent: BTreeMap<String, Unsent>,
    pub(super) keep: Keep,
    pub(super) secrets: BTreeMap<String, String>,
    news: mpsc::UnboundedReceiver<News>,
    submissions: mpsc::UnboundedReceiver<Submission>,
    submitted: mpsc::UnboundedSender<Submission>,
    changes: watch::Sender<u64>,
    /// One clone per visitor.
    pub(super) stay: Rc<()>,
    busy_until: Clock,
    /// When [`Yardmaster::on_time`] was last.
    looked: Clock,
    /// The ledger refused; what it should hold is kept until it takes it.
    refused: bool,
    /// The ledger could not be read; what it holds is not in hand.
    unread: bool,
}

impl Yardmaster {
    fn new(ledger: Ledger, settings: Settings) -> Self {
        let (sender, news) = mpsc::unbounded_channel();
        let (submitted, submissions) = mpsc::unbounded_channel();
        let (heard, site_news) = mpsc::unbounded_channel();
        let (revealed, revealed_news) = mpsc::unbounded_channel();
        let remote = Remote::new(settings.reach.clone(), heard, settings.pace);
        let local = Local::new(settings.depot.clone(), Declared::default(), settings.program.clone(), sender);
        Self {
            ledger,
            keep: Keep::new(Slots::new(Capacity::default())),
            declared: None,
            local: Rc::new(local),
            remote,
            site_news,
            revealed,
            revealed_news,
            sweeps: Sweeps::default(),
            unsent: BTreeMap::new(),
            settings,
            secrets: BTreeMap::new(),
            news,
            submissions,
            submitted,
            changes: watch::Sender::new(0),
            stay: Rc::new(()),
            busy_until: Clock::now(),
            looked: Clock::now(),
            refused: false,
            unread: false,
        }
    }

    async fn run(&mut self, listener: UnixListener) -> Result<(), YardmasterError> {
        let (visits, mut visitors) = mpsc::unbounded_channel::<Visit>();
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map_err(YardmasterError::Door)?;
        loop {
            if self.is_idle() {
                return Ok(());
            }
            let wake = self.next_wake();
            tokio::select! {
                biased;
                _ = terminate.recv() => return Ok(()),
                Some(news) = self.news.recv() => self.keep.hear(news, now()),
                Some(news) = self.site_news.recv() => self.hear_site(news),
                Some((shipment, secrets)) = self.revealed_news.recv() => self.send_revealed(shipment, secrets),
                Some(submission) = self.submissions.recv() => self.take_note(submission),
                Some(visit) = visitors.recv() => if !self.welcome(visit).await { return Ok(()) },
                Ok((stream, _)) = listener.accept() => {
                    let visitor = socket::receive(stream, visits.clone(), self.changes.subscribe(), Rc::clone(&self.stay));
                    tokio::task::spawn_local(async move { drop(visitor.await) });
                },
                () = tokio::time::sleep_until(wake) => {},
            }
            // However much there is to hear.
            if Clock::now() >= wake {
                self.on_time().await;
            }
            while let Ok(news) = self.news.try_recv() {
                self.keep.hear(news, now());
            }
            self.settle().await;
        }
    }

    /// False when the visitor is of a newer build: this yardmaster makes room.
    async fn welcome(&mut self, visit: Visit) -> bool {
        let stays = !super::call::gives_way(&super::call::build(), &visit.knock.build);
        self.keep.supply(visit.knock.secrets.keys(), now());
        self.secrets.extend(visit.knock.secrets);
        if stays {
            self.take_up().await;
            self.settle().await;
            self.remote.hurry();
        }
        // A visitor that has left already needs no answer.
        let _ = visit.answer.send(if stays { Answer::Seen } else { Answer::Leaving });
        if !stays {
            // The answer is written by another task; let it.
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        stays
    }

    async fn take_up(&mut self) {
        let taken = self.try_take_up().await;
        self.unread = taken.is_err();
        if let Err(error) = taken {
            complain(&error);
        }
    }

    async fn try_take_up(&mut self) -> Result<(), LedgerError> {
        loop {
            let found = self.keep.fetch(&self.ledger)?;
            if found.is_empty() {
                break;
            }
            // The newest submission knows best what the machine is.
            let newest = found.iter().rev().find(|active| active.batch.site.is_none());
            if let Some(newest) = newest.filter(|it| self.declared.as_ref() != Some(&it.batch.declared)) {
                let declared = newest.batch.declared.clone();
                self.keep.slots.resize(capacity(&declared).await);
                self.declared = Some(declared);
            }
            self.keep.take_up(found, now());
        }
        self.keep.hear_requests(&self.ledger, now())?;
        self.sweeps.take_up(&self.ledger, &mut self.keep, now())
    }

    /// Finds out doubts, places what fits, remembers, acts: until nothing more follows from it.
    async fn settle(&mut self) {
        self.look().await;
        loop {
            if let Err(error) = self.sweeps.drive(&self.ledger, &mut self.keep, now()) {
                complain(&error);
            }
            self.keep.place(now());
            // A parcel that a power cut made us forget would be sent again under another name.
            let goes_out = !self.keep.parcels.is_empty();
            let commit = if self.refused || goes_out { Commit::Durable } else { Commit::Quick };
            if let Err(error) = self.ledger.apply(commit, &self.keep.changes) {
                self.refused = true;
                complain(&error);
                return;
            }
            self.refused = false;
            if !self.keep.changes.is_empty() {
                self.keep.changes.clear();
                self.changes.send_modify(|count| *count += 1);
            }
            let begun = std::mem::take(&mut self.sweeps.begun);
            if begun {
                self.take_up().await;
            }
            let effects = std::mem::take(&mut self.keep.effects);
            self.stop_at_sites(&effects);
            for (run, effect) in effects {
                self.act(run, effect).await;
            }
            for parcel in std::mem::take(&mut self.keep.parcels) {
                self.ship(parcel);
            }
            if self.keep.changes.is_empty() && self.keep.effects.is_empty() && self.keep.is_told() && !begun {
                break;
            }
        }
        if !self.keep.runs.is_empty() || Rc::strong_count(&self.stay) > 1 {
            self.busy_until = Clock::now();
        }
    }

    async fn look(&mut self) {
        let handles = self.keep.doubtful();
        if handles.is_empty() {
            return;
        }
        // "Could not ask" leaves the doubt as it is.
        let Ok(seen) = self.local.observe(&handles).await else { return };
        for (handle, seen) in handles.iter().zip(seen) {
            self.keep.observed(handle, seen, now());
        }
    }

    async fn act(&mut self, run: RunId, effect: Effect) {
        match effect {
            Effect::Submit { attempt } => {
                let Some(active) = self.keep.runs.get(&run) else { return };
                let (order, project) = (effects::order(active, attempt), active.batch.project.clone());
                let (local, known, submitted) = (Rc::clone(&self.local), self.secrets.clone(), self.submitted.clone());
                if effects::has_secrets(&order.job) {
                    let submitting =
                        async move { drop(submitted.send(effects::submit(local, order, known, project).await)) };
                    tokio::task::spawn_local(submitting);
                } else {
                    let submission = effects::submit(local, order, known, project).await;
                    self.take_note(submission);
                }
            }
            Effect::Stop { attempt } => {
                if let Some(active) = self.keep.runs.get(&run).filter(|active| active.batch.site.is_none()) {
                    effects::stop(&self.local, active, attempt).await;
                }
            }
            Effect::Queue { .. } => {}
        }
    }

    fn take_note(&mut self, submission: Submission) {
        let Some((run, attempt)) = submission.token.parts() else { return };
        let refused = |why: String| (Event::Refused { why: why.clone() }, why);
        let (event, why) = match submission.outcome {
            Ok(()) => return self.keep.stop_if_cancelled(run, attempt),
            Err(SubmitError::Refused(why)) => refused(why),
            Err(SubmitError::Unreachable(error)) => refused(format!("cannot start an agent: {error}")),
            Err(SubmitError::Unsure(_)) => {
                self.keep.doubts.insert(submission.token);
                return;
            }
        };
        self.keep.happen(run, &event, &why, now());
    }

    async fn on_time(&mut self) {
        self.looked = Clock::now();
        let due: Vec<String> = self
            .unsent
            .iter()
            .filter(|(_, unsent)| unsent.next <= self.looked)
            .map(|(parcel, _)| parcel.clone())
            .collect();
        due.into_iter().for_each(|parcel| self.ship(parcel));
        self.remote.ask(&self.keep);
        self.remote.dismiss(&self.keep);
        for (token, status) in self.local.adopted() {
            if let Some(status) = status {
                self.keep.beat(&token, status);
            }
        }
        if self.busy_until.elapsed() > DISMISS || self.keep.slots.waiting() == 0 {
            self.local.dismiss_idle();
        }
        if self.refused || self.unread {
            self.take_up().await;
        }
    }

    fn next_wake(&self) -> Clock {
        let mut pause = if self.keep.runs.is_empty() { self.settings.idle.min(DISMISS) } else { LOOK };
        if self.refused || self.unread || !self.keep.doubts.is_empty() {
            pause = pause.min(AGAIN);
        }
        let unsent = self.unsent.values().map(|unsent| unsent.next);
        let wake = unsent.chain(self.remote.next_wake()).fold(self.looked + pause, Clock::min);
        let due =
            self.keep.next_wake().map(|at| Clock::now() + at.since(now()).as_duration() + Duration::from_millis(1));
        due.map_or(wake, |due| wake.min(due))
    }

    fn is_idle(&self) -> bool {
        let nobody = self.keep.runs.is_empty() && Rc::strong_count(&self.stay) == 1 && !self.refused;
        nobody && self.busy_until.elapsed() >= self.settings.idle
    }
}

/// The log is for whoever asks why; the state of a run does not depend on it.
fn complain(error: &dyn std::error::Error) {
    use std::io::Write;
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    let line = format!("{} {error}{cause}\n", now().0);
    drop(std::io::stderr().write_all(line.as_bytes()));
}
