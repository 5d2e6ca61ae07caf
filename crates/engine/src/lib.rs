//! Does: files, processes, SQLite, sockets. Never prints; what a person should know is returned as a value.
//!
//! [`submit`] is the way in, [`yardmaster`] keeps things going, [`ledger`] remembers, [`target`] speaks to the
//! systems that run attempts.

pub mod compare;
pub mod controller;
pub mod curves;
pub mod doctor;
pub mod home;
pub mod host;
pub mod images;
pub mod ledger;
pub mod pipe;
pub mod proof;
pub mod provenance;
pub mod queue;
pub mod ray;
pub mod reclaim;
pub mod results;
pub mod site;
pub mod snapshot;
pub mod submit;
pub mod sweep;
pub mod target;
pub mod tracking;
pub mod transfer;
pub mod yardmaster;
