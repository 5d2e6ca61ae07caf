//! A command's own way to a site: the connection may ask its person something, and what is sent is shown.

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use trainyard_agent::depot::Depot;
use trainyard_core::id::Digest;
use trainyard_core::spec::{TargetKind, TargetSpec};
use trainyard_engine::host::{Host, Person};
use trainyard_engine::images::{self, Around, Built, News, Pushed, Step, Wanted};
use trainyard_engine::pipe::{Pipe, PipeError};
use trainyard_engine::site::{self, Known, Reach};
use trainyard_engine::snapshot::{self, Snapshot, SnapshotError};
use trainyard_engine::submit::{self, Courier, Destination, Plan, SubmitError};
use trainyard_engine::transfer::{self, TransferError};

use crate::context::Context;
use crate::env;
use crate::error::{CommandError, Exit};
use crate::interrupt;
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
            Some(Host::Here | Host::Cluster(_)) => true,
            None => false,
        }
    }

    /// Looks at the project. Where that takes a while, the pipe is opened meanwhile: most likely it is needed. Only over
    /// a connection that is there already, so that nobody is asked anything.
    fn look(&mut self, plan: &Plan) -> Result<Snapshot, SnapshotError> {
        let scan = || snapshot::scan(&plan.project, &plan.rules, &plan.cache);
        let reach = self.context.reach().ok().filter(|_| self.pipe.is_none() && takes_a_while(&plan.cache));
        let Some(reach) = reach.filter(|_| self.is_connected()) else { return scan() };
        std::thread::scope(|scope| {
            let opening = scope.spawn(|| reach.pipe(self.target));
            let snapshot = scan();
            // One that could not be opened is opened again when it is needed, and says why then.
            self.pipe = opening.join().ok().and_then(Result::ok);
            snapshot
        })
    }

    pub(crate) fn into_pipe(self) -> Option<Pipe> {
        self.pipe
    }

    /// What is known about the site; asked anew when that is old, unless nothing may be touched.
    pub(crate) fn known(&mut self, touch_nothing: bool) -> Result<Option<Known>, CommandError> {
        self.context.check_clusters(self.target)?;
        let path = self.context.home.site(&self.target.name);
        let recalled = Known::recall(&path, self.target);
        if touch_nothing || recalled.as_ref().is_some_and(Known::is_fresh) {
            return Ok(recalled);
        }
        self.ask().map(Some)
    }

    /// The image of a plan, made here and brought to where it runs, if it is not there yet.
    pub(crate) fn bring_image(&mut self, plan: &mut Plan) -> Result<(), CommandError> {
        let Some(wanted) = plan.image.clone() else { return self.check_image(plan) };
        let built = build_image(self.context, &plan.project, &wanted)?;
        let path = match &plan.destination {
            Destination::Here { .. } => built.path.to_string_lossy().into_owned(),
            Destination::Site(_) => self.push_image(&built)?.0,
        };
        plan.settle(path);
        Ok(())
    }

    /// Where the image is at the site now, and what was sent for that.
    pub(crate) fn push_image(&mut self, built: &Built) -> Result<(String, Pushed), CommandError> {
        let path = self.context.home.site(&self.target.name);
        let mark = Digest(built.name.to_string());
        let mut known = Known::recall(&path, self.target);
        // As with code: sent a moment ago, so the yardmaster's connection is enough.
        if let Some(known) = known.as_ref().filter(|known| known.has(&mark))
            && self.is_connected()
        {
            return Ok((submit::image_in(&known.root, &built.name), Pushed::default()));
        }
        let printer = self.context.printer;
        let pipe = self.pipe()?;
        let (mut looking, mut sending) = (Some(Bar::new(printer, "comparing")), None);
        let pushed = images::push(pipe, &built.path, &built.name, &mut |step| match step {
            Step::Looking(at) => looking.iter_mut().for_each(|bar| bar.show(at.bytes, at.of)),
            Step::Sending(at) => {
                looking = None;
                sending.get_or_insert_with(|| Bar::new(printer, "pushing")).show(at.bytes, at.of);
            }
        })?;
        drop(sending);
        if let Some(known) = &mut known {
            known.note_sent(&mark);
            known.keep(&path);
        }
        Ok((submit::image_in(pipe.depot(), &built.name), pushed))
    }

    /// Before anything is sent: a run in an image that is not there would only fail later.
    fn check_image(&mut self, plan: &Plan) -> Result<(), CommandError> {
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

/// Converts an image of the file, with a bar, unless that was done before.
pub(crate) fn build_image(context: &Context, project: &Path, wanted: &Wanted) -> Result<Built, CommandError> {
    context.home.prepare()?;
    let around = Around { project, variable: &env::variable };
    let mut bar = Bar::new(context.printer, "converting");
    let mut is_unwanted = false;
    let mut hear = |news: News<'_>| {
        match news {
            News::Line(line) => context.printer.say(line),
            News::Progress { done, of } => bar.show(done, of.unwrap_or(done)),
        }
        is_unwanted |= interrupt::take() > 0;
        if is_unwanted { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let built = interrupt::counted(|| images::build(&context.home.images(), wanted, &around, &mut hear));
    drop(bar);
    if is_unwanted || interrupt::take() > 0 {
        let when = if built.is_ok() { "after it was made" } else { "while it was made; nothing of it is left" };
        return Err(CommandError::new(
            Exit::Interrupted,
            format!("the image `{}`: interrupted {when}", wanted.profile),
        ));
    }
    Ok(built?)
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

/// Of the cache of a project of some two thousand files, which are looked at in the time that it takes to open a pipe.
const LARGE: u64 = 256 << 10;

/// A project without a cache was never looked at: all of it has to be read.
fn takes_a_while(cache: &Path) -> bool {
    std::fs::metadata(cache).map_or(true, |data| data.len() > LARGE)
}

/// A project that is being edited is looked at again this often.
const TRIES: usize = 3;

impl Errand<'_> {
    /// The code stays in the depot here too: a cluster forgets packages that nobody has used for a while.
    fn bring_to_ray(&self, plan: &Plan, home: &Depot) -> Result<(Digest, Depot), SubmitError> {
        let taken = snapshot::take(&plan.project, &plan.rules, &plan.cache, home)?;
        let refused = |error: CommandError| TransferError::from(PipeError::Refused(error.chain.join(": ")));
        let reach = self.context.reach().map_err(refused)?;
        let mut bar = Bar::new(self.context.printer, "uploading");
        let sent = site::send_code(&reach, self.target, &taken.digest, &mut |bytes, of| bar.show(bytes, of));
        drop(bar);
        sent.map_err(TransferError::from)?;
        Ok((taken.digest, Depot::new(site::depot_of(self.target))))
    }
}

impl Courier for Errand<'_> {
    fn bring(&mut self, plan: &Plan) -> Result<(Digest, Depot), SubmitError> {
        let printer = self.context.printer;
        let home = self.context.home.depot();
        if let TargetKind::Ray(_) = &self.target.kind {
            return self.bring_to_ray(plan, &home);
        }
        let mut tries = 0;
        loop {
            tries += 1;
            let snapshot = self.look(plan)?;
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
            let newest = known.as_ref().and_then(|known| known.newest(&plan.project)).cloned();
            let earlier = newest.and_then(|digest| Some((std::fs::read(home.snapshot(&digest)).ok()?, digest)));
            let base = earlier.as_ref().map(|(text, digest)| transfer::Base { digest, text });
            let sent = transfer::upload(pipe, &snapshot, base, &mut |progress| bar.show(progress.bytes, progress.of));
            drop(bar);
            match sent {
                Err(TransferError::Changed { .. }) if tries < TRIES => continue,
                other => other?,
            };
            snapshot::remember(&snapshot, &home)?;
            if let Some(known) = &mut known {
                known.note_sent(&snapshot.digest);
                known.note_newest(&plan.project, &snapshot.digest);
                known.keep(&path);
            }
            return Ok((snapshot.digest, Depot::new(pipe.depot())));
        }
    }
}
