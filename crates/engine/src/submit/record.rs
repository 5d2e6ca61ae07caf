//! Carrying a plan out: the code goes to where it will be run, then the runs into the ledger. From there on they cannot
//! be lost.

use std::collections::BTreeMap;
use std::time::Duration;

use trainyard_agent::depot::Depot;
use trainyard_agent::disk::now;
use trainyard_agent::order::Source;
use trainyard_core::id::{Digest, RunId};
use trainyard_core::run::{Event, Policy, Run, decide};
use trainyard_core::spec::Start;
use trainyard_core::time::Instant;

use super::{Destination, Plan, PlannedRun, SubmitError};
use crate::ledger::{Batch, Ledger, LedgerError, NewRun, RunRow, new_id};
use crate::provenance::{Inquiry, inquire};
use crate::snapshot;
use crate::target::Declared;

/// Git has had as long as everything else took; a large repository that nobody has looked at for long takes longer.
const GIT_PATIENCE: Duration = Duration::from_millis(50);

/// Puts the code where the runs will find it. Interrupted, it leaves nothing but contents that the next try need not send.
pub fn deliver(plan: &Plan, courier: &mut dyn Courier) -> Result<Delivered, SubmitError> {
    let inquiry = inquire(&plan.project);
    let (source, depot) = match &plan.destination {
        Destination::Here { depot, .. } if plan.job.in_place => (Source::InPlace(plan.project.clone()), depot.clone()),
        Destination::Here { depot, .. } => {
            let taken = snapshot::take(&plan.project, &plan.rules, &plan.cache, depot)?;
            (Source::Snapshot(taken.digest), depot.clone())
        }
        Destination::Site(_) => {
            let (digest, depot) = courier.bring(plan)?;
            (Source::Snapshot(digest), depot)
        }
    };
    Ok(Delivered { source, depot, inquiry })
}

/// Brings code to a site.
pub trait Courier {
    fn bring(&mut self, plan: &Plan) -> Result<(Digest, Depot), SubmitError>;
}

/// Where the code of a plan is now, and what git is still asked about it.
#[derive(Debug)]
pub struct Delivered {
    source: Source,
    depot: Depot,
    inquiry: Option<Inquiry>,
}

impl Delivered {
    /// For another plan of the same project and target. Git is asked once.
    pub fn shared(&self) -> Self {
        Self { source: self.source.clone(), depot: self.depot.clone(), inquiry: None }
    }
}

/// What a submission is made of: what its runs have in common, and the runs. Git is waited for.
pub(crate) fn batch(plan: Plan, mut delivered: Delivered) -> (Batch, Vec<PlannedRun>) {
    let inquiry = delivered.inquiry.take();
    let (mut batch, runs) = parts(plan, delivered);
    batch.provenance = inquiry.map(|inquiry| inquiry.finish(GIT_PATIENCE));
    (batch, runs)
}

fn parts(plan: Plan, delivered: Delivered) -> (Batch, Vec<PlannedRun>) {
    let (declared, site) = match plan.destination {
        Destination::Here { declared, .. } => (declared, None),
        Destination::Site(site) => (Declared::default(), Some(*site)),
    };
    let batch = Batch {
        project: plan.project,
        target: plan.target,
        declared,
        depot: delivered.depot,
        job: plan.job,
        source: delivered.source,
        env: plan.env,
        extra: plan.extra,
        site,
        provenance: None,
        tie: plan.tie,
    };
    (batch, plan.runs)
}

/// Runs that are in the ledger, and what git is still asked about their project.
#[derive(Debug)]
pub struct Recorded {
    pub runs: Vec<RunId>,
    batches: Vec<i64>,
    inquiry: Option<Inquiry>,
}

/// Afterwards the ledger holds all runs of all plans, or none. Git is not waited for.
pub fn record(plans: Vec<(Plan, Delivered)>, ledger: &mut Ledger) -> Result<Recorded, SubmitError> {
    let moment = now();
    let mut inquiry: Option<Inquiry> = None;
    let mut all = Vec::new();
    for (plan, mut delivered) in plans {
        inquiry = inquiry.or(delivered.inquiry.take());
        let (mut batch, runs) = parts(plan, delivered);
        batch.provenance = inquiry.as_ref().map(Inquiry::so_far);
        let mut runs = new_runs(&batch, runs, moment);
        place(&batch, &mut runs, moment);
        all.push((batch, runs));
    }
    let batches = ledger.submit_all(&all, moment)?;
    Ok(Recorded { runs: all.iter().flat_map(|(_, runs)| runs.iter().map(|run| run.id)).collect(), batches, inquiry })
}

fn new_runs(batch: &Batch, runs: Vec<PlannedRun>, moment: Instant) -> Vec<NewRun> {
    let policy = Policy { attempts: batch.job.resume.attempts, on: batch.job.resume.on.clone() };
    let new = |run: PlannedRun| NewRun {
        id: run.id,
        name: run.name,
        seed: run.seed,
        params: run.params,
        from: None,
        run: Run::new(policy.clone(), moment),
        place: None,
        retry_of: None,
    };
    runs.into_iter().map(new).collect()
}

impl Recorded {
    /// Once nobody waits for anything else: whether the project had changes that are in no commit.
    pub fn finish(&mut self, ledger: &mut Ledger) -> Result<(), LedgerError> {
        let Some(inquiry) = self.inquiry.take() else { return Ok(()) };
        let provenance = inquiry.finish(GIT_PATIENCE);
        self.batches.iter().try_for_each(|batch| ledger.set_provenance(*batch, &provenance))
    }
}

/// A site takes runs at once, so the names of their parcels are in the ledger with them, before anything is sent.
fn place(batch: &Batch, runs: &mut [NewRun], moment: Instant) {
    // Whose turn it is in a group is the yardmaster's to say.
    let waits = batch.tie.as_ref().is_some_and(|tie| tie.start != Start::WhenFree);
    let Some(plan) = batch.site.as_ref().filter(|_| !waits) else { return };
    let places = plan.places(runs.len());
    for (run, place) in runs.iter_mut().zip(places) {
        run.run = decide(&run.run, &Event::Placed, moment).next;
        run.place = Some(place);
    }
}

/// The same again: new runs with the code, settings, seed and parameters of some that have ended. Those of one group are
/// a group again.
pub fn again(ledger: &mut Ledger, rows: &[RunRow]) -> Result<Vec<RunId>, LedgerError> {
    let moment = now();
    let mut ties: BTreeMap<String, String> = BTreeMap::new();
    let mut parts = Vec::new();
    for row in rows {
        let mut batch = ledger.batch(row.batch)?;
        if let Some(tie) = &mut batch.tie {
            tie.id = ties.entry(tie.id.clone()).or_insert_with(|| new_id().to_string()).clone();
        }
        let mut new = vec![NewRun {
            id: new_id(),
            name: row.name.clone(),
            seed: row.seed,
            params: row.params.clone(),
            from: row.from,
            run: Run::new(row.run.policy.clone(), moment),
            place: None,
            retry_of: Some(row.id),
        }];
        place(&batch, &mut new, moment);
        parts.push((batch, new));
    }
    ledger.submit_all(&parts, moment)?;
    Ok(parts.iter().flat_map(|(_, new)| new.iter().map(|run| run.id)).collect())
}
