//! What can be asked of the agent at a site.

use std::collections::BTreeMap;
use std::time::Duration;

use trainyard_agent::order::Secrets;
use trainyard_agent::pipe::message::{Answer, Listed, Output, ReadLog, Request};
use trainyard_agent::post::{Letter, Posted};
use trainyard_agent::tail::{Portion, Reading, Wanted};
use trainyard_core::id::RunId;

use super::{Pipe, PipeError, Ran, Space};

/// What a file in [`Pipe::read_many`] is cut to.
pub const SMALL_FILE: u64 = 4 << 20;
/// How much later than a program's limit its end may reach us.
const GRACE: Duration = Duration::from_secs(15);

impl Pipe {
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
        let words: Vec<&str> = ["agent"].iter().chain(task).copied().collect();
        self.call(&words, input, &BTreeMap::new(), limit)
    }

    /// A command of the yard at the site about its depot, JSON in, JSON out.
    pub fn call<T: serde::de::DeserializeOwned>(
        &mut self,
        words: &[&str],
        input: &impl serde::Serialize,
        env: &BTreeMap<String, String>,
        limit: Duration,
    ) -> Result<T, PipeError> {
        let mut argv = vec![self.agent.clone()];
        argv.extend(words.iter().map(|word| (*word).to_owned()));
        argv.extend(["--depot".to_owned(), self.depot.clone()]);
        let input = serde_json::to_vec(input).map_err(|error| PipeError::Refused(error.to_string()))?;
        let ran = self.run(&argv, &input, env, limit)?;
        let failed = |_| PipeError::Refused(format!("the yard at the site: {}", ran.stderr().trim()));
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

    /// Hands a parcel to SLURM, in one round trip. Asked again it finds out what became of the first time.
    pub fn post(&mut self, letter: &Letter<'_>, secrets: &Secrets, limit: Duration) -> Result<Posted, PipeError> {
        let secrets = serde_json::to_vec(secrets).map_err(|error| PipeError::Refused(error.to_string()))?;
        let parts = [letter.text, letter.script, &secrets];
        let request = Request::Post {
            parcel: letter.parcel.to_owned(),
            name: letter.name.to_owned(),
            snapshot: letter.snapshot.cloned(),
            sizes: parts.map(|part| part.len() as u64),
        };
        let answer = self.within(limit.saturating_add(GRACE), |pipe| pipe.ask(&request, &parts))?;
        let Answer::Posted { posted } = answer else { return Err(self.nonsense()) };
        self.parts(&[])?;
        Ok(posted)
    }

    fn files(&mut self, answer: Answer) -> Result<Vec<Option<Vec<u8>>>, PipeError> {
        let Answer::Files { sizes } = answer else { return Err(self.nonsense()) };
        let there: Vec<u64> = sizes.iter().copied().flatten().collect();
        let mut parts = self.parts(&there)?.into_iter();
        Ok(sizes.into_iter().map(|size| size.and_then(|_| parts.next())).collect())
    }
}
