//! Opening the pipe: the agent is started, and brought there first if it is not there yet.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use trainyard_agent::pipe::message::{Hello, PROTOCOL};
use trainyard_core::quote;

use super::ship::Program;
use super::wire::Wire;
use super::{Pipe, PipeError};
use crate::host::{Host, HostError, Person, Session, SshHost, Stderr};

/// More than this before the agent speaks is no banner.
const MOST_CHATTER: u64 = 1 << 20;

impl Pipe {
    /// Starts the agent of the depot (a path that may begin with `~/`). `program` is the file that becomes the agent
    /// there; `limit` is the longest silence, here and in every later request.
    pub fn open(host: &Host, depot: &str, program: &Path, limit: Duration) -> Result<Self, PipeError> {
        let program = Program::look(program)?;
        let marker = format!("yard-{}", uuid::Uuid::now_v7().simple());
        let session = match host {
            Host::Here => start_here(depot, &program, &marker, limit)?,
            Host::Ssh(host) => {
                let script = script(depot, &program, &marker)?;
                host.start(&script, Person::Nobody, Stderr::Kept, limit)?
            }
            Host::Cluster(name) => return Err(PipeError::Refused(format!("{name} is no single machine"))),
        };
        let mut session = BufReader::with_capacity(1 << 16, session);
        let (hello, chatter) = match greeting(&mut session, &marker, &program, host) {
            Ok(hello) => hello,
            Err(Unheard::Refused(why)) => return Err(PipeError::Refused(why)),
            Err(Unheard::Silent(error)) => return Err(silent(host, session.get_mut(), &error)),
        };
        if hello.protocol != PROTOCOL {
            let why =
                format!("the agent on {} is of yard {}, which speaks another protocol", host.name(), hello.version);
            return Err(PipeError::Refused(why));
        }
        let agent = format!("{}/bin/{}", hello.depot, program.name());
        if *host == Host::Here {
            program.copy_to(Path::new(&agent)).map_err(|error| PipeError::Refused(format!("{agent}: {error}")))?;
        }
        // Nothing was asked yet, so nothing is left unread.
        let session = BufReader::with_capacity(1 << 16, Wire::Child(session.into_inner()));
        Ok(Self { host: host.clone(), session, depot: hello.depot, agent, chatter, broken: false })
    }
}

fn start_here(depot: &str, program: &Program, marker: &str, limit: Duration) -> Result<Session, PipeError> {
    let mut command = Command::new(program.path());
    command.args(["agent", "serve", "--depot", depot, "--marker", marker]);
    Session::start_here(command, limit).map_err(|error| {
        let name = program.path().display().to_string();
        HostError::NoProgram { program: name, why: error.to_string() }.into()
    })
}

/// One line that `sh`, `csh` and `fish` all hand on unchanged. It becomes the agent, or says that there is none and
/// takes it from its input first. Two that do so at once do not meet: each has its own temporary name.
fn script(depot: &str, program: &Program, marker: &str) -> Result<String, PipeError> {
    let refused = |error: quote::QuoteError| PipeError::Refused(error.to_string());
    let (name, hash, size) = (program.name(), program.hash(), program.size());
    let (home, rest) = match depot.strip_prefix('~') {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => (r#""$HOME""#, rest),
        _ => ("", depot),
    };
    let script = [
        format!("d={home}{}", quote::posix(rest).map_err(refused)?),
        format!(r#"p="$d/bin/{name}"; t="$p.{marker}.tmp""#),
        format!(r#"serve() {{ exec "$p" agent serve --depot "$d" --marker {marker}; }}"#),
        format!(r#"say() {{ echo; echo "{marker}-ship $1 $(uname -s) $(uname -m)"; }}"#),
        r#"if [ -x "$p" ] && [ -s "$p" ]; then serve; fi"#.to_owned(),
        r#"(umask 077; mkdir -p "$d/bin") || { say folder; exit 9; }"#.to_owned(),
        r#"(: > "$t") || { say folder; exit 9; }"#.to_owned(),
        "say ready".to_owned(),
        format!(r#"head -c {size} > "$t" || {{ rm -f "$t"; say disk; exit 9; }}"#),
        r#"chmod 755 "$t""#.to_owned(),
        format!(r#""$t" agent verify {hash} || {{ rm -f "$t"; say start; exit 9; }}"#),
        r#"mv -f "$t" "$p" || { rm -f "$t"; say disk; exit 9; }"#.to_owned(),
        "serve".to_owned(),
    ]
    .join("; ");
    Ok(format!("exec sh -c {}", quote::posix(&script).map_err(refused)?))
}

enum Unheard {
    Refused(String),
    Silent(io::Error),
}

impl From<io::Error> for Unheard {
    fn from(error: io::Error) -> Self {
        Self::Silent(error)
    }
}

/// Skips what the login shell says and counts its lines; sends the program when it is asked for.
fn greeting(
    session: &mut BufReader<Session>,
    marker: &str,
    program: &Program,
    host: &Host,
) -> Result<(Hello, usize), Unheard> {
    let (mut heard, mut chatter) = (0, 0);
    loop {
        let mut line = Vec::new();
        let count = session.by_ref().take(MOST_CHATTER - heard).read_until(b'\n', &mut line)?;
        heard += count as u64;
        if count == 0 || heard >= MOST_CHATTER {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        let text = String::from_utf8_lossy(&line);
        let Some(words) = text.strip_prefix(marker) else {
            chatter += usize::from(!text.trim().is_empty());
            continue;
        };
        if let Some(state) = words.strip_prefix("-ship ") {
            let state: Vec<&str> = state.split_whitespace().collect();
            ship(session, &state, program, host)?;
        } else {
            let hello = serde_json::from_str(words).map_err(|error| Unheard::Refused(error.to_string()))?;
            return Ok((hello, chatter));
        }
    }
}

/// The site has no agent yet, or could not keep the one that was sent.
fn ship(session: &mut BufReader<Session>, state: &[&str], program: &Program, host: &Host) -> Result<(), Unheard> {
    let host = host.name();
    let &[stage, system, machine] = state else {
        return Err(Unheard::Refused(format!("`{host}` does not say what it is")));
    };
    if stage == "ready" {
        program.suits(system, machine, host).map_err(Unheard::Refused)?;
        let sent = program.open().and_then(|mut file| io::copy(&mut file, session.get_mut()));
        // A disk that is full there breaks the pipe before it says so.
        return match sent {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
            _ => session.get_mut().flush().map_err(Into::into),
        };
    }
    drop(session.get_mut().end());
    let said = session.get_mut().said();
    let said = said.lines().last().unwrap_or_default();
    Err(Unheard::Refused(match stage {
        "folder" => format!("the depot on `{host}` cannot be written to: {said}; name another folder as `depot`"),
        "disk" => format!("the agent cannot be stored in the depot on `{host}`: {said}; free some space there"),
        _ if said.contains("ermission denied") => {
            format!(
                "programs cannot be started from the depot on `{host}` (is it mounted `noexec`?); name another folder as `depot`"
            )
        }
        _ => format!("the agent does not start on `{host}`: {said}; give a fitting one with --agent PATH"),
    }))
}

fn silent(host: &Host, session: &mut Session, error: &io::Error) -> PipeError {
    if error.kind() == io::ErrorKind::TimedOut {
        return PipeError::TimedOut;
    }
    match host {
        Host::Ssh(host) => SshHost::why(host, session).into(),
        Host::Here | Host::Cluster(_) => {
            drop(session.end());
            let said = session.said();
            PipeError::Refused(if said.is_empty() { "the agent does not start".to_owned() } else { said })
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;

    /// What `csh` and `fish` would read in their own way: anything but one pair of single quotes, and within it
    /// exclamation marks, backslashes and line ends.
    #[test]
    fn every_shell_reads_the_line_alike() {
        let program = Program::look(&std::env::current_exe().unwrap()).unwrap();
        for depot in ["/cluster/scratch/me/yard", "~/yard"] {
            let line = script(depot, &program, "yard-0").unwrap();
            let inner = line.strip_prefix("exec sh -c '").and_then(|rest| rest.strip_suffix('\'')).unwrap();
            assert!(!inner.contains(['\'', '!', '\\', '\n']), "{inner}");
        }
        assert!(script("~/yard", &program, "m").unwrap().contains(r#"d="$HOME"/yard;"#));
    }
}
