//! Our end of the pipe: requests to the agent at a site, one at a time, with a limit on every wait.

mod open;
mod ship;
mod wire;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::time::Duration;

use trainyard_agent::pipe::frame::{self, Body, Tag};
use trainyard_agent::pipe::message::{Answer, ReadLog, Request};
pub use trainyard_agent::pipe::message::{Listed, ListedKind, Output, Status};
use trainyard_agent::tail::{Portion, Reading, Wanted};
use trainyard_core::id::RunId;
use trainyard_core::plan::ray::Node;

use crate::host::{Host, HostError};
use crate::ray::{Agent, Letters, Ray, RayError};
use ship::Program;
use wire::Wire;

/// What a file in [`Pipe::read_many`] is cut to.
pub const SMALL_FILE: u64 = 4 << 20;
/// How much later than a program's limit its end may reach us.
const GRACE: Duration = Duration::from_secs(15);

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

    /// Runs a program at the site, not through a shell. `env` is added to what the agent has.
    pub fn run(
        &mut self,
        argv: &[String],
        stdin: &[u8],
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<Ran, PipeError> {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let request = Request::Run { argv: argv.to_vec(), env: env.clone(), milliseconds };
        let answer = self.within(limit.saturating_add(GRACE), |pipe| pipe.ask(&request, &[stdin]));
        let Answer::Ran { status, stdout, stderr, cut } = answer? else { return Err(self.nonsense()) };
        let mut parts = self.parts(&[stdout, stderr])?.into_iter();
        let (stdout, stderr) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        Ok(Ran { status, stdout, stderr, cut })
    }

    /// One of the agent's own tasks about its depot, JSON in, JSON out.
    pub fn task<T: serde::de::DeserializeOwned>(
        &mut self,
        task: &[&str],
        input: &impl serde::Serialize,
        limit: Duration,
    ) -> Result<T, PipeError> {
        let mut argv = vec![self.agent.clone(), "agent".to_owned()];
        argv.extend(task.iter().map(|word| (*word).to_owned()));
        argv.extend(["--depot".to_owned(), self.depot.clone()]);
        let input = serde_json::to_vec(input).map_err(|error| PipeError::Refused(error.to_string()))?;
        let ran = self.run(&argv, &input, &BTreeMap::new(), limit)?;
        let failed = |_| PipeError::Refused(format!("the agent at the site failed: {}", ran.stderr().trim()));
        serde_json::from_slice(&ran.stdout).map_err(failed)
    }

    /// Writes files below the depot, each whole or not at all; folders are made.
    pub fn write(&mut self, files: &[(String, Vec<u8>)]) -> Result<(), PipeError> {
        let heads = files.iter().map(|(path, bytes)| (path.clone(), bytes.len() as u64)).collect();
        let parts: Vec<&[u8]> = files.iter().map(|(_, bytes)| bytes.as_slice()).collect();
        self.ask(&Request::Write { files: heads }, &parts)?;
        self.parts(&[]).map(drop)
    }

    /// At most `most` bytes from `offset`; nothing at the end. A file that is not there is empty.
    pub fn read(&mut self, path: &str, offset: u64, most: u64) -> Result<Vec<u8>, PipeError> {
        let answer = self.ask(&Request::Read { path: path.to_owned(), offset, most }, &[])?;
        Ok(self.files(answer)?.into_iter().next().flatten().unwrap_or_default())
    }

    /// Small files in one round trip, `None` for what is not there; longer ones are cut to [`SMALL_FILE`].
    pub fn read_many(&mut self, paths: &[String]) -> Result<Vec<Option<Vec<u8>>>, PipeError> {
        let answer = self.ask(&Request::ReadMany { paths: paths.to_vec(), most: SMALL_FILE }, &[])?;
        let found = self.files(answer)?;
        if found.len() == paths.len() { Ok(found) } else { Err(self.nonsense()) }
    }

    /// Everything below a folder, links as links. Empty when there is no such folder.
    pub fn list(&mut self, folder: &str) -> Result<Vec<Listed>, PipeError> {
        let Answer::Tree { .. } = self.ask(&Request::List { folder: folder.to_owned() }, &[])? else {
            return Err(self.nonsense());
        };
        self.lines()
    }

    /// What a run's program would see of these paths in its working folder, and those it would not find.
    pub fn outputs(&mut self, run: RunId, paths: &[String]) -> Result<(Vec<Output>, Vec<String>), PipeError> {
        let Answer::Outputs { missing } = self.ask(&Request::Outputs { run, paths: paths.to_vec() }, &[])? else {
            return Err(self.nonsense());
        };
        Ok((self.lines()?, missing))
    }

    /// Logs of runs in one round trip, in the order they were asked for.
    pub fn logs(&mut self, wanted: &[Wanted], most: u64) -> Result<Vec<Reading>, PipeError> {
        let answer = self.ask(&Request::Logs { wanted: wanted.to_vec(), most }, &[])?;
        let Answer::Logs { read } = answer else { return Err(self.nonsense()) };
        if read.len() != wanted.len() {
            return Err(self.nonsense());
        }
        let sizes: Vec<u64> = read.iter().flat_map(|one| &one.portions).map(|(_, size)| *size).collect();
        let mut parts = self.parts(&sizes)?.into_iter();
        let reading = |one: ReadLog| {
            let portions = one.portions.into_iter().zip(parts.by_ref());
            let portions = portions.map(|((attempt, _), bytes)| Portion { attempt, bytes }).collect();
            Reading { portions, next: one.next, is_all: one.is_all }
        };
        Ok(read.into_iter().map(reading).collect())
    }

    /// The body of an answer as lines of JSON.
    fn lines<T: serde::de::DeserializeOwned>(&mut self) -> Result<Vec<T>, PipeError> {
        const LONGEST_LINE: u64 = 64 << 10;
        self.broken = true;
        let mut body = BufReader::new(Body::new(&mut self.session));
        let mut found = Vec::new();
        loop {
            let mut line = Vec::new();
            let read = body.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            match read {
                Ok(0) => break,
                Ok(_) => found.push(serde_json::from_slice(&line).map_err(|_| PipeError::Dropped)?),
                Err(error) => return Err(self.failed(&error)),
            }
        }
        self.broken = false;
        Ok(found)
    }

    pub fn space(&mut self) -> Result<Space, PipeError> {
        let Answer::Space { free, total } = self.ask(&Request::Space, &[])? else { return Err(self.nonsense()) };
        self.parts(&[])?;
        Ok(Space { free, total })
    }

    /// Files, links and whole trees below the depot; what is not there is fine.
    pub fn remove(&mut self, paths: &[String]) -> Result<(), PipeError> {
        self.ask(&Request::Remove { paths: paths.to_vec() }, &[])?;
        self.parts(&[]).map(drop)
    }

    /// Sends a request and reads the head of the answer; a refusal is read to its end and becomes an error.
    pub(crate) fn ask(&mut self, request: &Request, body: &[&[u8]]) -> Result<Answer, PipeError> {
        self.begin(request)?;
        let sent = body.iter().flat_map(|part| part.chunks(1 << 20)).try_for_each(|chunk| self.send(Tag::Body, chunk));
        sent.and_then(|()| self.send(Tag::End, &[]))?;
        self.answer()
    }

    pub(crate) fn begin(&mut self, request: &Request) -> Result<(), PipeError> {
        if std::mem::replace(&mut self.broken, true) {
            return Err(PipeError::Dropped);
        }
        let head = serde_json::to_vec(request).map_err(|error| PipeError::Refused(error.to_string()))?;
        self.send(Tag::Head, &head)
    }

    pub(crate) fn send(&mut self, tag: Tag, bytes: &[u8]) -> Result<(), PipeError> {
        let header = match frame::header(tag, bytes.len()) {
            Ok(header) => header,
            Err(error) => return Err(PipeError::Refused(error.to_string())),
        };
        // One write for a short frame: on ssh every write is a packet.
        let sent = if bytes.len() < 1 << 16 {
            self.session.get_mut().write_all(&[header.as_slice(), bytes].concat())
        } else {
            let session = self.session.get_mut();
            session.write_all(&header).and_then(|()| session.write_all(bytes))
        };
        sent.map_err(|error| self.failed(&error))
    }

    fn answer(&mut self) -> Result<Answer, PipeError> {
        let head = match frame::read(&mut self.session) {
            Ok(Some((Tag::Head, head))) => head,
            Ok(Some(_)) => return Err(PipeError::Dropped),
            Ok(None) => return Err(self.failed(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(self.failed(&error)),
        };
        let answer = serde_json::from_slice(&head).map_err(|_| PipeError::Dropped)?;
        self.broken = false;
        if let Answer::Refused { why } = answer {
            self.parts(&[])?;
            return Err(PipeError::Refused(why));
        }
        Ok(answer)
    }

    /// The same for answers without a body.
    pub(crate) fn closed_ask(&mut self, request: &Request) -> Result<Answer, PipeError> {
        let answer = self.ask(request, &[])?;
        self.parts(&[])?;
        Ok(answer)
    }

    pub(crate) fn closed_answer(&mut self) -> Result<Answer, PipeError> {
        let answer = self.answer()?;
        self.parts(&[])?;
        Ok(answer)
    }

    /// With more patience than usual.
    pub(crate) fn within<T>(&mut self, limit: Duration, ask: impl FnOnce(&mut Self) -> T) -> T {
        let usual = self.session.get_ref().limit();
        self.session.get_mut().set_limit(usual.max(limit));
        let answer = ask(self);
        self.session.get_mut().set_limit(usual);
        answer
    }

    /// The next frame of an answer's body; `None` at its end. Until then nothing else can be asked.
    pub(crate) fn frame(&mut self) -> Result<Option<Vec<u8>>, PipeError> {
        self.broken = true;
        match Body::new(&mut self.session).frame() {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => {
                self.broken = false;
                Ok(None)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Whether the site says something while we are speaking.
    pub(crate) fn is_readable(&self) -> bool {
        self.session.get_ref().is_readable()
    }

    fn files(&mut self, answer: Answer) -> Result<Vec<Option<Vec<u8>>>, PipeError> {
        let Answer::Files { sizes } = answer else { return Err(self.nonsense()) };
        let there: Vec<u64> = sizes.iter().copied().flatten().collect();
        let mut parts = self.parts(&there)?.into_iter();
        Ok(sizes.into_iter().map(|size| size.and_then(|_| parts.next())).collect())
    }

    /// The body of an answer, cut into parts of these sizes. Memory is taken as bytes arrive.
    pub(crate) fn parts(&mut self, sizes: &[u64]) -> Result<Vec<Vec<u8>>, PipeError> {
        self.broken = true;
        let mut body = Body::new(&mut self.session);
        let mut read = || {
            let mut parts = Vec::with_capacity(sizes.len());
            for size in sizes {
                let mut part = Vec::new();
                body.by_ref().take(*size).read_to_end(&mut part)?;
                if part.len() as u64 != *size {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                parts.push(part);
            }
            body.skip()?;
            Ok(parts)
        };
        let parts: io::Result<Vec<Vec<u8>>> = read();
        match parts {
            Ok(parts) => {
                self.broken = false;
                Ok(parts)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn nonsense(&mut self) -> PipeError {
        self.broken = true;
        PipeError::Dropped
    }

    fn failed(&mut self, error: &io::Error) -> PipeError {
        self.broken = true;
        if let Wire::Letters(letters) = self.session.get_mut()
            && let Some(trouble) = letters.take_trouble()
        {
            // A letter without an answer leaves nothing unread.
            self.broken = false;
            return trouble.into();
        }
        if error.kind() == io::ErrorKind::TimedOut {
            return PipeError::TimedOut;
        }
        if error.kind() == io::ErrorKind::Other {
            return PipeError::Refused(error.to_string());
        }
        match (&self.host, self.session.get_mut()) {
            (Host::Ssh(host), Wire::Child(session)) => match host.why(session) {
                HostError::NoShell { .. } | HostError::Dropped { .. } | HostError::Other { .. } => PipeError::Dropped,
                other => other.into(),
            },
            _ => PipeError::Dropped,
        }
    }
}
