//! `--at TARGET`: the ledger of a controller on a cluster, in place of this machine's.

use std::path::PathBuf;
use std::time::{Duration, Instant as Clock};

use trainyard_core::spec::Loaded;
use trainyard_engine::controller::{Around, Desk, DeskError, Heard, Wish};
use trainyard_engine::ledger::Ledger;

use super::{Context, PROJECT_FILE};
use crate::error::{CommandError, Exit};

/// For a controller that was gone to begin its work.
const PATIENCE: Duration = Duration::from_secs(120);
const AGAIN: Duration = Duration::from_millis(500);

impl Context {
    /// From here on another ledger is meant than this machine's.
    pub(crate) fn at(self, at: Option<String>) -> Self {
        Self { at, ..self }
    }

    /// Whether another ledger is meant than this machine's.
    pub(crate) fn is_elsewhere(&self) -> bool {
        self.at.is_some()
    }

    /// What looks again and again would see the same copy each time.
    pub(crate) fn refuse_elsewhere(&self, is_asked: bool, flag: &str) -> Result<(), CommandError> {
        if self.is_elsewhere() && is_asked {
            return Err(CommandError::new(Exit::Usage, format!("`{flag}` does not go with `--at`")));
        }
        Ok(())
    }

    /// To be added to commands that are shown.
    pub(crate) fn at_flag(&self) -> String {
        self.at.as_ref().map(|at| format!(" --at {at}")).unwrap_or_default()
    }

    pub(super) fn ledger_at(&self, name: &str) -> Result<Ledger, CommandError> {
        let (mut desk, folder, _) = self.desk(name)?;
        let ledger = desk.ledger(&folder)?;
        ledger.ok_or_else(|| {
            CommandError::new(Exit::Usage, format!("no sweep was ever handed to a controller on `{name}`"))
                .hint(format!("`yard sweep NAME --on {name} --detach-controller` does it"))
        })
    }

    fn desk(&self, name: &str) -> Result<(Desk, PathBuf, Loaded), CommandError> {
        let loaded = self.anywhere()?;
        let Some(target) = loaded.config.targets.get(name) else {
            return Err(CommandError::new(Exit::Settings, format!("no target `{name}`"))
                .hint("`yard target ls` lists those there are"));
        };
        let folder = self.folder.ancestors().find(|folder| folder.join(PROJECT_FILE).is_file());
        let desk = Desk::open(&self.reach()?, target)?;
        Ok((desk, folder.unwrap_or(&self.folder).to_owned(), loaded))
    }

    /// A controller that is gone although there is something to do is started again.
    pub(super) fn rouse_at(&self, name: &str, ledger: &Ledger) -> Result<(), CommandError> {
        let (mut desk, folder, loaded) = self.desk(name)?;
        if desk.rouse(ledger, &Around { project: &folder, jobs: &loaded.config.jobs })? {
            self.printer.say(&format!("the controller on {name} was gone and is started again"));
        }
        Ok(())
    }

    /// Tells the controller, starting it if need be. Returns its ledger as it is when it was heard.
    pub(crate) fn wish(&self, ledger: Ledger, wish: &Wish) -> Result<Ledger, CommandError> {
        let Some(name) = &self.at else { return Ok(ledger) };
        let (mut desk, folder, loaded) = self.desk(name)?;
        if desk.ask(wish)? != Heard::Now {
            desk.start(&ledger, &Around { project: &folder, jobs: &loaded.config.jobs })?;
        }
        let until = Clock::now() + PATIENCE;
        loop {
            if let Some(ledger) = desk.ledger(&folder)?
                && ledger.sweep_requests()?.is_empty()
            {
                return Ok(ledger);
            }
            if Clock::now() > until {
                let error =
                    CommandError::new(Exit::Unknown, format!("the controller on {name} has not taken it up yet"));
                return Err(error.hint("it is written down there, and is not lost"));
            }
            std::thread::sleep(AGAIN);
        }
    }
}

impl From<DeskError> for CommandError {
    fn from(error: DeskError) -> Self {
        match error {
            DeskError::Pipe(error) => error.into(),
            DeskError::Ledger(error) => error.into(),
            DeskError::NotThere(why) => Self::new(Exit::Usage, why),
            DeskError::Failed(_) => Self::new(Exit::Refused, error.to_string()),
            DeskError::Secret { .. } | DeskError::Package(_) => Self::new(Exit::Settings, error.to_string()),
            DeskError::Unsure => {
                Self::new(Exit::Unknown, error.to_string()).hint("`yard sweep ls --at TARGET` shows whether it has")
            }
        }
    }
}
