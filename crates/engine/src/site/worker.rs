//! A thread for each site, so that one that does not answer holds up nothing else.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use tokio::sync::mpsc::UnboundedSender;
use trainyard_agent::depot::Depot;
use trainyard_agent::disk::now;
use trainyard_agent::look::Fate;
use trainyard_core::id::{Digest, RunId};
use trainyard_core::spec::{JobSpec, RaySpec, TargetKind, TargetSpec};
use trainyard_core::time::Instant;

use super::{Asked, Machine, RaySite, Seen, Shipment, Site, Slurm};
use crate::host::{Host, HostError, SshHost};
use crate::pipe::{Pipe, PipeError, agent_at};
use crate::ray::Ray;
use crate::target::SubmitError;

/// How sites are reached from here.
#[derive(Debug, Clone)]
pub struct Reach {
    /// `ssh`, or what the user has instead.
    pub ssh: Vec<String>,
    /// Where control sockets lie.
    pub sockets: PathBuf,
    /// The program that is both yard and its agent.
    pub program: PathBuf,
    /// The depot of this machine, for sites that get their code out of it.
    pub home: Depot,
    /// Where it is remembered which cluster of several a parcel went to.
    pub choices: PathBuf,
}

/// How long a site may take for its answers, beyond what a command itself is given.
const PATIENCE: Duration = Duration::from_secs(60);
/// A connection nobody needs is given up after this long.
const IDLE: Duration = Duration::from_secs(300);
/// On each node of a Ray cluster: Ray's programs have no other folder that is sure to be theirs.
const RAY_DEPOT: &str = "/tmp/trainyard";

impl Reach {
    /// A host that nobody is asked about: what needs a person fails.
    pub fn host(&self, target: &TargetSpec) -> Result<Host, HostError> {
        let name = match &target.kind {
            TargetKind::Ssh(ssh) => Some(&ssh.host),
            TargetKind::Slurm(slurm) => slurm.host.as_ref(),
            TargetKind::Ray(ray) => return Ok(Host::Cluster(ray.addresses.first().cloned().unwrap_or_default())),
            _ => None,
        };
        match name {
            Some(name) => Ok(Host::Ssh(SshHost::new(name, &self.ssh, &self.sockets)?)),
            None => Ok(Host::Here),
        }
    }

    pub fn pipe(&self, target: &TargetSpec) -> Result<Pipe, PipeError> {
        if let TargetKind::Ray(spec) = &target.kind {
            let agent = agent_at(&self.program)?;
            return Ok(Pipe::to_ray(clusters(spec)?, &depot_of(target), &agent, PATIENCE));
        }
        let host = self.host(target)?;
        Pipe::open(&host, &depot_of(target), &self.program, PATIENCE)
    }
}

/// Sends code that lies in the depot at home to where it is fetched from. Where a target names several clusters that is
/// done when one of them is chosen, and here it is only seen that one of them answers.
pub fn send_code(
    reach: &Reach,
    target: &TargetSpec,
    digest: &Digest,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), PipeError> {
    let TargetKind::Ray(spec) = &target.kind else { return Ok(()) };
    let clusters = clusters(spec)?;
    if let [only] = &clusters[..] {
        return Ok(crate::ray::send(only, &agent_at(&reach.program)?, &reach.home, digest, progress)?);
    }
    Ok(crate::ray::any(&clusters)?)
}

/// All of them; none is asked anything yet.
fn clusters(spec: &RaySpec) -> Result<Vec<Ray>, PipeError> {
    Ok(spec.addresses.iter().map(|address| Ray::open(spec, address)).collect::<Result<_, _>>()?)
}

/// The folder at the site, as the file names it.
pub fn depot_of(target: &TargetSpec) -> String {
    if let (None, TargetKind::Ray(_)) = (&target.depot, &target.kind) {
        return RAY_DEPOT.to_owned();
    }
    target.depot.clone().unwrap_or_else(|| "~/.local/share/trainyard/depot".to_owned())
}

/// What a worker is told.
#[derive(Debug)]
pub enum Task {
    Submit(Box<Shipment>),
    Observe(Vec<Asked>),
    Cancel { asked: Vec<Asked>, insist: bool },
    Settle { asked: Box<Asked>, attempt: u32, job: Box<JobSpec> },
}

/// What it says.
#[derive(Debug)]
pub enum News {
    Submitted {
        parcel: String,
        outcome: Result<String, SubmitError>,
    },
    Seen {
        site: String,
        at: Instant,
        seen: Vec<Seen>,
    },
    Settled {
        run: RunId,
        attempt: u32,
        fate: Fate,
    },
    /// The question could not be answered; nothing follows from that.
    Unanswered {
        site: String,
        at: Instant,
        problem: String,
    },
}

/// Dropping it ends the thread when it has done what it was told.
#[derive(Debug)]
pub struct Worker {
    tasks: Sender<Task>,
}

impl Worker {
    pub fn start(reach: Reach, target: TargetSpec, news: UnboundedSender<News>) -> Self {
        let (tasks, told) = channel();
        std::thread::spawn(move || Bench { reach, target, news, site: None }.work(&told));
        Self { tasks }
    }

    pub fn tell(&self, task: Task) {
        // The thread ends only after this end of the channel is gone.
        drop(self.tasks.send(task));
    }
}

struct Bench {
    reach: Reach,
    target: TargetSpec,
    news: UnboundedSender<News>,
    site: Option<Box<dyn Site>>,
}

impl Bench {
    fn work(&mut self, told: &Receiver<Task>) {
        loop {
            match told.recv_timeout(IDLE) {
                Ok(task) => self.carry_out(task),
                Err(RecvTimeoutError::Timeout) => self.site = None,
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn carry_out(&mut self, task: Task) {
        let news = match task {
            Task::Submit(shipment) => {
                let outcome = self.submit(&shipment);
                News::Submitted { parcel: shipment.parcel.id.clone(), outcome }
            }
            Task::Observe(asked) => match self.with_site(|site| site.observe(&asked)) {
                Ok(seen) => News::Seen { site: self.target.name.clone(), at: now(), seen },
                Err(error) => self.unanswered(&error),
            },
            Task::Cancel { asked, insist } => match self.with_site(|site| site.cancel(&asked, insist)) {
                Ok(()) => return,
                Err(error) => self.unanswered(&error),
            },
            Task::Settle { asked, attempt, job } => match self.with_site(|site| site.settle(&asked, attempt, &job)) {
                Ok(fate) => News::Settled { run: asked.run, attempt, fate },
                Err(error) => self.unanswered(&error),
            },
        };
        // Nobody listens any more when the yardmaster is about to leave.
        drop(self.news.send(news));
    }

    fn unanswered(&self, error: &PipeError) -> News {
        News::Unanswered { site: self.target.name.clone(), at: now(), problem: super::chain(error) }
    }

    /// A connection that broke is made anew once; a question asked twice does no harm.
    fn with_site<T>(&mut self, ask: impl Fn(&mut dyn Site) -> Result<T, PipeError>) -> Result<T, PipeError> {
        let had_one = self.site.is_some();
        match ask(self.site()?) {
            Err(error) if error.is_broken() => {
                self.site = None;
                if had_one { ask(self.site()?) } else { Err(error) }
            }
            answered => answered,
        }
    }

    fn site(&mut self) -> Result<&mut dyn Site, PipeError> {
        let site = match self.site.take() {
            Some(site) => site,
            None => open(&self.reach, &self.target)?,
        };
        Ok(self.site.insert(site).as_mut())
    }

    fn submit(&mut self, shipment: &Shipment) -> Result<String, SubmitError> {
        let unreachable = |error: PipeError| SubmitError::Unreachable(std::io::Error::other(super::chain(&error)));
        let had_one = self.site.is_some();
        let outcome = self.site().map_err(unreachable)?.submit(shipment);
        if outcome.as_ref().is_err_and(|error| !matches!(error, SubmitError::Refused(_))) {
            self.site = None;
            if had_one {
                return self.site().map_err(unreachable)?.submit(shipment);
            }
        }
        outcome
    }
}

/// The site of a target, connected.
pub fn open(reach: &Reach, target: &TargetSpec) -> Result<Box<dyn Site>, PipeError> {
    let pipe = reach.pipe(target)?;
    match &target.kind {
        TargetKind::Slurm(_) => Ok(Box::new(Slurm::new(pipe))),
        TargetKind::Ssh(_) => Ok(Box::new(Machine::new(pipe))),
        TargetKind::Ray(spec) => {
            let (agent, clusters) = (agent_at(&reach.program)?, clusters(spec)?);
            let site = RaySite::new(spec.clone(), clusters, pipe, agent, reach.home.clone(), reach.choices.clone());
            Ok(Box::new(site))
        }
        other => Err(PipeError::Refused(format!("targets of kind `{}` are not sites", other.name()))),
    }
}
