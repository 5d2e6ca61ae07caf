//! This machine. Attempts run under agents, one program at a time each; an agent that is free takes the next
//! order. An agent outlives the yardmaster that started it, and the next one finds it by its claim.

use std::cell::RefCell;
use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;
use std::rc::Rc;

use async_trait::async_trait;
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use trainyard_agent::claim::{self, Holder};
use trainyard_agent::depot::{AttemptFolder, Depot};
use trainyard_agent::disk::read_json;
use trainyard_agent::lane::{Down, Up};
use trainyard_agent::order::{AttemptResult, Order, Secrets, Status};
use trainyard_agent::process::{Identity, kill_strays};
use trainyard_core::id::Token;

use super::{Declared, Facts, Handle, LogChunk, News, Observation, Stop, SubmitError, Target, TargetError, capacity};

/// At most this much of a log in one answer.
const CHUNK: u64 = 1 << 20;

#[derive(Debug)]
pub struct Local {
    /// Where attempts are looked for that are known by their token only.
    depot: Depot,
    declared: Declared,
    /// The program that is both yard and its agent.
    program: PathBuf,
    news: UnboundedSender<News>,
    lanes: Rc<RefCell<Lanes>>,
}

/// Agents of this yardmaster, by what they are doing.
#[derive(Debug, Default)]
struct Lanes {
    idle: Vec<Lane>,
    busy: HashMap<Token, Lane>,
    /// Attempts whose agent somebody else started, watched until it ends.
    adopted: HashMap<Token, (Identity, AttemptFolder)>,
}

/// Dropping it closes the agent's input.
#[derive(Debug)]
struct Lane {
    number: u64,
    input: UnboundedSender<Vec<u8>>,
}

impl Lane {
    /// An agent that is gone does not hear it; its end is news of its own.
    fn tell(&self, down: &Down) {
        if let Ok(mut line) = serde_json::to_vec(down) {
            line.push(b'\n');
            drop(self.input.send(line));
        }
    }
}

impl Local {
    pub fn new(depot: Depot, declared: Declared, program: PathBuf, news: UnboundedSender<News>) -> Self {
        Self { depot, declared, program, news, lanes: Rc::default() }
    }

    /// Agents without work, kept for the next order; they leave when their input closes.
    pub fn dismiss_idle(&self) {
        self.lanes.borrow_mut().idle.clear();
    }

    fn lane(&self) -> io::Result<Lane> {
        if let Some(lane) = self.lanes.borrow_mut().idle.pop() {
            return Ok(lane);
        }
        let mut command = Command::new(&self.program);
        command.args(["agent", "lane"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        // Out of the terminal's reach: Ctrl-C at `yard run` must not end the training.
        command.process_group(0);
        let mut child = command.spawn()?;
        let missing = || io::Error::other("an agent without a pipe");
        let input = child.stdin.take().ok_or_else(missing)?;
        let output = child.stdout.take().ok_or_else(missing)?;
        let number = u64::from(child.id().unwrap_or(0));
        let (sender, receiver) = tokio::sync::mpsc::unbounded_channel();
        tokio::task::spawn_local(tell(input, receiver));
        tokio::task::spawn_local(hear(number, child, output, Rc::clone(&self.lanes), self.news.clone()));
        Ok(Lane { number, input: sender })
    }

    /// What the folder says, and if the agent lives, a watch on its end.
    fn look(&self, handle: &Handle) -> Observation {
        let folder = folder(handle);
        if let Some(result) = result_of(&folder, &handle.token) {
            return Observation::Ended { result: Box::new(result) };
        }
        if self.lanes.borrow().busy.contains_key(&handle.token) {
            return Observation::Running { since: None };
        }
        match claim::holder(&folder) {
            Holder::Nobody => self.void(handle, &folder),
            held => self.held(handle, &folder, held),
        }
    }

    fn held(&self, handle: &Handle, folder: &AttemptFolder, holder: Holder) -> Observation {
        match holder {
            Holder::Alive(agent) => {
                self.adopt(&handle.token, agent, folder.clone());
                Observation::Running { since: None }
            }
            Holder::Void => Observation::NeverStarted,
            Holder::Gone | Holder::Nobody => lost(handle, folder),
        }
    }

    /// An order may still lie in the pipe of an agent that lost its yardmaster, so it is made sure that nobody takes
    /// it up from there any more.
    fn void(&self, handle: &Handle, folder: &AttemptFolder) -> Observation {
        match claim::make_void(folder, &handle.token) {
            Ok(()) => Observation::NeverStarted,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                self.held(handle, folder, claim::holder(folder))
            }
            Err(error) => Observation::Doubt { why: error.to_string() },
        }
    }

    /// Attempts of agents that others started: they report to nobody, so they are looked at.
    pub fn adopted(&self) -> Vec<(Token, Option<Status>)> {
        let lanes = self.lanes.borrow();
        lanes.adopted.iter().map(|(token, (_, folder))| (token.clone(), read_json(&folder.status()))).collect()
    }

    fn adopt(&self, token: &Token, agent: Identity, folder: AttemptFolder) {
        let mut lanes = self.lanes.borrow_mut();
        if lanes.adopted.insert(token.clone(), (agent.clone(), folder)).is_none() {
            let (token, news) = (token.clone(), self.news.clone());
            let lanes = Rc::clone(&self.lanes);
            tokio::task::spawn_local(async move {
                wait_for_end(agent).await;
                lanes.borrow_mut().adopted.remove(&token);
                // Nobody listens any more when the yardmaster is about to leave.
                drop(news.send(News::Changed { token }));
            });
        }
    }
}

fn folder(handle: &Handle) -> AttemptFolder {
    handle.depot.run(handle.run).attempt(handle.attempt)
}

fn result_of(folder: &AttemptFolder, token: &Token) -> Option<AttemptResult> {
    read_json::<AttemptResult>(&folder.result()).filter(|result| result.token == *token)
}

/// The agent is gone. Its program died with it; what had got away is ended now.
fn lost(handle: &Handle, folder: &AttemptFolder) -> Observation {
    kill_strays(handle.run, handle.attempt);
    // It may have finished between two looks.
    match result_of(folder, &handle.token) {
        Some(result) => Observation::Ended { result: Box::new(result) },
        None => Observation::Lost { why: "the agent was killed or the machine went down".to_owned() },
    }
}

/// Returns when the process has ended. A thread waits, since tokio has no safe way to watch a foreign descriptor.
async fn wait_for_end(agent: Identity) {
    let (tell, told) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        agent.wait();
        // Whoever asked may have left.
        let _ = tell.send(());
    });
    drop(told.await);
}

async fn tell(mut input: ChildStdin, mut lines: UnboundedReceiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if input.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// What one agent says, until it ends.
async fn hear(
    number: u64,
    mut child: Child,
    output: ChildStdout,
    lanes: Rc<RefCell<Lanes>>,
    news: UnboundedSender<News>,
) {
    let mut lines = BufReader::new(output).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let Ok(up) = serde_json::from_str::<Up>(&line) else { continue };
        let told = match up {
            Up::Started { token, at } => News::Started { token, at },
            Up::Beat { token, status } => News::Beat { token, status },
            Up::Ended { result } => {
                lanes.borrow_mut().free(&result.token);
                News::Ended { result }
            }
            Up::Claimed { token } | Up::NotTaken { token, .. } => {
                lanes.borrow_mut().free(&token);
                News::Changed { token }
            }
        };
        drop(news.send(told));
    }
    drop(child.wait().await);
    if let Some(token) = lanes.borrow_mut().drop_lane(number) {
        drop(news.send(News::Changed { token }));
    }
}

impl Lanes {
    fn has(&self, agent: &Identity) -> bool {
        let is = |lane: &Lane| i64::from(agent.pid) == i64::try_from(lane.number).unwrap_or(-1);
        self.idle.iter().chain(self.busy.values()).any(is)
    }

    fn free(&mut self, token: &Token) {
        if let Some(lane) = self.busy.remove(token) {
            self.idle.push(lane);
        }
    }

    /// The attempt the lane was busy with, if any.
    fn drop_lane(&mut self, number: u64) -> Option<Token> {
        self.idle.retain(|lane| lane.number != number);
        let token = self.busy.iter().find(|(_, lane)| lane.number == number).map(|(token, _)| token.clone())?;
        self.busy.remove(&token);
        Some(token)
    }
}

#[async_trait(?Send)]
impl Target for Local {
    async fn probe(&self) -> Result<Facts, TargetError> {
        Ok(Facts { capacity: capacity(&self.declared).await })
    }

    async fn submit(&self, order: Order, secrets: Secrets) -> Result<Handle, SubmitError> {
        let (depot, token) = (order.depot.clone(), order.token.clone());
        let handle = Handle { depot, run: order.run, attempt: order.attempt, token };
        let lane = self.lane().map_err(SubmitError::Unreachable)?;
        lane.tell(&Down::Run { order: Box::new(order), secrets });
        self.lanes.borrow_mut().busy.insert(handle.token.clone(), lane);
        Ok(handle)
    }

    async fn find(&self, token: &Token) -> Result<Option<Handle>, TargetError> {
        let Some((run, attempt)) = token.parts() else { return Ok(None) };
        let handle = Handle { depot: self.depot.clone(), run, attempt, token: token.clone() };
        let known = self.lanes.borrow().busy.contains_key(token) || folder(&handle).claim().exists();
        Ok(known.then_some(handle))
    }

    async fn observe(&self, handles: &[Handle]) -> Result<Vec<Observation>, TargetError> {
        Ok(handles.iter().map(|handle| self.look(handle)).collect())
    }

    async fn stop(&self, handle: &Handle, how: Stop) -> Result<(), TargetError> {
        if let Some(lane) = self.lanes.borrow().busy.get(&handle.token) {
            lane.tell(&Down::Stop { token: handle.token.clone(), how });
            return Ok(());
        }
        let folder = folder(handle);
        // An agent of ours that is not busy with this attempt has ended it, and may be at work on another.
        let ours = |agent: &Identity| self.lanes.borrow().has(agent);
        if result_of(&folder, &handle.token).is_none()
            && let Holder::Alive(agent) = claim::holder(&folder)
            && !ours(&agent)
        {
            agent.signal(match how {
                Stop::Gently => Signal::TERM,
                Stop::Now => Signal::INT,
            });
        }
        Ok(())
    }

    async fn logs(&self, handle: &Handle, from: u64) -> Result<LogChunk, TargetError> {
        use std::io::{Read, Seek};
        let mut bytes = Vec::new();
        let read = fs_err::File::open(folder(handle).log()).and_then(|mut file| {
            file.seek(io::SeekFrom::Start(from))?;
            file.take(CHUNK).read_to_end(&mut bytes)
        });
        match read {
            Ok(count) => Ok(LogChunk { bytes, next: from + count as u64 }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(LogChunk { bytes, next: from }),
            Err(error) => Err(TargetError::Unreachable(error)),
        }
    }

    async fn remove(&self, handle: &Handle) -> Result<(), TargetError> {
        match fs_err::remove_dir_all(handle.depot.run(handle.run).path()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TargetError::Unreachable(error)),
            _ => Ok(()),
        }
    }
}
