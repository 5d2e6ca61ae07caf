//! Talk with the agents of a cluster that nobody can connect to: a request is a package and a small job on the node that is
//! asked, and the answer is read there as a log. What only has to be read is read without a job.

mod logs;
mod routes;

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, Cursor, Read, Seek, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant as Clock};

use trainyard_agent::disk::remove_folder;
use trainyard_agent::pipe::frame::{self, Tag};
use trainyard_agent::pipe::message::{Answer, Request};
use trainyard_agent::ray::{answer_name, link_name};
use trainyard_core::id::RunId;
use trainyard_core::plan::ray::{JobStatus, Need, Node, RuntimeEnv, Submission, package_uri};
use trainyard_core::quote;

use super::package::{agent_package, request_package, send_agent};
use super::several::Silent;
use super::{Ray, RayError};

/// Ray's name of such a job begins so.
pub(crate) const ASKING: &str = "yard-ask";
/// Under this name a job says which runs it is for.
pub(crate) const RUNS: &str = "yard-runs";
const SOON: Duration = Duration::from_millis(100);
const LATER: Duration = Duration::from_millis(500);

/// The program that is brought as the agent.
#[derive(Debug, Clone)]
pub(crate) struct Agent {
    pub(crate) path: PathBuf,
    pub(crate) hash: String,
    /// In `bin/` of depots.
    pub(crate) name: String,
}

impl Agent {
    /// Its package in the cluster's store.
    pub(crate) fn uri(&self) -> String {
        package_uri(&agent_package(&self.hash))
    }

    /// The line that Ray gives to a shell.
    pub(crate) fn entrypoint(&self, depot: &str, task: &str) -> Result<String, RayError> {
        let depot = quote::posix(depot).map_err(|error| RayError::Refused(error.to_string()))?;
        let package = agent_package(&self.hash);
        let folder = package.strip_suffix(".zip").unwrap_or(&package);
        // Ray names the folders of packages in Python's path, and does not keep the mode of what it unpacks.
        Ok(format!(
            "set -f; IFS=:; for d in $PYTHONPATH; do case $d in */{folder}) chmod +x \"$d/yard\" && \
             exec \"$d/yard\" agent ray --depot {depot} --agent {} {task};; esac; done; \
             echo 'Ray has not unpacked the agent' >&2; exit 127",
            self.name
        ))
    }
}

/// All clusters of a target, and one depot on each of their nodes.
#[derive(Debug)]
pub(crate) struct Letters {
    clusters: Vec<Ray>,
    depot: String,
    agent: Agent,
    request: Vec<u8>,
    answer: Option<Reply>,
    pub(crate) limit: Duration,
    routes: HashMap<RunId, Route>,
    silent: Silent,
    /// The one node that is asked, whatever is asked.
    fixed: Option<Route>,
    /// Where logs are brought to.
    mirror: PathBuf,
    brought: HashMap<PathBuf, Clock>,
    trouble: Option<RayError>,
}

/// Where a run is, or was.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    cluster: usize,
    node: String,
}

/// What came back.
#[derive(Debug)]
enum Reply {
    Held(Cursor<Vec<u8>>),
    Filed(File),
}

impl Read for Reply {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Held(bytes) => bytes.read(buffer),
            Self::Filed(file) => file.read(buffer),
        }
    }
}

impl Letters {
    pub(crate) fn new(clusters: Vec<Ray>, depot: String, agent: Agent, limit: Duration) -> Self {
        let mirror = std::env::temp_dir().join(format!("yard-{}", uuid::Uuid::now_v7().simple()));
        Self {
            clusters,
            depot,
            agent,
            request: Vec::new(),
            answer: None,
            limit,
            routes: HashMap::new(),
            silent: Silent::default(),
            fixed: None,
            mirror,
            brought: HashMap::new(),
            trouble: None,
        }
    }

    /// Why the last answer did not come.
    pub(crate) fn take_trouble(&mut self) -> Option<RayError> {
        self.trouble.take()
    }

    fn cluster(&self, index: usize) -> Result<&Ray, RayError> {
        self.clusters.get(index).ok_or_else(|| RayError::Refused("the target names no cluster".to_owned()))
    }

    /// Carries out what was written since the last answer.
    fn ask(&mut self) -> Result<(), RayError> {
        let request = std::mem::take(&mut self.request);
        let head = frame::read(&mut request.as_slice()).ok().flatten().map(|(_, head)| head).unwrap_or_default();
        let text = String::from_utf8_lossy(&head).into_owned();
        let answer = match serde_json::from_slice::<Request>(&head) {
            Ok(Request::Read { path, offset, most }) => Reply::Held(Cursor::new(self.read(&path, offset, most)?)),
            Ok(Request::Logs { wanted, most }) => Reply::Held(Cursor::new(self.logs(&wanted, most)?)),
            _ => {
                let route = self.route_of(&text)?;
                Reply::Filed(self.by_job(&route, &request)?)
            }
        };
        self.answer = Some(answer);
        Ok(())
    }

    /// From here on this node is asked; with none, whichever has what is asked about.
    pub(crate) fn fix(&mut self, place: Option<(usize, &Node)>) {
        self.fixed = place.map(|(cluster, node)| Route { cluster, node: node.id.clone() });
    }

    /// The name by which Ray knows a file of the depot.
    fn shown(&self, path: &str) -> String {
        let path = path.strip_prefix(&self.depot).unwrap_or(path).trim_start_matches('/');
        format!("{}/{path}", link_name(&self.depot))
    }

    fn read(&mut self, path: &str, offset: u64, most: u64) -> Result<Vec<u8>, RayError> {
        let route = self.route_of(path)?;
        let found = self.cluster(route.cluster)?.file(&route.node, &self.shown(path))?;
        let from = usize::try_from(offset).unwrap_or(usize::MAX);
        let part = found.as_ref().map(|bytes| {
            let rest = bytes.get(from..).unwrap_or_default();
            rest.get(..usize::try_from(most).unwrap_or(usize::MAX)).unwrap_or(rest)
        });
        let sizes = vec![part.map(|part| part.len() as u64)];
        framed(&Answer::Files { sizes }, &part.into_iter().collect::<Vec<_>>())
    }

    /// Starts an agent there for this one request.
    fn by_job(&self, route: &Route, request: &[u8]) -> Result<File, RayError> {
        let ray = self.cluster(route.cluster)?;
        let node = ray.nodes()?.into_iter().find(|node| node.id == route.node);
        let node = node.ok_or_else(|| RayError::Refused("the node that has it is gone".to_owned()))?;
        send_agent(ray, &self.agent.path, &self.agent.hash)?;
        let (package, bytes) = request_package(request);
        ray.put_package(&package, &bytes)?;
        let id = format!("{ASKING}-{}", uuid::Uuid::now_v7().simple());
        let need = Need::place(&node);
        ray.submit(&Submission {
            entrypoint: self.agent.entrypoint(&self.depot, &format!("--answer {id}"))?,
            submission_id: id.clone(),
            runtime_env: RuntimeEnv {
                py_modules: vec![self.agent.uri(), package_uri(&package)],
                ..RuntimeEnv::default()
            },
            metadata: std::collections::BTreeMap::new(),
            // Said, since Ray otherwise wants a processor to be free for it.
            entrypoint_num_cpus: Some(0.0),
            entrypoint_num_gpus: None,
            entrypoint_memory: None,
            entrypoint_resources: need.resources,
        })?;
        self.wait(ray, &id)?;
        let mut answer = unnamed_file().map_err(RayError::Package)?;
        if !ray.copy_file(&node.id, &self.shown(&answer_name(&id)), &mut answer)? {
            return Err(RayError::Refused(format!("the agent on {} left no answer", node.name)));
        }
        answer.rewind().map_err(RayError::Package)?;
        Ok(answer)
    }

    fn wait(&self, ray: &Ray, id: &str) -> Result<(), RayError> {
        let until = Clock::now() + self.limit;
        let mut pause = SOON;
        loop {
            let Some(job) = ray.job(id)? else {
                return Err(RayError::Refused("the cluster was started anew meanwhile".to_owned()));
            };
            match job.status {
                JobStatus::Succeeded => return Ok(()),
                JobStatus::Failed | JobStatus::Stopped => {
                    return Err(RayError::Refused(format!(
                        "the agent there failed: {}",
                        super::last_line(&job.message)
                    )));
                }
                _ if Clock::now() > until => {
                    drop(ray.stop(id));
                    let seconds = self.limit.as_secs();
                    return Err(RayError::Refused(format!("the agent did not answer in {seconds} s: {}", job.message)));
                }
                _ => std::thread::sleep(pause),
            }
            pause = (pause * 3 / 2).min(LATER);
        }
    }
}

fn framed(head: &Answer, parts: &[&[u8]]) -> Result<Vec<u8>, RayError> {
    let mut out = Vec::new();
    let write = |out: &mut Vec<u8>| -> io::Result<()> {
        frame::write(out, Tag::Head, &serde_json::to_vec(head)?)?;
        for chunk in parts.iter().flat_map(|part| part.chunks(1 << 20)) {
            frame::write(out, Tag::Body, chunk)?;
        }
        frame::write(out, Tag::End, &[])
    };
    write(&mut out).map_err(RayError::Package)?;
    Ok(out)
}

fn unnamed_file() -> io::Result<File> {
    use rustix::fs::{Mode, OFlags};
    let folder = std::env::temp_dir();
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    Ok(File::from(rustix::fs::open(&folder, flags, Mode::RUSR | Mode::WUSR)?))
}

impl Write for Letters {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.answer = None;
        self.request.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Read for Letters {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.request.is_empty()
            && let Err(error) = self.ask()
        {
            let kind = if matches!(error, RayError::Web(_)) { io::ErrorKind::BrokenPipe } else { io::ErrorKind::Other };
            let text = error.to_string();
            self.trouble = Some(error);
            return Err(io::Error::new(kind, text));
        }
        self.answer.as_mut().map_or(Ok(0), |answer| answer.read(buffer))
    }
}

impl Drop for Letters {
    fn drop(&mut self) {
        if self.mirror.exists() {
            drop(remove_folder(&self.mirror));
        }
    }
}
