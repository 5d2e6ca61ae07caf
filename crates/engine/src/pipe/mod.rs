//! Our end of the pipe: requests to the agent at a site, one at a time, with a limit on every wait.

mod ask;
mod open;
mod ship;
mod talk;
mod wire;

use std::io::BufReader;
use std::path::Path;
use std::time::Duration;

pub use ask::SMALL_FILE;
pub use trainyard_agent::pipe::message::{Listed, ListedKind, Output, Status};
use trainyard_core::plan::ray::Node;

use crate::host::{Host, HostError};
use crate::ray::{Agent, Letters, Ray, RayError};
use ship::Program;
use wire::Wire;

/// The program at this path, as an agent for Ray.
pub(crate) fn agent_at(path: &Path) -> Result<Agent, PipeError> {
    let program = Program::look(path)?;
    Ok(Agent { path: path.to_owned(), hash: program.hash().to_owned(), name: program.name() })
}

#[derive(Debug, thiserror::Error)]
pub enum PipeError {
    #[error(transparent)]
    Host(#[from] HostError),
    /// The agent or the connection has gone; whether the last request was carried out is not known.
    #[error("the connection broke")]
    Dropped,
    #[error("no answer in time")]
    TimedOut,
    #[error(transparent)]
    Ray(#[from] RayError),
    /// The site answered, and said no.
    #[error("{0}")]
    Refused(String),
}

impl PipeError {
    /// Whether another try over a new connection may go better.
    pub fn is_broken(&self) -> bool {
        match self {
            Self::Dropped | Self::TimedOut | Self::Host(HostError::Dropped { .. }) => true,
            Self::Host(_) | Self::Ray(_) | Self::Refused(_) => false,
        }
    }
}

/// A program that ran at the site.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    pub status: Status,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    /// There was more output than is kept.
    pub cut: bool,
}

impl Ran {
    pub fn succeeded(&self) -> bool {
        self.status == Status::Exited(0)
    }

    pub fn stdout(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stdout)
    }

    pub fn stderr(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.stderr)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub free: u64,
    pub total: u64,
}

/// A talk with the agent of one depot. After [`PipeError::Dropped`] or [`PipeError::TimedOut`] it is of no use any
/// more: open another.
#[derive(Debug)]
pub struct Pipe {
    host: Host,
    session: BufReader<Wire>,
    depot: String,
    agent: String,
    chatter: usize,
    /// An answer was not read to its end, so the next one would be misread.
    broken: bool,
}

impl Pipe {
    /// The depot's folder, absolute, as the site knows it.
    pub fn depot(&self) -> &str {
        &self.depot
    }

    /// The path of the agent at the site.
    pub fn agent(&self) -> &str {
        &self.agent
    }

    /// To the nodes of Ray clusters, of which nobody is asked anything yet.
    pub(crate) fn to_ray(clusters: Vec<Ray>, depot: &str, agent: &Agent, limit: Duration) -> Self {
        let name = clusters.first().map(Ray::address).unwrap_or_default();
        let letters = Letters::new(clusters, depot.to_owned(), agent.clone(), limit);
        Self {
            host: Host::Cluster(name),
            session: BufReader::with_capacity(1 << 16, Wire::Letters(Box::new(letters))),
            depot: depot.to_owned(),
            agent: format!("{depot}/bin/{}", agent.name),
            chatter: 0,
            broken: false,
        }
    }

    /// Every node of every cluster, with the number of the cluster; none but of Ray.
    pub(crate) fn nodes(&self) -> Result<Vec<(usize, Node)>, PipeError> {
        match self.session.get_ref() {
            Wire::Letters(letters) => Ok(letters.everywhere()?),
            Wire::Child(_) => Ok(Vec::new()),
        }
    }

    /// Asks one node of a Ray cluster.
    pub(crate) fn at<T>(&mut self, cluster: usize, node: &Node, ask: impl FnOnce(&mut Self) -> T) -> T {
        self.fix(Some((cluster, node)));
        let answer = ask(self);
        self.fix(None);
        answer
    }

    fn fix(&mut self, place: Option<(usize, &Node)>) {
        if let Wire::Letters(letters) = self.session.get_mut() {
            letters.fix(place);
        }
    }

    /// Lines that the login shell said before the agent did.
    pub fn chatter(&self) -> usize {
        self.chatter
    }

    pub fn host(&self) -> &Host {
        &self.host
    }
}
