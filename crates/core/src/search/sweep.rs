//! A sweep as it goes: told what becomes of its runs, it answers what to begin and what to end. It knows no clock, no
//! target and no disk; what it decides is handed over as [`Deed`]s, and from what was recorded of those it can be
//! made again at any moment.

mod confirm;
mod next;
mod remember;
mod restore;
mod score;
mod tell;

use std::borrow::Cow;
use std::collections::{BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::history::{Fate, History, Report, Trial};
use super::importance::{Importance, importance};
use super::parallel::{Parallel, parallel};
use super::race::split;
use super::sampler::{Grid, Sampler, sampler};
use super::scheduler::{Scheduler, scheduler};
use crate::space::{Space, SpaceError};
use crate::spec::{Repeats, SamplerKind, SchedulerKind, SweepSpec};
use crate::value::Params;

pub use restore::{LegRecord, Record};
pub use score::{Score, Scored};
pub use tell::{Outcome, Told};

/// One run of a trial, with what [`Sweep::params_of`] the trial says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Leg {
    pub trial: u32,
    pub role: Role,
    pub seed: u64,
    /// The leg with whose newest checkpoint it begins.
    #[serde(default)]
    pub from: Option<u32>,
    /// How often its place was lost to the machines before.
    #[serde(default)]
    pub lost: u32,
}

/// What a leg is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// The first look at a configuration.
    Search,
    /// The same configuration with another seed, as `repeats` wants it.
    Repeat { index: u32 },
    /// With a fresh seed, to find out which of the best ones is.
    Confirm { index: u32 },
}

/// What came of a leg.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "is", rename_all = "kebab-case")]
pub enum End {
    Done {
        value: f64,
    },
    /// It failed by itself, or ended without a number.
    Failed,
    /// The machine was lost, not the configuration's fault.
    Lost,
    /// Somebody cancelled it.
    Withdrawn,
    /// By the scheduler, with this value at this step.
    Stopped {
        value: f64,
        step: i64,
    },
    /// To go on later from its checkpoint.
    Paused {
        value: f64,
        step: i64,
    },
    /// The trial goes on from the checkpoint of another, with other parameters.
    Replaced {
        value: f64,
        step: i64,
    },
}

/// Something to be recorded, and done once it is.
#[derive(Debug, Clone, PartialEq)]
pub enum Deed {
    /// A new trial with these sampled parameters.
    Try {
        trial: u32,
        params: Params,
    },
    /// A leg that is to come, for which there may be no room yet.
    Await {
        leg: u32,
        what: Leg,
    },
    Begin {
        leg: u32,
    },
    /// Its run is to be stopped.
    Stop {
        leg: u32,
    },
    Ended {
        leg: u32,
        end: End,
    },
    Fate {
        trial: u32,
        fate: Fate,
    },
    /// The search is over; so many runs find out which of the best is.
    Confirm {
        runs: u32,
    },
    Told {
        number: u32,
        what: Told,
    },
    /// So many trials in a row have come to nothing by now.
    Failures {
        in_a_row: u32,
    },
}

/// What has been used so far.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Spent {
    /// Since the sweep began.
    pub seconds: f64,
    pub gpu_hours: f64,
}

/// Where a sweep stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    Search,
    Confirm,
    /// Nothing is left to begin.
    Done {
        why: String,
        /// Because of failures.
        gave_up: bool,
    },
}

#[derive(Debug)]
struct LegState {
    leg: Leg,
    end: Option<End>,
    /// What the scheduler has decided, until its run has ended.
    sentence: Option<Sentence>,
    course: Vec<Report>,
}

#[derive(Debug, Clone, PartialEq)]
enum Sentence {
    Stop,
    Pause,
    Replace { leader: u32, params: Params },
}

pub struct Sweep {
    spec: SweepSpec,
    space: Space,
    sampler: Box<dyn Sampler + Send + Sync>,
    scheduler: Box<dyn Scheduler>,
    trials: Vec<Trial>,
    /// As [`History::with_losses`] takes them.
    losses: Vec<f64>,
    legs: Vec<LegState>,
    /// The legs of each trial, in their order.
    legs_by_trial: Vec<Vec<u32>>,
    /// Legs that have begun and not ended.
    open: BTreeSet<u32>,
    /// Legs that are to begin before anything new.
    waiting: VecDeque<u32>,
    told: u32,
    failed_in_a_row: u32,
    /// How many configurations a finite grid has.
    grid: Option<u32>,
    deeds: Vec<Deed>,
}

/// Beyond this nobody goes through a grid.
const LARGEST_GRID: usize = 10_000_000;
/// Seeds of the search stay below, those that confirm lie above.
const FRESH_SEEDS: u64 = 1_000_000;
/// Of the budget that is not counted in trials, this part is for confirming.
const CONFIRM_SHARE: f64 = 0.3;

impl Sweep {
    pub fn new(spec: SweepSpec) -> Result<Self, SpaceError> {
        let space = Space::new(&spec.space, &spec.constraints)?;
        let whole_grid = spec.sampler == SamplerKind::Grid && spec.trials.is_none() && spec.budget.is_unlimited();
        let grid = whole_grid.then(|| u32::try_from(Grid { levels: 2 }.size(&space, LARGEST_GRID)).unwrap_or(u32::MAX));
        let searched = spec.trials.map(|trials| search_share(&spec, trials)).or(grid);
        Ok(Self {
            sampler: sampler(spec.sampler, &space, searched),
            scheduler: scheduler(spec.stop.as_ref(), &space, spec.seed),
            trials: Vec::new(),
            losses: Vec::new(),
            legs: Vec::new(),
            legs_by_trial: Vec::new(),
            open: BTreeSet::new(),
            waiting: VecDeque::new(),
            told: 0,
            failed_in_a_row: 0,
            grid,
            deeds: Vec::new(),
            space,
            spec,
        })
    }

    pub fn spec(&self) -> &SweepSpec {
        &self.spec
    }

    pub fn trials(&self) -> &[Trial] {
        &self.trials
    }

    pub fn leg(&self, leg: u32) -> Option<&Leg> {
        self.legs.get(leg as usize).map(|state| &state.leg)
    }

    /// Legs that have begun and not ended, as far as was told.
    pub fn open(&self) -> impl Iterator<Item = u32> + '_ {
        self.open.iter().copied()
    }

    /// What was decided since this was last asked.
    pub fn deeds(&mut self) -> Vec<Deed> {
        std::mem::take(&mut self.deeds)
    }

    /// Goes on with a larger budget, which is to be recorded. How many runs confirm is settled anew when the search is
    /// over, and what has failed so far is forgiven.
    pub fn extend(&mut self, spec: SweepSpec) {
        let searched = spec.trials.map(|trials| search_share(&spec, trials)).or(self.grid);
        self.sampler = sampler(spec.sampler, &self.space, searched);
        self.spec = spec;
        self.count_failures(0);
    }

    /// Begins legs until `parallel` go on at once, or nothing is left to begin.
    /// Never fewer than `portion` at a time while others go on: where runs share an allocation they are sent together.
    pub fn fill(&mut self, spent: Spent, portion: u32) {
        let free = (self.spec.parallel as usize).saturating_sub(self.open.len());
        if free < (portion.min(self.spec.parallel) as usize) && !self.open.is_empty() {
            return;
        }
        while self.open.len() < self.spec.parallel as usize {
            let Some(leg) = self.next_leg(spent) else { break };
            self.open.insert(leg);
            self.deeds.push(Deed::Begin { leg });
        }
    }

    pub fn phase(&self, spent: Spent) -> Phase {
        if self.failed_in_a_row >= self.spec.give_up {
            let silent =
                self.legs.iter().all(|state| state.course.is_empty() && !matches!(state.end, Some(End::Done { .. })));
            let metric = &self.spec.metric;
            let hint = match silent {
                true => format!(
                    ": none of its runs reported `{metric}`; `yard logs {}-0` shows what the first one said",
                    self.spec.name
                ),
                false => format!("; `yard logs {}-0` shows what the first one said", self.spec.name),
            };
            let why = format!("gave up after {} trials in a row without a result{hint}", self.failed_in_a_row);
            return Phase::Done { why, gave_up: true };
        }
        if self.is_searching(spent) || self.has_first_looks() {
            return Phase::Search;
        }
        let going_on = !self.open.is_empty() || !self.waiting.is_empty();
        if going_on || self.race().is_some_and(|race| !race.next(&self.confirmed()).is_empty()) {
            return if self.confirms() { Phase::Confirm } else { Phase::Search };
        }
        Phase::Done { why: format!("{} trials", self.trials.len()), gave_up: false }
    }

    fn confirms(&self) -> bool {
        let copies = self.spec.stop.as_ref().is_some_and(|stop| stop.scheduler == SchedulerKind::Pbt);
        self.spec.repeats == Repeats::Adaptive && !copies
    }

    /// Whether new configurations may still be tried.
    fn is_searching(&self, spent: Spent) -> bool {
        let tried = u32::try_from(self.trials.len()).unwrap_or(u32::MAX);
        let most = self.spec.trials.map(|trials| search_share(&self.spec, trials)).or(self.grid);
        let share = if self.confirms() { 1.0 - CONFIRM_SHARE } else { 1.0 };
        most.is_none_or(|most| tried < most) && self.used(spent) < share
    }

    /// The part of the budget in time or GPU hours that is used.
    fn used(&self, spent: Spent) -> f64 {
        let budget = &self.spec.budget;
        let time = budget.time.map_or(0.0, |time| spent.seconds / (time.0 as f64 / 1000.0).max(1e-3));
        let gpus = budget.gpu_hours.map_or(0.0, |hours| spent.gpu_hours / hours.max(1e-9));
        time.max(gpus)
    }

    fn has_first_looks(&self) -> bool {
        let first = |leg: &Leg| !matches!(leg.role, Role::Confirm { .. });
        self.open.iter().chain(&self.waiting).filter_map(|leg| self.leg(*leg)).any(first)
    }

    /// The trials that say something, after those of earlier sweeps that were given along.
    fn with_known(&self) -> Cow<'_, [Trial]> {
        let is_lost = |trial: &Trial| trial.fate == Fate::Lost;
        if self.spec.known.is_empty() && !self.trials.iter().any(is_lost) {
            return Cow::Borrowed(&self.trials);
        }
        let count = u32::try_from(self.spec.known.len()).unwrap_or(u32::MAX);
        let known = (0..).zip(&self.spec.known).map(|(number, known)| Trial {
            number,
            params: known.params.clone(),
            fate: Fate::Done { value: known.value },
            reports: Vec::new(),
        });
        let own = self
            .trials
            .iter()
            .filter(|trial| !is_lost(trial))
            .map(|trial| Trial { number: count + trial.number, ..trial.clone() });
        Cow::Owned(known.chain(own).collect())
    }

    /// How much each searched parameter matters, the most important first.
    pub fn importance(&self) -> Vec<Importance> {
        let trials = self.with_known();
        importance(&self.space, &History::new(self.spec.goal, &trials))
    }

    /// Every trial as a line across all searched parameters.
    pub fn parallel(&self) -> Parallel {
        parallel(&self.space, &History::new(self.spec.goal, &self.trials))
    }

    pub fn space(&self) -> &Space {
        &self.space
    }
}

/// How many configurations a sweep of this many trials tries.
fn search_share(spec: &SweepSpec, trials: u32) -> u32 {
    let copies = spec.stop.as_ref().is_some_and(|stop| stop.scheduler == SchedulerKind::Pbt);
    match spec.repeats {
        Repeats::Adaptive if !copies => split(trials).0,
        _ => trials,
    }
}
