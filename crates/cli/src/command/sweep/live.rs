//! A sweep on the terminal while it goes on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trainyard_core::search::Fate;
use trainyard_engine::ledger::{Ledger, SweepState};
use trainyard_engine::sweep::Overview;
use trainyard_engine::yardmaster::Caller;

use super::show;
use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::interrupt;
use crate::report::Live;

/// Looking more often would show nothing that the eye can follow.
const PAUSE: Duration = Duration::from_millis(250);

/// A controller elsewhere lays out its ledger about as often.
const PAUSE_ELSEWHERE: Duration = Duration::from_secs(2);

/// Until the sweep has ended or the watcher leaves. Without a caller it is watched from afar.
pub(super) fn follow(
    context: &Context,
    mut ledger: Ledger,
    caller: Option<Caller>,
    id: i64,
) -> Result<Exit, CommandError> {
    interrupt::count();
    let mut watcher = Watcher { context, live: Live::new(context.printer), told: BTreeSet::new(), caller };
    loop {
        let Some(row) = ledger.sweep(id)? else { return Ok(Exit::Unknown) };
        let overview = Overview::of(&ledger, row)?;
        watcher.show(&overview);
        let state = overview.row.state;
        if state.has_ended() && overview.going.is_empty() {
            watcher.live.clear();
            show::report(context, &overview);
            return Ok(if state == SweepState::Done { Exit::Done } else { Exit::RunFailed });
        }
        if interrupt::take() > 0 {
            watcher.live.clear();
            let (name, at) = (&overview.row.name, context.at_flag());
            context.printer.say(&format!(
                "detached; it goes on: `yard sweep show {name}{at}` looks, `yard sweep stop {name}{at}` ends it"
            ));
            return Ok(Exit::Interrupted);
        }
        if let Some(newer) = watcher.pause(&ledger)? {
            ledger = newer;
        }
    }
}

struct Watcher<'a> {
    context: &'a Context,
    live: Live,
    /// Trials whose fate was told already.
    told: BTreeSet<u32>,
    caller: Option<Caller>,
}

impl Watcher<'_> {
    fn show(&mut self, overview: &Overview) {
        let printer = self.context.printer;
        if printer.is_json() {
            return;
        }
        if printer.is_watched() {
            self.live.show_text(&show::live_text(overview, printer.talk_style()));
            return;
        }
        for trial in overview.sweep.trials() {
            if trial.fate != Fate::Pending && self.told.insert(trial.number) {
                printer.say(&format!("trial {}: {}", trial.number, show::fate_text(trial.fate)));
            }
        }
    }

    /// Returns a newer ledger, where it is not this machine's.
    fn pause(&mut self, ledger: &Ledger) -> Result<Option<Ledger>, CommandError> {
        let Some(caller) = &mut self.caller else {
            std::thread::sleep(PAUSE_ELSEWHERE);
            self.context.rouse(ledger)?;
            return self.context.ledger().map(Some);
        };
        std::thread::sleep(PAUSE);
        if caller.wait(PAUSE).is_err() {
            // Somebody killed the yardmaster; another takes over.
            self.caller = Some(self.context.knock(&BTreeMap::new())?);
        }
        Ok(None)
    }
}
