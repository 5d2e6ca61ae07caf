//! One file per command; the file's name is the command's.

pub(crate) mod agent;
pub(crate) mod cancel;
pub(crate) mod clean;
pub(crate) mod completions;
mod curves;
pub(crate) mod diff;
pub(crate) mod doctor;
pub(crate) mod export;
mod follow;
pub(crate) mod image;
pub(crate) mod init;
pub(crate) mod logs;
pub(crate) mod man;
pub(crate) mod plot;
pub(crate) mod ps;
pub(crate) mod pull;
pub(crate) mod queue;
pub(crate) mod report;
pub(crate) mod retry;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod show;
pub(crate) mod show_config;
pub(crate) mod sweep;
pub(crate) mod target;
pub(crate) mod wait;
pub(crate) mod yardmaster;
