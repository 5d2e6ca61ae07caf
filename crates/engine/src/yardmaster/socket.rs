//! The yardmaster's door: commands knock, hand over secrets, and may stay to hear that something changed. What they
//! want is in the ledger; the door only says "look".

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot, watch};

use crate::home::Home;

/// What a command says when it knocks.
#[derive(Serialize, Deserialize)]
pub(super) struct Knock {
    /// Which yard is speaking; see [`super::call::build`].
    pub(super) build: String,
    /// Values of secrets the caller's shell holds, by environment name. Kept in memory only.
    pub(super) secrets: BTreeMap<String, String>,
}

/// What it hears.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Answer {
    /// The ledger has been looked at since the knock.
    Seen,
    /// A newer build: this yardmaster leaves, the caller starts its own.
    Leaving,
    /// Something in the ledger changed.
    Changed,
}

pub(super) struct Visit {
    pub(super) knock: Knock,
    pub(super) answer: oneshot::Sender<Answer>,
}

/// A socket's path may have 107 bytes, a home may be deeper: the folder is opened and named through `/proc`.
pub(super) struct Door {
    _folder: fs_err::File,
    pub(super) path: PathBuf,
}

impl Door {
    pub(super) fn of(home: &Home) -> io::Result<Self> {
        let folder = fs_err::File::open(home.state())?;
        let path = format!("/proc/self/fd/{}/yardmaster.sock", folder.as_raw_fd()).into();
        Ok(Self { _folder: folder, path })
    }
}

/// The lock is held, so a socket that is there belongs to nobody.
pub(super) fn open(home: &Home) -> io::Result<UnixListener> {
    let door = Door::of(home)?;
    match fs_err::remove_file(&door.path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(&door.path)
}

/// Serves one visitor until it leaves. Counts as present while `_stay` lives.
pub(super) async fn receive(
    stream: UnixStream,
    visits: mpsc::UnboundedSender<Visit>,
    mut changes: watch::Receiver<u64>,
    _stay: std::rc::Rc<()>,
) -> io::Result<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    let Some(line) = lines.next_line().await? else { return Ok(()) };
    let knock: Knock = serde_json::from_str(&line)?;
    changes.mark_unchanged();
    let (answer, answered) = oneshot::channel();
    drop(visits.send(Visit { knock, answer }));
    let Ok(answer) = answered.await else { return Ok(()) };
    say(&mut writer, answer).await?;
    loop {
        tokio::select! {
            changed = changes.changed() => match changed {
                Ok(()) => say(&mut writer, Answer::Changed).await?,
                Err(_) => return Ok(()),
            },
            line = lines.next_line() => if line?.is_none() { return Ok(()) },
        }
    }
}

async fn say(writer: &mut tokio::net::unix::OwnedWriteHalf, answer: Answer) -> io::Result<()> {
    let mut line = serde_json::to_vec(&answer)?;
    line.push(b'\n');
    writer.write_all(&line).await
}
