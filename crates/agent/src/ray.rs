//! A Ray job, seen from inside: what came with it in packages is put into the depot of its node, and the depot is put
//! where Ray lets its logs be read, so that whoever sent the job can look at it.

mod gang;

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use trainyard_core::time::Span;

use crate::depot::Depot;
use crate::disk::{Durability, replace};
use crate::lessor::Lessor;
use crate::order::{Lease, Secrets, Source, Told};
use crate::parcel::Parcel;
use crate::pipe::{serve, store};

pub use gang::{GANG, Seat, Seating, lead, seating_name};

/// Names of our packages begin so.
pub const PREFIX: &str = "_ray_pkg_yard_";
/// The variable with the seal.
pub const SEAL: &str = "YARD_SEAL";
/// Answers that nobody has fetched for this long are removed.
const KEPT: Duration = Duration::from_secs(3600);

/// What lies in packages.
pub mod entry {
    pub const AGENT: &str = "yard";
    pub const MANIFEST: &str = "manifest.zst";
    pub const BLOBS: &str = "blobs";
    pub const PARCEL: &str = "parcel.zst";
    pub const SECRETS: &str = "secrets";
    pub const REQUEST: &str = "request";
}

/// What makes secrets in a package unreadable for those who see only the package. Used once.
pub struct Seal(Vec<u8>);

impl Seal {
    pub fn new(key: Vec<u8>) -> Self {
        Self(key)
    }

    pub fn text(&self) -> String {
        self.0.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok());
        digits.collect::<Option<Vec<u8>>>().map(Self)
    }

    /// Seals, and opens what was sealed.
    pub fn apply(&self, bytes: &[u8]) -> Vec<u8> {
        let mut stream = vec![0; bytes.len()];
        let key = blake3::derive_key("trainyard 2026 secrets in a package for Ray", &self.0);
        blake3::Hasher::new_keyed(&key).finalize_xof().fill(&mut stream);
        bytes.iter().zip(stream).map(|(byte, mask)| byte ^ mask).collect()
    }
}

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
    let parcel = packages.find(entry::PARCEL).ok_or_else(|| missing(entry::PARCEL))?;
    let parcel = zstd::stream::decode_all(File::open(parcel)?)?;
    let sent: Parcel = serde_json::from_slice(&parcel)?;
    if let Source::Snapshot(digest) = &sent.source {
        let manifest = packages.find(entry::MANIFEST).ok_or_else(|| missing(entry::MANIFEST))?;
        store::take_in(depot, digest, &manifest, &packages.all(entry::BLOBS))?;
    }
    let folder = depot.parcel(&sent.id);
    fs_err::create_dir_all(&folder)?;
    replace(&folder.join("parcel.json"), &parcel, Durability::Cached)?;
    let mut command = Command::new(agent);
    command.args(["agent", "parcel", "--depot"]).arg(depot.root()).args(["--parcel", &sent.id]);
    command.args(["--group", &group.to_string()]).envs(packages.secrets()?.0).env_remove(SEAL);
    match packages.others {
        Some(path) => command.env("PYTHONPATH", path),
        None => command.env_remove("PYTHONPATH"),
    };
    // Ray's folder of packages is no place to be in.
    command.current_dir(depot.root());
    Err(command.exec())
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
    show(depot)?;
    Ok(place)
}

/// Packages are unpacked into `<session>/runtime_resources/working_dir_files/<package>`, where we were started.
fn show(depot: &Depot) -> io::Result<()> {
    let here = std::env::current_dir()?;
    let logs = here.ancestors().nth(3).map(|session| session.join("logs")).filter(|logs| logs.is_dir());
    let logs = logs.ok_or_else(|| {
        io::Error::other(format!("{} is not where Ray unpacks packages: its logs cannot be found", here.display()))
    })?;
    let link = logs.join(link_name(&depot.root().to_string_lossy()));
    if std::fs::read_link(&link).is_ok_and(|to| to == depot.root()) {
        return Ok(());
    }
    let beside = logs.join(format!(".yard-{}", std::process::id()));
    symlink(depot.root(), &beside)?;
    fs_err::rename(beside, link)
}

/// Folders that Ray has put on Python's path.
struct Packages {
    ours: Vec<PathBuf>,
    /// What else is on the path.
    others: Option<OsString>,
}

impl Packages {
    fn look() -> Self {
        let path = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let is_ours =
            |folder: &PathBuf| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
        let (ours, others): (Vec<PathBuf>, Vec<PathBuf>) = std::env::split_paths(&path).partition(is_ours);
        let others = std::env::join_paths(others.iter().filter(|path| !path.as_os_str().is_empty())).ok();
        Self { ours, others: others.filter(|path| !path.is_empty()) }
    }

    fn all(&self, entry: &str) -> Vec<PathBuf> {
        self.ours.iter().map(|folder| folder.join(entry)).filter(|path| path.is_file()).collect()
    }

    fn find(&self, entry: &str) -> Option<PathBuf> {
        self.all(entry).into_iter().next()
    }

    fn secrets(&self) -> io::Result<Secrets> {
        let Some(path) = self.find(entry::SECRETS) else { return Ok(Secrets::default()) };
        let seal = std::env::var(SEAL).ok().and_then(|text| Seal::parse(&text));
        let seal = seal.ok_or_else(|| io::Error::other("the seal of the secrets did not arrive"))?;
        let mut sealed = Vec::new();
        File::open(path)?.read_to_end(&mut sealed)?;
        Ok(serde_json::from_slice(&seal.apply(&sealed))?)
    }
}

/// Ray's job is there until it ends: it has no time limit, and who is told to stop was told so by somebody.
#[derive(Debug)]
pub(crate) struct Ray {
    pub(crate) notice: Span,
}

impl Lessor for Ray {
    fn lease(&self) -> Lease {
        Lease { ends: None, notice: self.notice, told: Told::ToStop }
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
