//! What every command starts from: where it is, what the files say, and how to reach the rest of the house.

mod elsewhere;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use trainyard_core::import::{Cluster, Remark, parse_clusters};
use trainyard_core::spec::{self, Layer, Loaded, TargetKind, TargetSpec};
use trainyard_engine::home::{Home, locate};
use trainyard_engine::ledger::{Filter, Ledger, RunRow};
use trainyard_engine::site::Reach;
use trainyard_engine::yardmaster::{Caller, Start};

use crate::env;
use crate::error::{CommandError, Exit};
use crate::report::Printer;

/// The file that makes a folder a project.
pub(crate) const PROJECT_FILE: &str = "trainyard.toml";

#[derive(Debug, Clone)]
pub(crate) struct Context {
    pub(crate) printer: Printer,
    pub(crate) home: Home,
    pub(crate) folder: PathBuf,
    sets: Vec<String>,
    /// The cluster whose controller's ledger is meant, instead of this machine's.
    at: Option<String>,
}

/// A project and what its files say.
#[derive(Debug)]
pub(crate) struct Project {
    pub(crate) folder: PathBuf,
    pub(crate) loaded: Loaded,
}

impl Context {
    pub(crate) fn new(printer: Printer, directory: Option<PathBuf>, sets: Vec<String>) -> Result<Self, CommandError> {
        let folder = directory.unwrap_or_else(|| PathBuf::from("."));
        let folder = std::fs::canonicalize(&folder)
            .map_err(|error| CommandError::new(Exit::Usage, format!("cannot go to `{}`: {error}", folder.display())))?;
        Ok(Self { printer, home: env::home(), folder, sets, at: None })
    }

    /// The project this folder belongs to: the nearest one upwards.
    pub(crate) fn project(&self) -> Result<Project, CommandError> {
        let folder = self.folder.ancestors().find(|folder| folder.join(PROJECT_FILE).is_file()).ok_or_else(|| {
            CommandError::new(Exit::Settings, format!("no {PROJECT_FILE} in {} or above", self.folder.display()))
                .hint("`yard init` writes one")
        })?;
        let loaded = self.load(Some(folder))?;
        Ok(Project { folder: folder.to_owned(), loaded })
    }

    /// What the files say, those of a project if there is one here.
    pub(crate) fn anywhere(&self) -> Result<Loaded, CommandError> {
        self.load(self.folder.ancestors().find(|folder| folder.join(PROJECT_FILE).is_file()))
    }

    /// The user's settings, and the project's over them.
    pub(crate) fn load(&self, project: Option<&Path>) -> Result<Loaded, CommandError> {
        let mut layers = Vec::new();
        let files = [Some(self.home.settings()), project.map(|folder| folder.join(PROJECT_FILE))];
        for path in files.into_iter().flatten() {
            match fs_err::read_to_string(&path) {
                Ok(text) => layers.push(Layer { name: self.shown(&path), text }),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(CommandError::new(Exit::Settings, error.to_string())),
            }
        }
        let name = project.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
        let mut loaded = spec::load(&layers, &self.sets, &name.unwrap_or_default())?;
        for target in loaded.config.targets.values_mut() {
            if let TargetKind::Ray(ray) = &mut target.kind
                && let Some(file) = &ray.clusters
            {
                // One that cannot be read is told by whoever needs it.
                let listed = self.clusters(file).map(|(clusters, _)| clusters).unwrap_or_default();
                ray.addresses = listed.into_iter().map(|cluster| cluster.address).collect();
            }
        }
        Ok(loaded)
    }

    /// What a list of clusters says, and what in it is not understood.
    fn clusters(&self, file: &str) -> Result<(Vec<Cluster>, Vec<Remark>), String> {
        let text = fs_err::read_to_string(locate(Path::new(file), &self.folder)).map_err(|error| error.to_string())?;
        Ok(parse_clusters(&text))
    }

    /// Says what is wrong with the list of clusters of a target, if it has one; fails when there is none left.
    pub(crate) fn check_clusters(&self, target: &TargetSpec) -> Result<(), CommandError> {
        let TargetKind::Ray(ray) = &target.kind else { return Ok(()) };
        let Some(file) = &ray.clusters else { return Ok(()) };
        let wrong =
            |why: String| CommandError::new(Exit::Settings, format!("`targets.{}.clusters`: {why}", target.name));
        let (clusters, remarks) = self.clusters(file).map_err(wrong)?;
        remarks.iter().for_each(|remark| self.printer.say(&format!("{file}: {remark}")));
        if clusters.is_empty() {
            let error = wrong(format!("no line of {file} names a cluster"));
            return Err(error.hint("a line is `name: NAME address: http://HOST:8265`"));
        }
        Ok(())
    }

    /// Paths in messages are short where they can be.
    fn shown(&self, path: &Path) -> String {
        path.strip_prefix(&self.folder).unwrap_or(path).display().to_string()
    }

    pub(crate) fn ledger(&self) -> Result<Ledger, CommandError> {
        if let Some(at) = &self.at {
            return self.ledger_at(at);
        }
        self.home.prepare()?;
        Ok(Ledger::open(&self.home.ledger())?)
    }

    pub(crate) fn start(&self) -> Result<Start, CommandError> {
        Ok(Start { program: std::env::current_exe()? })
    }

    /// How sites are reached from here.
    pub(crate) fn reach(&self) -> Result<Reach, CommandError> {
        let ssh = env::ssh().map_err(|why| CommandError::new(Exit::Settings, why))?;
        let (home, choices) = (self.home.depot(), self.home.state().join("clusters"));
        Ok(Reach { ssh, sockets: self.home.sockets(), program: self.start()?.program, home, choices })
    }

    /// Reaches the yardmaster, starting it if need be; it has taken up the ledger when this returns.
    pub(crate) fn knock(&self, secrets: &BTreeMap<String, String>) -> Result<Caller, CommandError> {
        Ok(Caller::knock(&self.home, &self.start()?, secrets)?)
    }

    /// Commands that only look still see to it that what is open gets on, whoever killed the yardmaster.
    pub(crate) fn rouse(&self, ledger: &Ledger) -> Result<Option<Caller>, CommandError> {
        if let Some(at) = &self.at {
            return self.rouse_at(at, ledger).map(|()| None);
        }
        if !ledger.has_work()? {
            return Ok(None);
        }
        self.knock(&BTreeMap::new()).map(Some)
    }

    /// The runs these words mean, in the order given: a run by name, id or prefix, or all runs of the newest
    /// submission of that job, group or name.
    pub(crate) fn resolve(&self, ledger: &Ledger, words: &[String]) -> Result<Vec<RunRow>, CommandError> {
        let mut found: Vec<RunRow> = Vec::new();
        for word in words {
            let rows = match ledger.find(word)? {
                Some(row) => vec![row],
                None => group(ledger, word)?,
            };
            if rows.is_empty() {
                return Err(unknown(ledger, word)?);
            }
            found.extend(
                rows.into_iter().filter(|row| !found.iter().any(|other| other.id == row.id)).collect::<Vec<_>>(),
            );
        }
        Ok(found)
    }
}

fn unknown(ledger: &Ledger, word: &str) -> Result<CommandError, CommandError> {
    let error = CommandError::new(Exit::Usage, format!("no run `{word}`"));
    Ok(match ledger.find_sweep(word)? {
        Some(row) => error.hint(format!(
            "`{}` is a sweep: its runs are called `{0}-0`, `{0}-1` and so on, and `yard sweep show {0}` shows it",
            row.name
        )),
        None => error.hint("`yard ps -a` lists all runs"),
    })
}

fn group(ledger: &Ledger, word: &str) -> Result<Vec<RunRow>, CommandError> {
    let (batch, group) = (ledger.newest_batch(word)?, ledger.newest_group(word)?);
    let filter = match (batch, group) {
        // Of a job and a group of one name, the one that was submitted last.
        (batch, Some((tie, newest))) if batch.is_none_or(|batch| batch < newest) => {
            Filter { tie: Some(tie), ..Filter::default() }
        }
        (Some(batch), _) => Filter { batch: Some(batch), ..Filter::default() },
        (None, _) => return Ok(Vec::new()),
    };
    Ok(ledger.runs(&filter)?)
}
