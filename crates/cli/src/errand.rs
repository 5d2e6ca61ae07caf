//! A command's own way to a site: the connection may ask its person something, and what is sent is shown.

use std::io::IsTerminal;
use std::time::Duration;

use trainyard_agent::depot::Depot;
use trainyard_core::id::Digest;
use trainyard_core::spec::TargetSpec;
use trainyard_engine::host::{Host, Person};
use trainyard_engine::pipe::{Pipe, PipeError};
use trainyard_engine::site::{Known, Reach};
use trainyard_engine::snapshot;
use trainyard_engine::submit::{self, Courier, Plan, SubmitError};
use trainyard_engine::transfer::{self, TransferError};

use crate::context::Context;
use crate::error::CommandError;
use crate::report::Bar;

/// A person who types a second factor needs a while.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

pub(crate) struct Errand<'a> {
    context: &'a Context,
    target: &'a TargetSpec,
    pipe: Option<Pipe>,
}

impl<'a> Errand<'a> {
    pub(crate) fn new(context: &'a Context, target: &'a TargetSpec) -> Self {
        Self { context, target, pipe: None }
    }

    /// The connection, made if there is none yet.
    pub(crate) fn pipe(&mut self) -> Result<&mut Pipe, PipeError> {
        let pipe = match self.pipe.take() {
            Some(pipe) => pipe,
            None => {
                let reach = self.context.reach().map_err(|error| PipeError::Refused(error.chain.join(": ")))?;
                connect(&reach, self.target)?
            }
        };
        Ok(self.pipe.insert(pipe))
    }

    fn is_connected(&self) -> bool {
        let host = self.context.reach().ok().and_then(|reach| reach.host(self.target).ok());
        match host {
            Some(Host::Ssh(host)) => host.is_connected(),
            Some(Host::Here) => true,
            None => false,
        }
    }

    pub(crate) fn into_pipe(self) -> Option<Pipe> {
        self.pipe
    }

    /// What is known about the site; asked anew when that is old, unless nothing may be touched.
    pub(crate) fn known(&mut self, touch_nothing: bool) -> Result<Option<Known>, CommandError> {
        let path = self.context.home.site(&self.target.name);
        let recalled = Known::recall(&path, self.target);
        if touch_nothing || recalled.as_ref().is_some_and(Known::is_fresh) {
            return Ok(recalled);
        }
        self.ask().map(Some)
    }

    /// Before anything is sent: a run in an image that is not there would only fail later.
    pub(crate) fn check_image(&mut self, plan: &Plan) -> Result<(), CommandError> {
        let Some(image) = submit::image_at_site(plan) else { return Ok(()) };
        let target = plan.target.clone();
        match submit::missing_image(self.pipe()?, image)? {
            Some(why) => Err(SubmitError::Refused { target, why }.into()),
            None => Ok(()),
        }
    }

    pub(crate) fn ask(&mut self) -> Result<Known, CommandError> {
        let path = self.context.home.site(&self.target.name);
        let target = self.target;
        let known = Known::ask(self.pipe()?, target)?;
        known.keep(&path);
        Ok(known)
    }
}

/// Connects, asking the person at the terminal what `ssh` wants to know.
pub(crate) fn connect(reach: &Reach, target: &TargetSpec) -> Result<Pipe, PipeError> {
    let host = reach.host(target)?;
    let person = if std::io::stdin().is_terminal() { Person::AtTerminal } else { Person::Nobody };
    host.connect(person, PATIENCE)?;
    reach.pipe(target)
}

/// Connections of a command that has to do with several sites: one to each.
pub(crate) struct Pipes<'a> {
    context: &'a Context,
    open: Vec<(TargetSpec, Pipe)>,
}

impl<'a> Pipes<'a> {
    pub(crate) fn new(context: &'a Context) -> Self {
        Self { context, open: Vec::new() }
    }

    pub(crate) fn to(&mut self, target: &TargetSpec) -> Result<&mut Pipe, CommandError> {
        self.find(target, connect)
    }

    /// Fails where somebody would have to be asked.
    pub(crate) fn quietly_to(&mut self, target: &TargetSpec) -> Result<&mut Pipe, CommandError> {
        self.find(target, |reach, target| reach.pipe(target))
    }

    fn find(
        &mut self,
        target: &TargetSpec,
        connect: impl FnOnce(&Reach, &TargetSpec) -> Result<Pipe, PipeError>,
    ) -> Result<&mut Pipe, CommandError> {
        let place = match self.open.iter().position(|(known, _)| known == target) {
            Some(place) => place,
            None => {
                let pipe = connect(&self.context.reach()?, target)?;
                self.open.push((target.clone(), pipe));
                self.open.len() - 1
            }
        };
        let (_, pipe) = self.open.get_mut(place).ok_or(PipeError::Dropped)?;
        Ok(pipe)
    }

    pub(crate) fn into_first(self) -> Option<Pipe> {
        self.open.into_iter().next().map(|(_, pipe)| pipe)
    }

    /// After a connection broke: the next use makes a new one.
    pub(crate) fn close(&mut self, target: &TargetSpec) {
        self.open.retain(|(known, _)| known != target);
    }
}

/// A project that is being edited is looked at again this often.
const TRIES: usize = 3;

impl Courier for Errand<'_> {
    fn bring(&mut self, plan: &Plan) -> Result<(Digest, Depot), SubmitError> {
        let printer = self.context.printer;
        let home = self.context.home.depot();
        let mut tries = 0;
        loop {
            tries += 1;
            let snapshot = snapshot::scan(&plan.project, &plan.rules, &plan.cache)?;
            let path = self.context.home.site(&self.target.name);
            let mut known = Known::recall(&path, self.target);
            // Nothing to send, and the yardmaster has the connection: this command needs none.
            if let Some(known) = known.as_ref().filter(|known| known.has(&snapshot.digest))
                && self.is_connected()
            {
                return Ok((snapshot.digest, Depot::new(&known.root)));
            }
            let pipe = self.pipe().map_err(TransferError::from)?;
            let mut bar = Bar::new(printer, "uploading");
            let sent = transfer::upload(pipe, &snapshot, &mut |progress| bar.show(progress.bytes, progress.of));
            drop(bar);
            match sent {
                Err(TransferError::Changed { .. }) if tries < TRIES => continue,
                other => other?,
            };
            snapshot::remember(&snapshot, &home)?;
            if let Some(known) = &mut known {
                known.note_sent(&snapshot.digest);
                known.keep(&path);
            }
            return Ok((snapshot.digest, Depot::new(pipe.depot())));
        }
    }
}
