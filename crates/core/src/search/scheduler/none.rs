//! Every trial goes on to its end.

use crate::value::Params;

use super::{Outlook, Scheduler, Verdict};

#[derive(Debug, Clone, Copy, Default)]
pub struct Never;

impl Scheduler for Never {
    fn begin(&mut self, _: u32, _: &Params) {}

    fn next_step(&self, _: u32) -> Option<i64> {
        None
    }

    fn judge(&mut self, _: u32, _: i64, _: f64) -> Verdict {
        Verdict::Continue
    }

    fn end(&mut self, _: u32) {}

    fn promote(&mut self, _: Outlook) -> Option<u32> {
        None
    }
}
