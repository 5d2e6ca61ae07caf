//! States of SLURM's jobs, and what they mean for a run.

use serde::{Deserialize, Serialize};

/// A job's state, as `squeue` and `sacct` write it. Flags that stand in the state's place are states too.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum SlurmState {
    Pending,
    Configuring,
    Requeued,
    RequeueHold,
    /// Other states in which a job waits: `REQUEUE_FED`, `RESV_DEL_HOLD`, `POWER_UP_NODE`, `EXPEDITING`.
    Waiting(String),
    Running,
    Completing,
    Suspended,
    /// Other states in which a job has its nodes: `SIGNALING`, `STAGE_OUT`, `RESIZING`, `STOPPED`, `UPDATE_DB`.
    Busy(String),
    Completed,
    Cancelled,
    Timeout,
    Preempted,
    NodeFail,
    BootFail,
    Failed,
    OutOfMemory,
    Deadline,
    /// Other states of failure: `LAUNCH_FAILED`, `RECONFIG_FAIL`, `SPECIAL_EXIT`, `REVOKED`.
    Broken(String),
    /// One we do not know, as it was written.
    Other(String),
}

/// What a state says about the allocation. Whether the *program* succeeded, only the agent knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StateClass {
    Queued,
    Running,
    Succeeded,
    Cancelled,
    Resumable(Interruption),
    Failed,
    /// Nothing follows from it.
    Unknown,
}

/// Why SLURM ended an allocation that could go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Interruption {
    TimeLimit,
    Preempted,
    NodeFailure,
}

impl SlurmState {
    /// `CANCELLED by 1001` and `CANCELLED+` are `CANCELLED`.
    pub fn parse(text: &str) -> Self {
        let word = text.split_whitespace().next().unwrap_or_default().trim_end_matches('+');
        match word {
            "PENDING" => Self::Pending,
            "CONFIGURING" => Self::Configuring,
            "REQUEUED" => Self::Requeued,
            "REQUEUE_HOLD" => Self::RequeueHold,
            "REQUEUE_FED" | "RESV_DEL_HOLD" | "POWER_UP_NODE" | "EXPEDITING" => Self::Waiting(word.to_owned()),
            "RUNNING" => Self::Running,
            "COMPLETING" => Self::Completing,
            "SUSPENDED" => Self::Suspended,
            "SIGNALING" | "STAGE_OUT" | "RESIZING" | "STOPPED" | "UPDATE_DB" => Self::Busy(word.to_owned()),
            "COMPLETED" => Self::Completed,
            "CANCELLED" => Self::Cancelled,
            "TIMEOUT" => Self::Timeout,
            "PREEMPTED" => Self::Preempted,
            "NODE_FAIL" => Self::NodeFail,
            "BOOT_FAIL" => Self::BootFail,
            "FAILED" => Self::Failed,
            "OUT_OF_MEMORY" => Self::OutOfMemory,
            "DEADLINE" => Self::Deadline,
            "LAUNCH_FAILED" | "RECONFIG_FAIL" | "SPECIAL_EXIT" | "REVOKED" => Self::Broken(word.to_owned()),
            _ => Self::Other(text.to_owned()),
        }
    }

    pub fn class(&self) -> StateClass {
        match self {
            // A row of accounting: this life of the job has ended and the next one waits.
            Self::Pending | Self::Configuring | Self::Requeued | Self::RequeueHold | Self::Waiting(_) => {
                StateClass::Queued
            }
            Self::Running | Self::Completing | Self::Suspended | Self::Busy(_) => StateClass::Running,
            Self::Completed => StateClass::Succeeded,
            Self::Cancelled => StateClass::Cancelled,
            Self::Timeout => StateClass::Resumable(Interruption::TimeLimit),
            Self::Preempted => StateClass::Resumable(Interruption::Preempted),
            Self::NodeFail | Self::BootFail => StateClass::Resumable(Interruption::NodeFailure),
            Self::Failed | Self::OutOfMemory | Self::Deadline | Self::Broken(_) => StateClass::Failed,
            Self::Other(_) => StateClass::Unknown,
        }
    }

    /// Whether SLURM will do nothing more with the job; an unknown state is not an end.
    pub fn has_ended(&self) -> bool {
        !matches!(self.class(), StateClass::Queued | StateClass::Running | StateClass::Unknown)
    }
}

impl std::fmt::Display for SlurmState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Pending => "PENDING",
            Self::Configuring => "CONFIGURING",
            Self::Requeued => "REQUEUED",
            Self::RequeueHold => "REQUEUE_HOLD",
            Self::Running => "RUNNING",
            Self::Completing => "COMPLETING",
            Self::Suspended => "SUSPENDED",
            Self::Completed => "COMPLETED",
            Self::Cancelled => "CANCELLED",
            Self::Timeout => "TIMEOUT",
            Self::Preempted => "PREEMPTED",
            Self::NodeFail => "NODE_FAIL",
            Self::BootFail => "BOOT_FAIL",
            Self::Failed => "FAILED",
            Self::OutOfMemory => "OUT_OF_MEMORY",
            Self::Deadline => "DEADLINE",
            Self::Waiting(word) | Self::Busy(word) | Self::Broken(word) | Self::Other(word) => word,
        })
    }
}
