//! Whether a run goes on after an attempt that did not finish (DESIGN section 9).

use serde::{Deserialize, Serialize};

use super::{Ending, Outcome, Reason};
use crate::spec::ResumeReason;
use crate::time::Span;

/// How often, and after what, a run is attempted again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    pub attempts: u32,
    pub on: Vec<ResumeReason>,
}

/// What follows an attempt that did not succeed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    Again { after: Span, futile: u32 },
    End(Reason),
}

/// An attempt shorter than this that leaves no checkpoint got nowhere, whatever ended it.
const EARLY: Span = Span::seconds(60);
/// This many in a row that got nowhere end the run.
const MOST_FUTILE: u32 = 2;
const FIRST_DELAY: Span = Span::seconds(1);
const LONGEST_DELAY: Span = Span::seconds(60);

impl Policy {
    /// `used` attempts have executed, this one included; `futile` in a row before it got nowhere.
    pub fn judge(&self, ending: &Ending, used: u32, futile: u32) -> Verdict {
        let outcome = ending.outcome.clone();
        if !resume_reason(&outcome).is_some_and(|reason| self.on.contains(&reason)) {
            return Verdict::End(Reason::Attempt { outcome });
        }
        let futile = if got_nowhere(ending) { futile + 1 } else { 0 };
        if futile >= MOST_FUTILE {
            return Verdict::End(Reason::CrashLoop { attempts: futile, outcome });
        }
        if used >= self.attempts {
            let reason = if self.attempts > 1 {
                Reason::AttemptsUsed { attempts: used, outcome }
            } else {
                Reason::Attempt { outcome }
            };
            return Verdict::End(reason);
        }
        Verdict::Again { after: delay(futile), futile }
    }
}

fn resume_reason(outcome: &Outcome) -> Option<ResumeReason> {
    match outcome {
        Outcome::TimeLimit => Some(ResumeReason::TimeLimit),
        Outcome::Preempted => Some(ResumeReason::Preempted),
        Outcome::Lost { .. } => Some(ResumeReason::NodeFailure),
        Outcome::Exited { .. } | Outcome::Killed { .. } => Some(ResumeReason::Failed),
        // Trying again would end the same way.
        Outcome::CannotStart { .. } | Outcome::OutputsMissing { .. } | Outcome::Stopped => None,
    }
}

/// A preempted or lost attempt is not blamed unless it was short; one that used its whole time without a
/// checkpoint would do the same again.
fn got_nowhere(ending: &Ending) -> bool {
    let blamed = match (&ending.outcome, ending.new_checkpoint) {
        (_, Some(true)) => return false,
        (Outcome::TimeLimit, Some(false)) | (Outcome::Exited { .. } | Outcome::Killed { .. }, _) => true,
        (Outcome::TimeLimit, None) => return false,
        _ => false,
    };
    blamed || ending.lasted < EARLY
}

fn delay(futile: u32) -> Span {
    if futile == 0 {
        return Span(0);
    }
    let doubled = FIRST_DELAY.0.saturating_mul(1 << (futile - 1).min(16));
    Span(doubled.min(LONGEST_DELAY.0))
}
