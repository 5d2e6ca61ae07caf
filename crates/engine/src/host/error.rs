//! What `ssh` says when it fails, in words that help.

/// Why a host could not be reached. The first line is for people, [`HostError::hint`] says what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("no host is known by the name `{host}`")]
    UnknownName { host: String },
    #[error("`{host}` refuses connections")]
    ConnectionRefused { host: String },
    #[error("`{host}` does not answer")]
    Unreachable { host: String },
    #[error("`{host}` refused the key")]
    KeyRefused { host: String },
    #[error("`{host}` wants a password or a second factor, and nobody is there to give it")]
    NeedsPerson { host: String },
    #[error("the host key of `{host}` has changed since the last time")]
    HostKeyChanged { host: String },
    #[error("the host key of `{host}` is not known yet")]
    HostKeyUnknown { host: String },
    #[error("the connection to `{host}` broke")]
    Dropped { host: String },
    #[error("`{program}` cannot be started: {why}")]
    NoProgram { program: String, why: String },
    #[error("the login shell on `{host}` ended without running anything{}", quoted(.said))]
    NoShell { host: String, said: String },
    #[error("too many connections to `{host}` at once")]
    Busy { host: String },
    #[error("`{name}` is not a name of a host")]
    BadName { name: String },
    #[error("cannot use {path}: {why}")]
    Folder { path: String, why: String },
    /// What ssh said, when it is none of the above.
    #[error("ssh to `{host}` failed{}", quoted(.said))]
    Other { host: String, said: String },
}

fn quoted(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

impl HostError {
    pub fn hint(&self) -> String {
        match self {
            Self::UnknownName { host } => {
                format!("add `Host {host}` to ~/.ssh/config, or correct `host` of the target")
            }
            Self::ConnectionRefused { .. } => "is sshd running there, and is the port right? see `ssh -G`".to_owned(),
            Self::Unreachable { .. } => "is the network up, or a VPN needed?".to_owned(),
            Self::KeyRefused { host } => {
                format!(
                    "`ssh {host}` must work by itself: load the key with `ssh-add`, or install it with `ssh-copy-id {host}`"
                )
            }
            Self::NeedsPerson { .. } => {
                "run `yard target check NAME` once in a terminal; the connection is kept".to_owned()
            }
            Self::HostKeyChanged { host } => {
                format!("ask whoever runs it whether that is right; if so, `ssh-keygen -R {host}` forgets the old key")
            }
            Self::HostKeyUnknown { .. } => {
                "run `yard target check NAME` once in a terminal and compare the key".to_owned()
            }
            Self::Dropped { .. } => "it is safe to try again".to_owned(),
            Self::NoProgram { .. } => "install the OpenSSH client, or set `YARD_SSH`".to_owned(),
            Self::NoShell { host, .. } => format!("`ssh {host} true` must work by itself"),
            Self::Busy { .. } => "wait until other yard commands have ended".to_owned(),
            Self::BadName { .. } => "a name of a host must not be empty or begin with `-`".to_owned(),
            Self::Folder { .. } => "it must be a folder that only you can write to".to_owned(),
            Self::Other { host, .. } => format!("try `ssh {host} true`"),
        }
    }

    /// From what ssh printed when it ended with 255, which is its way to say that it was not the remote program.
    pub(super) fn of(host: &str, said: &str) -> Self {
        let host = host.to_owned();
        let says = |words: &[&str]| words.iter().any(|word| said.contains(word));
        if says(&["Could not resolve hostname", "Name or service not known"]) {
            Self::UnknownName { host }
        } else if says(&["HOST IDENTIFICATION HAS CHANGED", "REVOKED HOST KEY"]) {
            Self::HostKeyChanged { host }
        } else if says(&["Host key verification failed", "host key is known for"]) {
            Self::HostKeyUnknown { host }
        } else if let Some((_, methods)) = said.split_once("Permission denied (") {
            let methods = methods.split(')').next().unwrap_or_default();
            let asks = ["password", "keyboard-interactive"].iter().any(|method| methods.contains(method));
            if asks { Self::NeedsPerson { host } } else { Self::KeyRefused { host } }
        } else if says(&["Too many authentication failures"]) {
            Self::KeyRefused { host }
        } else if says(&["Connection refused"]) {
            Self::ConnectionRefused { host }
        } else if says(&["timed out", "No route to host", "Network is unreachable", "Host is down"]) {
            Self::Unreachable { host }
        } else if says(&DROPPED) {
            Self::Dropped { host }
        } else {
            Self::Other { host, said: last_line(said) }
        }
    }
}

const DROPPED: [&str; 8] = [
    "Connection closed by",
    "Connection reset by",
    "kex_exchange_identification",
    "closed by remote host",
    "not responding",
    "Broken pipe",
    "send disconnect",
    "Connection to UNKNOWN",
];

/// The kept connection talks too: that it is full, that its socket is there already. None of it is an error.
pub(super) fn without_noise(said: &str) -> String {
    let noise = ["mux_client", "ControlSocket", "Shared connection to", "Warning: Permanently added", "master running"];
    let kept = said.lines().filter(|line| !noise.iter().any(|word| line.contains(word)));
    kept.map(str::trim_end).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

pub(super) fn last_line(said: &str) -> String {
    said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ssh_says_is_understood() {
        let host = || "euler".to_owned();
        let cases = [
            (
                "ssh: Could not resolve hostname euler: Name or service not known",
                HostError::UnknownName { host: host() },
            ),
            ("a@b: Permission denied (publickey).", HostError::KeyRefused { host: host() }),
            ("a@b: Permission denied (publickey,keyboard-interactive).", HostError::NeedsPerson { host: host() }),
            ("Host key verification failed.", HostError::HostKeyUnknown { host: host() }),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                HostError::HostKeyChanged { host: host() },
            ),
            ("ssh: connect to host 10.0.0.1 port 22: Connection timed out", HostError::Unreachable { host: host() }),
            ("kex_exchange_identification: read: Connection reset by peer", HostError::Dropped { host: host() }),
            (
                "Bad owner or permissions on /x",
                HostError::Other { host: host(), said: "Bad owner or permissions on /x".to_owned() },
            ),
        ];
        for (said, error) in cases {
            assert_eq!(HostError::of("euler", said), error, "{said}");
            assert!(!error.hint().is_empty());
        }
    }

    #[test]
    fn noise_of_the_kept_connection_is_dropped() {
        let said = "mux_client_request_session: session request failed: Session open refused by peer\n\
                    ControlSocket /x already exists, disabling multiplexing\nreal\n";
        assert_eq!(without_noise(said), "real");
    }
}
