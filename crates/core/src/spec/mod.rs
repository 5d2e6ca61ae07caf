//! `trainyard.toml` and what it means: layers of text → one tree whose values know where they come from →
//! checked, typed specs. Refuses anything it does not understand; an error names the place and what is allowed there.

mod job;

pub use job::{
    Command, Gpus, JobSpec, MetricSource, ParamStyle, ResumeReason, ResumeSpec, SecretRef, Setting, Signal, Warn,
};
