//! A Ray cluster, spoken to through the REST interface of its dashboard. Nothing of ours is installed there: programs and
//! code go in as packages, and what lies on a node comes back as if it were one of Ray's logs.

mod letters;
mod package;
mod several;

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use trainyard_agent::program::run_limited;
use trainyard_core::plan::ray::{JobRow, Node, Submission, Usage, Version, parse_jobs, parse_nodes, parse_usage};
use trainyard_core::spec::{RaySpec, SecretRef};
use trainyard_web::{Auth, Body, Client, Error, Limits, Response, Secret, Settings, Trust, encode};

pub(crate) use letters::{ASKING, Agent, Letters, RUNS};
pub(crate) use package::{letter_package, seal_secrets, send, send_agent, snapshot_packages};
pub(crate) use several::{Silent, any};

use crate::home::locate;

/// A head that is busy starting jobs takes its time.
const SILENCE: Duration = Duration::from_secs(60);
/// A password manager that waits for a person is not waited for longer than this.
const SECRET_PATIENCE: Duration = Duration::from_secs(60);
/// Its first argument is the folder.
const IN_FOLDER: &str = r#"cd -- "$1" && shift && exec "$@""#;
/// Ray's blocks of a file.
const BLOCK: u64 = 1 << 16;
/// In Ray's words.
const NO_FILE: &str = "file is not found";

#[derive(Debug, thiserror::Error)]
pub enum RayError {
    #[error(transparent)]
    Web(Error),
    /// We are nobody there.
    #[error(transparent)]
    Denied(Error),
    #[error("Ray refused: {0}")]
    Refused(String),
    #[error("the token for Ray: {0}")]
    Token(String),
    #[error("Ray at {address} says something else than expected to `{question}`")]
    Nonsense { address: String, question: String },
    #[error("it has not answered for {seconds} seconds")]
    Silent { seconds: u64 },
    #[error("cannot put a package together")]
    Package(#[source] io::Error),
}

impl From<Error> for RayError {
    fn from(error: Error) -> Self {
        match &error {
            Error::Status(status) if matches!(status.status.as_u16(), 401 | 403) => Self::Denied(error),
            _ => Self::Web(error),
        }
    }
}

/// One cluster.
#[derive(Debug, Clone)]
pub struct Ray {
    client: Client,
}

/// What became of a submission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Submitted {
    New,
    /// One of this name was there already.
    Known,
}

impl Ray {
    /// Connects to nobody yet.
    pub fn open(target: &RaySpec, address: &str) -> Result<Self, RayError> {
        let auth = token(target)?;
        let authorities =
            target.ca.iter().map(|path| locate(Path::new(path), Path::new("/"))).collect::<Vec<PathBuf>>();
        let settings = Settings {
            auth: auth.map(|token| Auth::Bearer(Secret::new(token))),
            trust: Trust { authorities, ..Trust::default() },
            limits: Limits { silence: SILENCE, ..Limits::default() },
            ..Settings::new(address)?
        };
        Ok(Self { client: Client::new(settings)? })
    }

    pub fn address(&self) -> String {
        self.client.address().to_string()
    }

    pub fn version(&self) -> Result<Version, RayError> {
        Ok(self.client.get("api/version").json()?)
    }

    /// All of them in one request.
    pub fn jobs(&self) -> Result<Vec<JobRow>, RayError> {
        let said: Value = self.client.get("api/jobs/").json()?;
        parse_jobs(&said).ok_or_else(|| self.nonsense("api/jobs/"))
    }

    /// `None` for one that it does not know.
    pub fn job(&self, id: &str) -> Result<Option<JobRow>, RayError> {
        let answer = self.client.get(&format!("api/jobs/{}", encode(id))).answer(Body::None)?;
        if answer.status().as_u16() == 404 {
            return Ok(None);
        }
        let said: Value = answer.success()?.json()?;
        let row = parse_jobs(&Value::Array(vec![said])).and_then(|rows| rows.into_iter().next());
        row.map(Some).ok_or_else(|| self.nonsense("api/jobs/…"))
    }

    /// Those that are alive, the head first.
    pub fn nodes(&self) -> Result<Vec<Node>, RayError> {
        let said: Value = self.client.get("api/v0/nodes").query("limit", "10000").json()?;
        parse_nodes(&said).ok_or_else(|| self.nonsense("api/v0/nodes"))
    }

    pub fn usage(&self) -> Result<Usage, RayError> {
        let said: Value = self.client.get("api/cluster_status").json()?;
        Ok(parse_usage(&said))
    }

    /// Ray knows no two jobs of one name, so sending it again does no harm.
    pub fn submit(&self, submission: &Submission) -> Result<Submitted, RayError> {
        let body = serde_json::to_vec(submission).map_err(|error| RayError::Refused(error.to_string()))?;
        let request = self.client.post("api/jobs/").header("content-type", "application/json").repeatable();
        let answer = request.answer(Body::Bytes(&body))?;
        if answer.status().is_success() {
            return Ok(Submitted::New);
        }
        match refused(answer) {
            RayError::Refused(why) if why.contains("already exists") => Ok(Submitted::Known),
            error => Err(error),
        }
    }

    /// What has ended, or was never there, is fine.
    pub fn stop(&self, id: &str) -> Result<(), RayError> {
        let answer = self.client.post(&format!("api/jobs/{}/stop", encode(id))).repeatable().answer(Body::None)?;
        match answer.status().as_u16() {
            200..300 | 404 => Ok(()),
            _ => Err(refused(answer)),
        }
    }

    /// The record of a job that has ended.
    pub fn forget(&self, id: &str) -> Result<(), RayError> {
        self.client.delete(&format!("api/jobs/{}", encode(id))).answer(Body::None)?;
        Ok(())
    }

    /// Whether it is there; it then stays for a while.
    pub fn has_package(&self, name: &str) -> Result<bool, RayError> {
        let answer = self.client.get(&format!("api/packages/gcs/{}", encode(name))).answer(Body::None)?;
        match answer.status().as_u16() {
            404 => Ok(false),
            200..300 => Ok(true),
            _ => Err(refused(answer)),
        }
    }

    pub fn put_package(&self, name: &str, bytes: &[u8]) -> Result<(), RayError> {
        let request = self.client.put(&format!("api/packages/gcs/{}", encode(name)));
        let answer = request.header("content-type", "application/octet-stream").answer(Body::Bytes(bytes))?;
        match answer.status().as_u16() {
            200..300 => Ok(()),
            413 => Err(RayError::Refused(format!(
                "it takes no package of {} MB; name a folder that all nodes share as `depot` of the target",
                bytes.len() >> 20
            ))),
            _ => Err(refused(answer)),
        }
    }

    /// A file below the folder of a node's logs, as it is now; `None` if there is none, or nothing in it: Ray 2.60 now and
    /// then answers with nothing where it means that there is no such file.
    pub fn file(&self, node: &str, name: &str) -> Result<Option<Vec<u8>>, RayError> {
        let mut bytes = Vec::new();
        Ok(self.copy_file(node, name, &mut bytes)?.then_some(bytes))
    }

    /// The same for large ones; false if there is none.
    pub fn copy_file(&self, node: &str, name: &str, to: &mut impl Write) -> Result<bool, RayError> {
        let request = self.client.get("api/v0/logs/file").query("node_id", node).query("filename", name);
        let mut answer = request.query("lines", "-1").answer(Body::None)?;
        let broken = |error: io::Error| RayError::Web(Error::from_io(error, name));
        if !answer.status().is_success() {
            return match refused(answer) {
                RayError::Refused(why) if why.contains(NO_FILE) => Ok(false),
                error => Err(error),
            };
        }
        // Newer ones send the file as it is, as an attachment; older ones mark each block, and say what is wrong in one.
        if answer.header("content-disposition").is_some() {
            return Ok(io::copy(&mut answer, to).map_err(broken)? > 0);
        }
        let mut total = 0;
        loop {
            let mut mark = [0; 1];
            if answer.read(&mut mark).map_err(broken)? == 0 {
                return Ok(total > 0);
            }
            if mark != *b"1" {
                let mut why = String::new();
                drop(answer.take(1 << 16).read_to_string(&mut why));
                if why.contains(NO_FILE) {
                    return Ok(false);
                }
                return Err(RayError::Refused(last_line(&why)));
            }
            total += io::copy(&mut answer.by_ref().take(BLOCK), to).map_err(broken)?;
        }
    }

    fn nonsense(&self, question: &str) -> RayError {
        RayError::Nonsense { address: self.address(), question: question.to_owned() }
    }
}

fn refused(answer: Response) -> RayError {
    if !matches!(answer.status().as_u16(), 401 | 403) {
        return RayError::Refused(refusal(answer));
    }
    let status = answer.status();
    answer.success().map_or_else(RayError::from, |_| RayError::Refused(format!("it answers {status}")))
}

/// Mostly a traceback, whose last line says it.
fn refusal(answer: Response) -> String {
    let status = answer.status();
    let text = answer.bytes(1 << 20).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    if text.contains("already exists") {
        return text;
    }
    let line = last_line(&text);
    if line.is_empty() { format!("it answers {status}") } else { line }
}

pub(crate) fn last_line(text: &str) -> String {
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

/// The token of a target, looked up.
pub(crate) fn token(target: &RaySpec) -> Result<Option<String>, RayError> {
    let token =
        target.token.as_ref().map(|token| reveal(token, Path::new("/"))).transpose().map_err(RayError::Token)?;
    Ok(token.map(|token| token.trim().to_owned()))
}

/// The value, or what is wrong with the reference; never both in one text. `base` is where relative paths begin, and where
/// commands run.
pub(crate) fn reveal(reference: &SecretRef, base: &Path) -> Result<String, String> {
    let text = match reference {
        SecretRef::Env(name) => {
            return std::env::var(name).map_err(|_| format!("{name} is not set in the shell that started yard"));
        }
        SecretRef::File(path) => fs_err::read_to_string(locate(path, base)).map_err(|error| error.to_string())?,
        SecretRef::Command(argv) => {
            let program = argv.first().map_or("", String::as_str);
            let mut line: Vec<String> = ["/bin/sh", "-c", IN_FOLDER, "sh"].map(str::to_owned).into();
            line.push(base.to_string_lossy().into_owned());
            line.extend(argv.iter().cloned());
            let output = run_limited(&line, SECRET_PATIENCE).map_err(|error| format!("`{program}`: {error}"))?;
            if !output.status.success() {
                return Err(format!("`{program}` ended with {}", output.status));
            }
            String::from_utf8(output.stdout).map_err(|_| format!("`{program}` wrote no text"))?
        }
    };
    // As everywhere: spaces may be part of a secret, the end of its line is not.
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}
