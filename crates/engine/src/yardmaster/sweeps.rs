//! Sweeps that go on: their runs' reports and ends are told to `core::search::Sweep`, and what it decides is recorded
//! together with what led to it, in one transaction. Which target a run goes to is of no concern there.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use trainyard_agent::order::Point;
use trainyard_core::id::RunId;
use trainyard_core::run::{Event, Outcome as RunOutcome, Policy, Run, State};
use trainyard_core::search::{Deed, Leg, Outcome, Phase, Report, Role, Spent, Sweep};
use trainyard_core::spec::More;
use trainyard_core::time::Instant;

use super::keep::Keep;
use crate::ledger::{
    Batch, Change, Ledger, LedgerError, NewRun, SweepChange, SweepRecord, SweepRequest, SweepRow, SweepState, new_id,
};

#[derive(Default)]
pub(super) struct Sweeps {
    open: BTreeMap<i64, Going>,
    /// Runs that have just entered the ledger.
    pub(super) begun: bool,
}

struct Going {
    row: SweepRow,
    sweep: Sweep,
    batches: Vec<(i64, Rc<Batch>)>,
    /// The run of each leg that has begun.
    runs: HashMap<u32, RunId>,
    legs: HashMap<RunId, u32>,
    /// The submission each leg went with.
    placed: HashMap<u32, usize>,
}

/// A run of which the keeper says that it has ended.
#[derive(Debug)]
pub(super) struct EndedRun {
    pub(super) id: RunId,
    pub(super) run: Run,
    pub(super) course: Vec<Point>,
}

impl Sweeps {
    /// Sweeps that commands have put into the ledger since the last look, and what people want of those in hand.
    pub(super) fn take_up(&mut self, ledger: &Ledger, keep: &mut Keep, now: Instant) -> Result<(), LedgerError> {
        for row in ledger.open_sweeps()? {
            if let Entry::Vacant(place) = self.open.entry(row.id) {
                place.insert(Going::restore(ledger, keep, row)?);
            }
        }
        for (id, sweep, request) in ledger.sweep_requests()? {
            let going = match self.open.entry(sweep) {
                Entry::Occupied(place) => place.into_mut(),
                // One that has ended may be asked for more.
                Entry::Vacant(place) => match ledger.sweep(sweep)? {
                    Some(row) => place.insert(Going::restore(ledger, keep, row)?),
                    None => continue,
                },
            };
            going.hear(&request, keep, now);
            keep.changes.push(Change::Sweep { sweep, change: SweepChange::RequestsUpTo { id } });
        }
        Ok(())
    }

    /// Tells each sweep what has become of its runs, and takes down what it decides.
    pub(super) fn drive(&mut self, ledger: &Ledger, keep: &mut Keep, now: Instant) -> Result<(), LedgerError> {
        let (ended, reported) = (std::mem::take(&mut keep.ended), std::mem::take(&mut keep.reported));
        if self.open.is_empty() {
            return Ok(());
        }
        for id in reported {
            let of_it = self.open.values_mut().find_map(|going| Some((*going.legs.get(&id)?, going)));
            if let (Some((leg, going)), Some(active)) = (of_it, keep.runs.get(&id)) {
                going.sweep.course(leg, &reports(&active.course));
            }
        }
        for run in ended {
            let of_it = self.open.values_mut().find_map(|going| Some((*going.legs.get(&run.id)?, going)));
            if let Some((leg, going)) = of_it {
                going.sweep.ended(leg, outcome(&run.run.state), &reports(&run.course));
            }
        }
        for going in self.open.values_mut() {
            self.begun |= going.go_on(ledger, keep, now)?;
        }
        // Of one that was stopped the ends of its runs are still awaited.
        self.open.retain(|_, going| !going.row.state.has_ended() || going.sweep.open().next().is_some());
        Ok(())
    }
}

impl Going {
    fn restore(ledger: &Ledger, keep: &mut Keep, row: SweepRow) -> Result<Self, LedgerError> {
        let SweepRecord { record, runs } = ledger.sweep_record(&row)?;
        let sweep = Sweep::restore(record).map_err(|error| LedgerError::Sweep { name: row.name.clone(), error })?;
        let batches: Vec<(i64, Rc<Batch>)> =
            row.batches.iter().map(|id| Ok((*id, keep.batch(ledger, *id)?))).collect::<Result<_, LedgerError>>()?;
        let mut going =
            Self { row, sweep, batches, runs: HashMap::new(), legs: HashMap::new(), placed: HashMap::new() };
        for (leg, run) in (0u32..).zip(runs) {
            if let Some(run) = run {
                going.runs.insert(leg, run);
                going.legs.insert(run, leg);
            }
        }
        // With one target there is nothing to choose.
        if going.batches.len() > 1 {
            let place = |batch: i64| going.row.batches.iter().position(|known| *known == batch);
            let placed = ledger.batches_of_legs(going.row.id)?.into_iter();
            going.placed = placed.filter_map(|(leg, batch)| Some((leg, place(batch)?))).collect();
        }
        going.catch_up(ledger)?;
        going.sweep.sentenced().into_iter().for_each(|leg| going.stop(leg, keep, trainyard_agent::disk::now()));
        Ok(going)
    }

    /// Runs may have ended, or reported, while nobody listened. First who goes on: others may begin where they are.
    fn catch_up(&mut self, ledger: &Ledger) -> Result<(), LedgerError> {
        let mut ended = Vec::new();
        for leg in self.sweep.open().collect::<Vec<_>>() {
            match self.runs.get(&leg).map(|run| ledger.run(*run)).transpose()?.flatten() {
                Some(row) if row.run.state.has_ended() => {
                    ended.push((leg, outcome(&row.run.state), reports(&row.course)));
                }
                Some(row) => self.sweep.course(leg, &reports(&row.course)),
                // Cleaned away.
                None => ended.push((leg, Outcome::Cancelled, Vec::new())),
            }
        }
        ended.iter().for_each(|(leg, outcome, course)| self.sweep.ended(*leg, *outcome, course));
        Ok(())
    }

    fn hear(&mut self, request: &SweepRequest, keep: &mut Keep, now: Instant) {
        match request {
            SweepRequest::Pause if self.row.state == SweepState::Going => {
                self.enter(SweepState::Paused, None, keep, now);
            }
            SweepRequest::Resume if !self.row.state.has_ended() => self.enter(SweepState::Going, None, keep, now),
            SweepRequest::Stop if !self.row.state.has_ended() => {
                let open: Vec<u32> = self.sweep.open().collect();
                open.into_iter().for_each(|leg| self.stop(leg, keep, now));
                self.enter(SweepState::Stopped, Some("stopped by hand".to_owned()), keep, now);
            }
            SweepRequest::Extend(more) => self.extend(more, keep, now),
            SweepRequest::Pause | SweepRequest::Resume | SweepRequest::Stop => {}
        }
    }

    /// The command has made sure that it can be.
    fn extend(&mut self, more: &More, keep: &mut Keep, now: Instant) {
        let mut before = self.sweep.spec().clone();
        if more.time.is_some() {
            // Time that went by after its end was nobody's.
            before.budget.time = before.budget.time.map(|time| time.max(now.since(self.row.created)));
        }
        let Ok(spec) = before.extended(more) else { return };
        self.row.spec.clone_from(&spec);
        let change = SweepChange::Spec { spec: Box::new(spec.clone()) };
        keep.changes.push(Change::Sweep { sweep: self.row.id, change });
        self.sweep.extend(spec);
        self.enter(SweepState::Going, None, keep, now);
    }

    fn enter(&mut self, state: SweepState, reason: Option<String>, keep: &mut Keep, now: Instant) {
        self.row.state = state;
        let change = SweepChange::State { state, reason, at: now };
        keep.changes.push(Change::Sweep { sweep: self.row.id, change });
    }

    fn stop(&self, leg: u32, keep: &mut Keep, now: Instant) {
        if let Some(run) = self.runs.get(&leg) {
            keep.happen(*run, &Event::CancelAsked, "ended by its sweep", now);
        }
    }

    /// Whether runs were begun.
    fn go_on(&mut self, ledger: &Ledger, keep: &mut Keep, now: Instant) -> Result<bool, LedgerError> {
        let mut begun = false;
        if self.row.state == SweepState::Going {
            let spent = self.spent(ledger, now)?;
            self.sweep.fill(spent, self.portion());
            begun = self.record(keep, now);
            if let Phase::Done { why, gave_up } = self.sweep.phase(spent)
                && self.sweep.open().next().is_none()
            {
                let state = if gave_up { SweepState::Failed } else { SweepState::Done };
                self.enter(state, Some(why), keep, now);
            }
        }
        Ok(self.record(keep, now) || begun)
    }

    /// Where runs share an allocation they are begun together.
    fn portion(&self) -> u32 {
        let packs = self.batches.iter().filter_map(|(_, batch)| batch.site.as_ref());
        packs.map(|plan| plan.pack).max().unwrap_or(1).max(1)
    }

    fn spent(&self, ledger: &Ledger, now: Instant) -> Result<Spent, LedgerError> {
        let gpus = self.batches.first().map_or(0.0, |(_, batch)| batch.job.total_gpus().as_f64());
        ledger.spent_by_sweep(&self.row, gpus, now)
    }

    fn record(&mut self, keep: &mut Keep, now: Instant) -> bool {
        let mut begun = false;
        for deed in self.sweep.deeds() {
            let change = match deed {
                Deed::Try { trial, params } => SweepChange::Try { trial, params },
                Deed::Fate { trial, fate } => SweepChange::Fate { trial, fate },
                Deed::Await { leg, what } => SweepChange::Await { leg, what },
                Deed::Ended { leg, end } => SweepChange::Ended { leg, end },
                Deed::Told { number, what } => SweepChange::Told { number, what },
                Deed::Failures { in_a_row } => SweepChange::Failures { in_a_row },
                Deed::Confirm { .. } => SweepChange::Spec { spec: Box::new(self.sweep.spec().clone()) },
                Deed::Begin { leg } => {
                    let Some(change) = self.begin(leg, keep, now) else { continue };
                    begun = true;
                    change
                }
                Deed::Stop { leg } => {
                    self.stop(leg, keep, now);
                    continue;
                }
            };
            keep.changes.push(Change::Sweep { sweep: self.row.id, change });
        }
        begun
    }

    fn begin(&mut self, leg: u32, keep: &Keep, now: Instant) -> Option<SweepChange> {
        let what = self.sweep.leg(leg)?.clone();
        let place = self.place(&what, keep);
        let (batch, common) = self.batches.get(place)?;
        let policy = Policy { attempts: common.job.resume.attempts, on: common.job.resume.on.clone() };
        let mut params = common.job.params.clone();
        params.extend(self.sweep.params_of(what.trial)?);
        let run = NewRun {
            id: new_id(),
            name: self.name(&what),
            seed: Some(what.seed),
            params,
            from: what.from.and_then(|from| self.runs.get(&from).copied()),
            run: Run::new(policy, now),
            place: None,
            retry_of: None,
        };
        self.runs.insert(leg, run.id);
        self.legs.insert(run.id, leg);
        self.placed.insert(leg, place);
        let (job, target) = (common.job.name.clone(), common.target.clone());
        Some(SweepChange::Begin { leg, batch: *batch, job, target, run: Box::new(run), at: now })
    }

    fn name(&self, leg: &Leg) -> String {
        let trial = format!("{}-{}", self.row.name, leg.trial);
        match leg.role {
            Role::Search => trial,
            Role::Repeat { .. } | Role::Confirm { .. } => format!("{trial}-s{}", leg.seed),
        }
    }

    /// The target where the fewest wait and then the fewest are; one that goes on from a checkpoint stays where that is.
    fn place(&self, leg: &Leg, keep: &Keep) -> usize {
        if let Some(place) = leg.from.and_then(|from| self.placed.get(&from)) {
            return *place;
        }
        let mut load = vec![(0u32, 0u32); self.batches.len()];
        for (leg, place) in self.sweep.open().filter_map(|leg| Some((leg, *self.placed.get(&leg)?))) {
            let state = self.runs.get(&leg).and_then(|run| keep.runs.get(run)).map(|active| &active.open.run.state);
            let waits = !matches!(state, Some(State::Running { .. } | State::Cancelling { .. }));
            if let Some(load) = load.get_mut(place) {
                *load = (load.0 + u32::from(waits), load.1 + 1);
            }
        }
        let least = load.iter().enumerate().min_by_key(|(_, load)| **load);
        least.map_or(0, |(place, _)| place)
    }
}

fn reports(course: &[Point]) -> Vec<Report> {
    course.iter().filter_map(|point| Some(Report { step: point.step, value: point.value? })).collect()
}

fn outcome(state: &State) -> Outcome {
    match state {
        State::Succeeded { .. } => Outcome::Succeeded,
        State::Cancelled { .. } => Outcome::Cancelled,
        State::Failed { reason, .. } => match reason.outcome() {
            Some(RunOutcome::Lost { .. } | RunOutcome::Preempted) => Outcome::Lost,
            Some(RunOutcome::TimeLimit) => Outcome::OutOfTime,
            _ => Outcome::Failed,
        },
        // Not ended; nothing of it is known here.
        State::Queued { .. }
        | State::Starting { .. }
        | State::Waiting { .. }
        | State::Running { .. }
        | State::Cancelling { .. } => Outcome::Lost,
    }
}
