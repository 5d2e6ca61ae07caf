//! Why a job waits, in plain words. A reason we do not know is shown as SLURM writes it.

use serde::{Deserialize, Serialize};

use super::queue::QueueRow;
use super::state::StateClass;
use crate::time::Instant;

/// What is known about a job that has not started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// SLURM's own word.
    pub reason: Option<String>,
    /// `None` for a reason we do not know.
    pub words: Option<String>,
    /// Whether it waits for somebody rather than for its turn.
    pub is_stuck: bool,
    /// When SLURM believes it will start. An estimate that moves both ways.
    pub expected: Option<Instant>,
}

/// Of a row that is not waiting, `None`.
pub fn waiting(row: &QueueRow) -> Option<Waiting> {
    if row.state.class() != StateClass::Queued {
        return None;
    }
    let explained = row.reason.as_deref().and_then(explain);
    Some(Waiting {
        reason: row.reason.clone(),
        is_stuck: explained.as_ref().is_some_and(|explained| explained.is_stuck),
        words: explained.map(|explained| explained.words),
        expected: row.start,
    })
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Without a full stop, after "waits: ".
    pub words: String,
    pub is_stuck: bool,
}

/// A pending reason of `squeue`; `None` if it is not known.
pub fn explain(reason: &str) -> Option<Explained> {
    // `ReqNodeNotAvail, UnavailableNodes:n1`, `(Priority)`, `launch_failed_requeued_held`
    let reason = reason.trim().trim_start_matches('(').trim_end_matches(')');
    let (word, detail) = reason.split_once([',', '(', ':']).unwrap_or((reason, ""));
    let word = word.trim().replace(' ', "_");
    let fixed = FIXED.iter().find(|(known, ..)| known.eq_ignore_ascii_case(&word));
    if let Some((_, is_stuck, words)) = fixed {
        let nodes =
            detail.split_once("UnavailableNodes:").map(|(_, nodes)| nodes.trim()).filter(|nodes| !nodes.is_empty());
        let words = match nodes {
            Some(nodes) => format!("{words} ({nodes})"),
            None => (*words).to_owned(),
        };
        return Some(Explained { words, is_stuck: *is_stuck });
    }
    limit(&word)
}

/// Whether somebody must act, and the words.
const FIXED: [(&str, bool, &str); 44] = [
    ("Priority", false, "other jobs come first"),
    ("Resources", false, "it is next, and the nodes it needs are in use"),
    ("Dependency", false, "another job must end first"),
    ("DependencyNeverSatisfied", true, "the job it depends on ended in a way that will never let it start"),
    ("BeginTime", false, "its earliest start has not come; after a requeue SLURM waits about two minutes"),
    ("JobHeldUser", true, "it was put on hold by you; `scontrol release` lets it go"),
    ("JobHeldAdmin", true, "it was put on hold by the site's administrators"),
    ("JobHoldMaxRequeue", true, "it was requeued too often, and SLURM put it on hold"),
    ("launch_failed_requeued_held", true, "SLURM could not start it on its node and put it on hold"),
    ("JobLaunchFailure", true, "SLURM could not start it on its node"),
    ("job_requeued_in_held_state", true, "it was requeued on hold; `scontrol release` lets it go"),
    (
        "user_env_retrieval_failed_requeued_held",
        true,
        "the node could not read your login environment, and SLURM put it on hold",
    ),
    ("JobArrayTaskLimit", false, "other runs of the same submission come first"),
    ("PartitionTimeLimit", true, "its time limit is above that of the partition"),
    ("PartitionNodeLimit", true, "it asks for more nodes than the partition allows"),
    ("PartitionConfig", true, "the partition cannot give what it asks for"),
    ("PartitionDown", true, "the partition is down"),
    ("PartitionInactive", true, "the partition takes jobs and starts none"),
    ("ReqNodeNotAvail", false, "nodes it needs are down, reserved or in maintenance"),
    ("Nodes_required_for_job_are_DOWN", false, "nodes it needs are down, reserved or in maintenance"),
    ("NodeDown", false, "a node it needs is down"),
    ("FrontEndDown", true, "the site's front end is down"),
    ("BadConstraints", true, "no node has what it asks for"),
    ("Licenses", false, "a licence it needs is in use"),
    ("Reservation", false, "its reservation has not begun"),
    ("ReservationDeleted", true, "its reservation was deleted"),
    ("RequiresReservation", true, "the partition is for reservations only; set `reservation`"),
    ("InvalidAccount", true, "the account is not valid"),
    ("AccountNotAllowed", true, "the account may not use the partition"),
    ("InvalidQOS", true, "the QOS is not valid"),
    ("QOSNotAllowed", true, "the QOS may not be used with this account or partition"),
    ("QOSJobLimit", false, "the QOS has as many jobs as it may"),
    ("QOSResourceLimit", false, "the QOS uses as much as it may"),
    ("QOSTimeLimit", true, "its time limit is above that of the QOS"),
    ("QOSUsageThreshold", false, "the QOS has used more than its share of late"),
    ("AssociationJobLimit", false, "your account has as many jobs as it may"),
    ("AssociationResourceLimit", false, "your account uses as much as it may"),
    ("AssociationTimeLimit", true, "its time limit is above that of your account"),
    ("BurstBufferResources", false, "the burst buffer is in use"),
    ("BurstBufferStageIn", false, "its files are being brought to the burst buffer"),
    ("Cleaning", false, "its last attempt is still being cleaned up"),
    ("Prolog", false, "its nodes are being prepared"),
    ("SchedDefer", false, "the scheduler has not looked at it yet"),
    ("DeadLine", true, "it cannot end before its deadline"),
];

/// `QOSMaxGRESPerUser`, `AssocGrpCpuLimit`, `MaxGRESPerAccount`: whose limit, which kind, of what.
fn limit(word: &str) -> Option<Explained> {
    let (whose, rest) = match (word.strip_prefix("QOS"), word.strip_prefix("Assoc")) {
        (Some(rest), _) => ("the QOS", rest),
        (_, Some(rest)) => ("your account", rest),
        _ => ("the QOS", word),
    };
    let rest = rest.strip_suffix("Limit").unwrap_or(rest);
    let turn = |words: String| Some(Explained { words, is_stuck: false });
    let stuck = |words: String| Some(Explained { words, is_stuck: true });
    if let Some(what) = rest.strip_prefix("Grp") {
        return turn(format!("all users of {whose} together {} as it allows", at_the_limit(what, "use", "have")?));
    }
    if let Some(what) = rest.strip_prefix("Min") {
        let what = noun(what.strip_suffix("NotSatisfied").unwrap_or(what))?.name();
        return stuck(format!("{whose} is for jobs that ask for more {what}"));
    }
    let what = rest.strip_prefix("Max")?;
    if let Some(what) = what.strip_suffix("PerUser") {
        return turn(format!("you already {} as {whose} allows", at_the_limit(what, "use", "have")?));
    }
    if let Some(what) = what.strip_suffix("PerAccount") {
        return turn(format!("your account already {} as {whose} allows", at_the_limit(what, "uses", "has")?));
    }
    if let Some(what) = what.strip_suffix("PerJob").or_else(|| what.strip_suffix("PerNode")) {
        return stuck(format!("it asks for more {} than {whose} allows one job", noun(what)?.name()));
    }
    turn(format!("you already {} as {whose} allows", at_the_limit(what, "use", "have")?))
}

/// What a limit counts.
enum Noun {
    Many(&'static str),
    Much(&'static str),
}

impl Noun {
    fn name(&self) -> &'static str {
        match self {
            Self::Many(name) | Self::Much(name) => name,
        }
    }
}

fn at_the_limit(what: &str, uses: &str, has: &str) -> Option<String> {
    Some(match noun(what)? {
        Noun::Many(name) if name.ends_with("jobs") => format!("{has} as many {name}"),
        Noun::Many(name) => format!("{uses} as many {name}"),
        Noun::Much(name) => format!("{uses} as much {name}"),
    })
}

fn noun(what: &str) -> Option<Noun> {
    let what = what.to_ascii_lowercase();
    if what.ends_with("minutes") {
        return Some(Noun::Much("computing time"));
    }
    Some(match what.as_str() {
        "gres" => Noun::Many("GPUs"),
        "cpu" => Noun::Many("processor cores"),
        "mem" | "memory" => Noun::Much("memory"),
        "node" => Noun::Many("nodes"),
        "jobs" | "job" => Noun::Many("running jobs"),
        "submitjob" | "submitjobs" => Noun::Many("submitted jobs"),
        "wall" | "wallduration" => Noun::Much("time"),
        "billing" => Noun::Much("budget"),
        "license" => Noun::Many("licences"),
        "bb" => Noun::Much("burst buffer"),
        "energy" => Noun::Much("energy"),
        "unknown" => Noun::Much("of something"),
        _ => return None,
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
