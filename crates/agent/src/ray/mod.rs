//! A Ray job, seen from inside: what came with it in packages is put into the depot of its node, and the depot is put
//! where Ray lets its logs be read, so that whoever sent the job can look at it.

mod gang;
mod packages;

use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::process::{Pid, getppid};
use trainyard_core::time::Span;

use crate::depot::Depot;
use crate::disk::{Durability, replace};
use crate::lessor::Lessor;
use crate::order::{Lease, Source, Told};
use crate::parcel::Parcel;
use crate::pipe::serve;

pub use packages::{PREFIX, Packages, SEAL, Seal, entry};

pub use gang::{GANG, Seat, Seating, lead, seating_name};

/// Answers that nobody has fetched for this long are removed.
const KEPT: Duration = Duration::from_secs(3600);

/// The name of the link to a depot in the folder of a node's logs.
pub fn link_name(depot: &str) -> String {
    let hash = blake3::hash(depot.as_bytes()).to_hex();
    format!("yard-{}", hash.get(..8).unwrap_or_default())
}

/// Where the answer to a request lies in the depot.
pub fn answer_name(request: &str) -> String {
    format!("answers/{request}")
}

/// Puts everything into place and becomes the agent that takes the parcel's group through its attempts.
pub fn begin(depot: &Depot, agent: &str, group: u32) -> io::Result<i32> {
    let packages = Packages::look();
    let agent = prepare(depot, agent)?;
    let parcel = packages.unpack(entry::PARCEL)?.ok_or_else(|| missing(entry::PARCEL))?;
    let sent: Parcel = serde_json::from_slice(&parcel)?;
    if let Source::Snapshot(digest) = &sent.source {
        packages.take_in(depot, digest)?;
    }
    let folder = depot.parcel(&sent.id);
    fs_err::create_dir_all(&folder)?;
    replace(&folder.join("parcel.json"), &parcel, Durability::Cached)?;
    let mut command = Command::new(agent);
    command.args(["agent", "parcel", "--depot"]).arg(depot.root()).args(["--parcel", &sent.id]);
    command.args(["--group", &group.to_string()]).envs(packages.secrets()?.0).env_remove(SEAL);
    match packages.others() {
        Some(path) => command.env("PYTHONPATH", path),
        None => command.env_remove("PYTHONPATH"),
    };
    Err(command.exec())
}

/// Puts this program into the depot and becomes it, with other words and the secrets that came. Packages stay in sight.
pub fn become_other(depot: &Depot, agent: &str, words: &[&str]) -> io::Result<i32> {
    let packages = Packages::look();
    let agent = prepare(depot, agent)?;
    Err(Command::new(agent).args(words).envs(packages.secrets()?.0).env_remove(SEAL).exec())
}

/// Answers the request that came in a package, into a file that can be read where logs are.
pub fn answer(depot: &Depot, agent: &str, name: &str) -> io::Result<i32> {
    prepare(depot, agent)?;
    let request = Packages::look().find(entry::REQUEST).ok_or_else(|| missing(entry::REQUEST))?;
    let place = depot.root().join(answer_name(name));
    let folder = depot.root().join("answers");
    fs_err::create_dir_all(&folder)?;
    forget(&folder);
    let part = place.with_extension("part");
    serve::answer_file(depot.root(), &request, &part)?;
    fs_err::rename(part, place)?;
    Ok(0)
}

fn forget(folder: &Path) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let age = entry.metadata().and_then(|data| data.modified()).ok().and_then(|at| at.elapsed().ok());
        if age.is_some_and(|age| age > KEPT) {
            // Somebody else may have been quicker.
            drop(std::fs::remove_file(entry.path()));
        }
    }
}

fn missing(entry: &str) -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, format!("no package has `{entry}`: Ray has not unpacked what was sent"))
}

/// The depot with the agent in it, in sight of those who read logs. Ray's own copy of the agent may be removed by Ray.
fn prepare(depot: &Depot, agent: &str) -> io::Result<PathBuf> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(depot.root())?;
    let place = depot.agents().join(agent);
    let own = std::env::current_exe()?;
    let size = fs_err::metadata(&own)?.len();
    if !place.metadata().is_ok_and(|data| data.len() == size) {
        fs_err::create_dir_all(depot.agents())?;
        let beside = depot.agents().join(format!("{agent}.{}.tmp", std::process::id()));
        fs_err::copy(&own, &beside)?;
        fs_err::set_permissions(&beside, std::fs::Permissions::from_mode(0o755))?;
        fs_err::rename(beside, &place)?;
    }
    show(depot, &own)?;
    // Whatever Ray was started in is no place to be in.
    std::env::set_current_dir(depot.root())?;
    Ok(place)
}

/// Packages are unpacked into `<session>/runtime_resources/py_modules_files/<package>`, and `own` lies in one.
fn show(depot: &Depot, own: &Path) -> io::Result<()> {
    let logs = own.ancestors().nth(4).map(|session| session.join("logs")).filter(|logs| logs.is_dir());
    let logs = logs.ok_or_else(|| {
        io::Error::other(format!("{} is not where Ray unpacks packages: its logs cannot be found", own.display()))
    })?;
    let link = logs.join(link_name(&depot.root().to_string_lossy()));
    if std::fs::read_link(&link).is_ok_and(|to| to == depot.root()) {
        return Ok(());
    }
    let beside = logs.join(format!(".yard-{}", std::process::id()));
    symlink(depot.root(), &beside)?;
    fs_err::rename(beside, link)
}

/// Ray's job is there until it ends: it has no time limit, and who is told to stop was told so by somebody.
#[derive(Debug)]
pub(crate) struct Ray {
    notice: Span,
    /// The process that holds the place of a run that starts with others. It tells us to stop, and so does the kernel when
    /// it is gone.
    holder: Option<Pid>,
}

impl Ray {
    pub(crate) fn new(notice: Span, parcel: &Parcel) -> Self {
        Self { notice, holder: getppid().filter(|_| parcel.is_gang()) }
    }
}

impl Lessor for Ray {
    fn lease(&self) -> Lease {
        let told = if self.holder.is_some() { Told::Abandoned } else { Told::ToStop };
        Lease { ends: None, notice: self.notice, told }
    }

    fn is_told_to_stop(&self) -> bool {
        self.holder.is_none() || self.holder == getppid()
    }

    fn devices(&self) -> Option<Vec<String>> {
        let text = std::env::var("CUDA_VISIBLE_DEVICES").ok().filter(|text| !text.is_empty())?;
        Some(text.split(',').map(|device| device.trim().to_owned()).collect())
    }

    fn begin(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn go_on(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> io::Result<()> {
        Ok(())
    }
}
