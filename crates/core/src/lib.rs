//! Decides. No files, no network, no async, no clock, no randomness of its own: everything it needs comes in
//! as a value, everything it concludes goes out as a value.

pub mod id;
pub mod import;
pub mod plan;
pub mod quote;
pub mod run;
pub mod search;
pub mod space;
pub mod spec;
pub mod template;
pub mod time;
pub mod value;
