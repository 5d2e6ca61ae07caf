//! Whoever an agent answers to.

use std::os::fd::BorrowedFd;

use trainyard_core::id::Token;
use trainyard_core::time::Instant;

use crate::order::{Status, Wish};

/// Whoever gave the order: hears what happens, and may want the program stopped.
pub trait Overseer {
    fn started(&mut self, token: &Token, at: Instant);
    fn beat(&mut self, token: &Token, status: &Status);
    /// Looked at whenever one of [`Overseer::listen`] becomes readable. Each request is told once.
    fn wants_stop(&mut self, token: &Token) -> Option<Wish>;
    fn listen(&self) -> Vec<BorrowedFd<'_>>;
}
