//! The controller itself: takes up the sweep that came with it, keeps a yardmaster at work as long as there is any, and
//! lays a copy of the ledger where it can be read.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant as Clock};

use trainyard_agent::disk::now;
use trainyard_agent::order::Source;
use trainyard_agent::ray::{Packages, entry};
use trainyard_core::spec::{RaySpec, SecretRef, TargetKind, TargetSpec};

use super::places::{Receipt, find_receipt, give_receipt, publish};
use super::{Handover, TOKEN, has_work};
use crate::home::{Home, HomeError};
use crate::ledger::{Ledger, LedgerError};
use crate::ray::{Ray, RayError};
use crate::yardmaster::Caller;

/// The dashboard is on this very machine.
const PACE: Duration = Duration::from_secs(2);
/// For somebody who has more to say.
const STAY: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(500);
/// Between two tries to start a yardmaster, at first and at most.
const AGAIN: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(30);

#[derive(Debug, thiserror::Error)]
pub enum KeepError {
    #[error(transparent)]
    Home(#[from] HomeError),
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the controller's folder cannot be used")]
    Io(#[from] io::Error),
    #[error("the sweep cannot be read")]
    Handover(#[source] serde_json::Error),
    #[error(transparent)]
    Ray(#[from] RayError),
    #[error("no dashboard of this cluster is found on this machine, so nothing can be submitted from here")]
    NoDashboard,
}

/// Runs as the Ray job of this name, until there is nothing left to do. `secrets` came with it.
pub fn keep(home: &Home, program: &Path, job: &str, secrets: BTreeMap<String, String>) -> Result<(), KeepError> {
    home.prepare()?;
    let mut ledger = Ledger::open(&home.ledger())?;
    let packages = Packages::look();
    if let Some(handover) = packages.unpack(entry::HANDOVER)? {
        let handover: Handover = serde_json::from_slice(&handover).map_err(KeepError::Handover)?;
        take_up(home, &mut ledger, &packages, handover, job)?;
    }
    let keeper = Keeper { home: home.clone(), program: program.to_owned(), ledger, secrets, child: None, pause: AGAIN };
    keeper.work()
}

/// Once: whoever comes with it again finds the receipt.
fn take_up(
    home: &Home,
    ledger: &mut Ledger,
    packages: &Packages,
    mut handover: Handover,
    job: &str,
) -> Result<(), KeepError> {
    if find_receipt(home, &handover.id).is_some() {
        return Ok(());
    }
    if let Source::Snapshot(digest) = &handover.batch.source {
        packages.take_in(&home.depot(), digest)?;
    }
    if let Some(plan) = &mut handover.batch.site {
        plan.target = from_inside(&plan.target, job)?;
    }
    let sweep = ledger.begin_sweep(&handover.spec, std::slice::from_ref(&handover.batch), now())?;
    Ok(give_receipt(home, &handover.id, &Receipt { sweep })?)
}

/// The same target as it is reached from here: no tunnel, no proxy, and a token that is in the environment.
fn from_inside(target: &TargetSpec, job: &str) -> Result<TargetSpec, KeepError> {
    let TargetKind::Ray(spec) = &target.kind else { return Ok(target.clone()) };
    let token = spec.token.as_ref().map(|_| SecretRef::Env(TOKEN.to_owned()));
    for address in dashboards() {
        let spec = RaySpec { addresses: vec![address.clone()], token: token.clone(), ca: None, ..spec.clone() };
        // There may be several clusters on this machine.
        if Ray::open(&spec, &address)?.job(job).is_ok_and(|found| found.is_some()) {
            return Ok(TargetSpec { kind: TargetKind::Ray(spec), ..target.clone() });
        }
    }
    Err(KeepError::NoDashboard)
}

/// Where the dashboards of this machine listen, as their processes were told.
fn dashboards() -> Vec<String> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines.flat_map(|line| addresses(&String::from_utf8_lossy(&line))).collect()
}

/// A port that was taken is followed by the next, as often as it says.
fn addresses(command: &str) -> Vec<String> {
    let words: Vec<&str> = command.split('\0').collect();
    let value = |name: &str| words.iter().find_map(|word| word.strip_prefix(name));
    if !words.iter().any(|word| word.ends_with("/dashboard/dashboard.py")) {
        return Vec::new();
    }
    let host = match value("--host=") {
        None | Some("" | "0.0.0.0") => "127.0.0.1".to_owned(),
        Some("::") => "[::1]".to_owned(),
        Some(host) if host.contains(':') => format!("[{host}]"),
        Some(host) => host.to_owned(),
    };
    let number = |name: &str| value(name).and_then(|text| text.parse::<u16>().ok());
    let Some(port) = number("--port=") else { return Vec::new() };
    let last = port.saturating_add(number("--port-retries=").unwrap_or(0));
    (port..=last).map(|port| format!("http://{host}:{port}")).collect()
}

struct Keeper {
    home: Home,
    program: PathBuf,
    ledger: Ledger,
    secrets: BTreeMap<String, String>,
    child: Option<Child>,
    pause: Duration,
}

impl Keeper {
    /// A yardmaster that was killed is followed by another, which takes up what the ledger holds.
    fn work(mut self) -> Result<(), KeepError> {
        let (mut caller, mut seen, mut idle_since) = (None::<Caller>, None, None::<Clock>);
        loop {
            let version = self.ledger.data_version()?;
            if seen != Some(version) {
                publish(&self.home, &self.ledger)?;
                seen = Some(version);
            }
            if !has_work(&self.ledger)? {
                caller = None;
                if idle_since.get_or_insert_with(Clock::now).elapsed() > STAY {
                    self.dismiss()?;
                    // Nobody listens from here on, so what came before counts.
                    if !has_work(&self.ledger)? {
                        publish(&self.home, &self.ledger)?;
                        return Ok(());
                    }
                }
                std::thread::sleep(LOOK);
                continue;
            }
            idle_since = None;
            match &mut caller {
                Some(there) => {
                    if there.wait(PACE).is_err() {
                        caller = None;
                    }
                    // Of many changes in a row the last is published.
                    std::thread::sleep(LOOK);
                }
                None => caller = self.reach()?,
            }
        }
    }

    /// The yardmaster that is at work, or one that is started.
    fn reach(&mut self) -> Result<Option<Caller>, KeepError> {
        if let Some(caller) = Caller::visit(&self.home, &self.secrets) {
            self.pause = AGAIN;
            return Ok(Some(caller));
        }
        std::thread::sleep(self.pause);
        self.pause = (self.pause * 2).min(LONGEST);
        self.dismiss()?;
        self.start()?;
        Ok(Caller::visit(&self.home, &self.secrets))
    }

    fn start(&mut self) -> io::Result<()> {
        let mut command = Command::new(&self.program);
        command.args(["yardmaster", "--with-parent"]).stdin(Stdio::null()).stdout(Stdio::piped());
        command.env("YARD_HOME", self.home.state()).env("YARD_PACE", PACE.as_millis().to_string());
        let mut child = command.spawn()?;
        // Which ends when it is ready.
        if let Some(mut output) = child.stdout.take() {
            output.read_to_end(&mut Vec::new())?;
        }
        self.child = Some(child);
        Ok(())
    }

    fn dismiss(&mut self) -> io::Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        // It may be killed at any time.
        drop(child.kill());
        child.wait().map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::addresses;

    #[test]
    fn a_dashboard_says_where_it_listens() {
        let line = |host: &str, retries: u16| {
            format!("python\0/x/ray/dashboard/dashboard.py\0--host={host}\0--port=8265\0--port-retries={retries}\0")
        };
        assert_eq!(addresses(&line("0.0.0.0", 1)), ["http://127.0.0.1:8265", "http://127.0.0.1:8266"]);
        assert_eq!(addresses(&line("::1", 0)), ["http://[::1]:8265"]);
        assert_eq!(addresses(&line("10.0.0.7", 0)), ["http://10.0.0.7:8265"]);
        assert!(addresses("python\0/x/ray/dashboard/agent.py\0--port=1\0").is_empty());
    }
}
