//! What can go wrong between us and a server, each in one sentence with the way out.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rustls::CertificateError;
use ureq::http::{Method, StatusCode};

use crate::trust::Fingerprint;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{text}` is no address of a server: {reason}")]
    Address { text: String, reason: &'static str },
    #[error(
        "`{text}` is no fingerprint: `sha256:` and 64 hexadecimal digits, as `openssl x509 -noout -fingerprint -sha256` shows them"
    )]
    Fingerprint { text: String },
    #[error("cannot read the certificate or key in {path}: {source:?}")]
    Pem { path: PathBuf, source: rustls::pki_types::pem::Error },
    #[error(
        "there is no certificate in {path}: it should hold PEM text that begins with `-----BEGIN CERTIFICATE-----`"
    )]
    NoCertificate { path: PathBuf },
    #[error(
        "this machine trusts no certificate authority: install `ca-certificates`, set `SSL_CERT_FILE`, or name the server's CA file (`ca`)"
    )]
    NoAuthorities,
    #[error("cannot set up TLS")]
    Setup(#[source] rustls::Error),
    #[error("a header or address of a request to {url} has characters it must not have")]
    Request { url: String },

    #[error("there is no host `{host}`: see that the name is right and that this machine has a network")]
    UnknownHost { host: String },
    #[error("nobody listens at {address}: see that the server runs and that the port is right")]
    Refused { address: String },
    #[error("cannot reach {address}")]
    Unreachable {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error(
        "the proxy {proxy} does not let us through to {address}: {reason}; see `HTTPS_PROXY`, `HTTP_PROXY` and `NO_PROXY`"
    )]
    Proxy { proxy: String, address: String, reason: String },
    #[error("the server at {address} cannot be trusted: {distrust}")]
    Untrusted { address: String, distrust: Distrust },
    #[error("no TLS with {address}: {reason}")]
    Tls { address: String, reason: String },
    #[error("{address} {wait}")]
    Timeout { address: String, wait: Wait },
    #[error("{url} ended its answer too early")]
    Truncated { url: String },
    #[error("the connection to {address} broke")]
    Broken {
        address: String,
        #[source]
        source: io::Error,
    },
    #[error("the body for {url} could not be read")]
    Body {
        url: String,
        #[source]
        source: io::Error,
    },
    #[error("{url} does not answer as HTTP should: {reason}")]
    Malformed { url: String, reason: String },
    #[error("{url} answers with more than {limit} bytes")]
    TooLarge { url: String, limit: u64 },
    #[error("{url} answers something else than expected: {reason}")]
    Unexpected { url: String, reason: String },
    #[error("{url} leads to {to}, {reason}")]
    Redirect { url: String, to: String, reason: &'static str },
    #[error(transparent)]
    Status(Box<Status>),
}

/// An answer that is no success.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{method} {url}: the server answers {status}{}{}", if message.is_empty() { "" } else { ": " }, message)]
pub struct Status {
    pub method: Method,
    /// Without its query, which may hold what others should not see.
    pub url: String,
    pub status: StatusCode,
    /// In the server's words, in one line.
    pub message: String,
    /// What a JSON answer says in `error_code` or `code`.
    pub code: Option<String>,
    pub retry_after: Option<Duration>,
}

/// What was waited for in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Connect(Duration),
    Silence(Duration),
    Total(Duration),
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connect(limit) => write!(f, "let no connection come about within {limit:?}"),
            Self::Silence(limit) => write!(f, "was silent for {limit:?}"),
            Self::Total(limit) => write!(f, "was not done within {limit:?}"),
        }
    }
}

/// Why a certificate is not believed.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{reason}")]
pub struct Distrust {
    reason: String,
    pub fingerprint: Fingerprint,
}

impl Distrust {
    pub(crate) fn new(error: &rustls::Error, fingerprint: Fingerprint) -> Self {
        Self { reason: sentence(error, fingerprint), fingerprint }
    }
}

fn sentence(error: &rustls::Error, fingerprint: Fingerprint) -> String {
    let rustls::Error::InvalidCertificate(error) = error else { return error.to_string() };
    match error {
        CertificateError::UnknownIssuer => format!(
            "its certificate is signed by nobody this machine knows; name its CA file (`ca`), or `{fingerprint}` \
             (`fingerprint`) if that is what the server's owner says"
        ),
        CertificateError::BadSignature => {
            "its certificate is not signed by the authority that is trusted here, although that \
             has the right name; ask the server's owner for the CA file (`ca`)"
                .to_owned()
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; its owner must renew it (or this machine's clock is wrong)".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; see that this machine's clock is right".to_owned()
        }
        CertificateError::NotValidForNameContext { presented, .. } if !presented.is_empty() => {
            format!("its certificate is for {}; use that name", presented.join(", "))
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "its certificate is for another name; use the name it is for".to_owned()
        }
        CertificateError::ApplicationVerificationFailure => {
            format!("its certificate is not the one that was named (`fingerprint`): it shows `{fingerprint}`")
        }
        CertificateError::Other(_) => format!(
            "its certificate is not made for servers ({error}); name it (`ca`), or `{fingerprint}` (`fingerprint`)"
        ),
        error => error.to_string(),
    }
}

impl Error {
    /// Whether asking again later may help.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Unreachable { .. } | Self::Timeout { .. } => true,
            Self::Truncated { .. } | Self::Broken { .. } => true,
            Self::Status(status) => matches!(status.status.as_u16(), 408 | 425 | 429 | 502 | 503 | 504),
            _ => false,
        }
    }

    /// Whether the server may have done what it was asked all the same.
    pub fn is_doubtful(&self) -> bool {
        match self {
            Self::Timeout { wait, .. } => !matches!(wait, Wait::Connect(_)),
            Self::Truncated { .. } | Self::Broken { .. } | Self::Malformed { .. } | Self::Unexpected { .. } => true,
            Self::TooLarge { .. } => true,
            Self::Status(status) => status.status.is_server_error() || status.status == StatusCode::REQUEST_TIMEOUT,
            _ => false,
        }
    }

    /// The status, if it was an answer.
    pub fn status(&self) -> Option<StatusCode> {
        if let Self::Status(status) = self { Some(status.status) } else { None }
    }

    /// The server's own name of what is wrong.
    pub fn code(&self) -> Option<&str> {
        if let Self::Status(status) = self { status.code.as_deref() } else { None }
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        if let Self::Status(status) = self { status.retry_after } else { None }
    }

    /// What a reader of a [`Response`](crate::Response) was told.
    pub fn from_io(error: io::Error, url: &str) -> Self {
        match error.downcast::<Self>() {
            Ok(ours) => ours,
            Err(source) => Self::Broken { address: url.to_owned(), source },
        }
    }
}
