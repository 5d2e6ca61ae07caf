//! One request: what is sent, where redirects lead, and whether it is sent again.

use std::io::{self, Read};
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use ureq::SendBody;
use ureq::http::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HeaderName, HeaderValue, LOCATION, RANGE};
use ureq::http::{self, HeaderMap, Method};

use crate::address::{Origin, encode};
use crate::client::{Client, redacted};
use crate::error::{Distrust, Error, Wait};
use crate::response::Response;
use crate::secret::Auth;

const MOST_REDIRECTS: usize = 10;

/// What is sent.
pub enum Body<'a> {
    None,
    Bytes(&'a [u8]),
    /// Sent once, never again. Of this length, or in chunks.
    Stream(&'a mut dyn Read, Option<u64>),
}

/// Built step by step; nothing happens before [`send`](Self::send), [`json`](Self::json) or [`text`](Self::text).
#[must_use = "nothing is sent before `send`"]
pub struct Request<'a> {
    client: &'a Client,
    method: Method,
    url: String,
    headers: HeaderMap,
    auth: Option<Auth>,
    /// The first thing that could not be written into a request.
    is_bad: bool,
    may_repeat: bool,
    within: Option<Duration>,
}

impl<'a> Request<'a> {
    pub(crate) fn new(client: &'a Client, method: Method, path: &str) -> Self {
        let may_repeat = matches!(method, Method::GET | Method::HEAD | Method::PUT | Method::DELETE | Method::OPTIONS);
        let url = client.address().below(path);
        Self { client, method, url, headers: HeaderMap::new(), auth: None, is_bad: false, may_repeat, within: None }
    }

    pub fn query(mut self, name: &str, value: &str) -> Self {
        let joint = if self.url.contains('?') { '&' } else { '?' };
        self.url = format!("{}{joint}{}={}", self.url, encode(name), encode(value));
        self
    }

    /// On top of those that were set before.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        match (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            (Ok(name), Ok(value)) => {
                self.headers.append(name, value);
            }
            _ => self.is_bad = true,
        }
        self
    }

    /// From this byte on; the answer's status says whether the server did it (206).
    pub fn from_byte(self, first: u64) -> Self {
        self.header(RANGE.as_str(), &format!("bytes={first}-"))
    }

    /// Instead of the client's own, for this request and its server.
    pub fn auth(mut self, auth: Auth) -> Self {
        self.auth = Some(auth);
        self
    }

    /// For all of it, instead of the client's limit.
    pub fn within(mut self, limit: Duration) -> Self {
        self.within = Some(limit);
        self
    }

    /// Promises that sending it twice does no harm, as is taken for granted of all methods but `POST` and `PATCH`.
    pub fn repeatable(mut self) -> Self {
        self.may_repeat = true;
        self
    }

    /// Sends it this once, whatever the method.
    pub fn once(mut self) -> Self {
        self.may_repeat = false;
        self
    }

    /// Any answer is fine, whatever its status.
    pub fn answer(self, mut body: Body<'_>) -> Result<Response, Error> {
        let repeats = self.may_repeat && !matches!(body, Body::Stream(..));
        if !repeats {
            return self.attempt(&mut body);
        }
        self.client.settings().retry.run(|| {
            let answer = self.attempt(&mut body)?;
            if matches!(answer.status().as_u16(), 408 | 425 | 429 | 502 | 503 | 504) {
                answer.success()
            } else {
                Ok(answer)
            }
        })
    }

    /// An answer that is a success.
    pub fn send(self, body: Body<'_>) -> Result<Response, Error> {
        self.answer(body)?.success()
    }

    /// A success, in JSON.
    pub fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        self.send(Body::None)?.json()
    }

    /// Sends JSON, and reads a success in JSON.
    pub fn send_json<T: DeserializeOwned>(self, content: &impl Serialize) -> Result<T, Error> {
        let url = shown(&self.url);
        let bytes = serde_json::to_vec(content)
            .map_err(|error| Error::Body { url, source: io::Error::new(io::ErrorKind::InvalidData, error) })?;
        self.header(CONTENT_TYPE.as_str(), "application/json").send(Body::Bytes(&bytes))?.json()
    }

    fn attempt(&self, body: &mut Body<'_>) -> Result<Response, Error> {
        let mut url = self.url.clone();
        let home = Origin::of(&url)?;
        for _ in 0..=MOST_REDIRECTS {
            let origin = Origin::of(&url)?;
            let answer = self.exchange(&url, &origin, origin == home, body)?;
            let is_redirect = matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308);
            let Some(location) = answer.header(LOCATION.as_str()).filter(|_| is_redirect) else { return Ok(answer) };
            let to = origin.follow(&url, location);
            let refused = |reason| Error::Redirect { url: shown(&url), to: shown(&to), reason };
            if !matches!(self.method, Method::GET | Method::HEAD) {
                return Err(refused("where only reading requests follow: use that address"));
            }
            if origin.is_https && !Origin::of(&to)?.is_https {
                return Err(refused("which is not encrypted, and so is not followed"));
            }
            url = to;
        }
        Err(Error::Redirect { url: shown(&self.url), to: shown(&url), reason: "and so on without end" })
    }

    fn exchange(&self, url: &str, origin: &Origin, is_home: bool, body: &mut Body<'_>) -> Result<Response, Error> {
        let (agent, proxy) = self.client.route(origin)?;
        let limits = self.client.settings().limits;
        let total = self.within.or(limits.total);
        let refused = || Error::Request { url: shown(url) };
        let mut request =
            http::Request::builder().method(self.method.clone()).uri(url).body(()).map_err(|_| refused())?;
        if self.is_bad {
            return Err(refused());
        }
        *request.headers_mut() = self.headers.clone();
        if let Some(auth) = self.credentials(origin, is_home) {
            let mut value = HeaderValue::try_from(auth.header()).map_err(|_| refused())?;
            value.set_sensitive(true);
            request.headers_mut().insert(AUTHORIZATION, value);
        }
        if let Body::Stream(_, Some(length)) = body {
            request.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(*length));
        }
        let request = agent.configure_request(request).timeout_global(total).build();
        let answer = match body {
            Body::None if matches!(self.method, Method::POST | Method::PUT | Method::PATCH) => {
                agent.run(request.map(|()| &[] as &[u8]))
            }
            Body::None => agent.run(request),
            Body::Bytes(bytes) => agent.run(request.map(|()| *bytes)),
            Body::Stream(stream, length) => {
                let mut exact = Exact { stream: *stream, left: *length };
                agent.run(request.map(|()| SendBody::from_reader(&mut exact)))
            }
        };
        let translate = Translate { url: url.to_owned(), origin: origin.to_string(), limits, total, proxy };
        match answer {
            Ok(answer) => Ok(Response::new(self.method.clone(), answer, translate)),
            Err(error) => Err(translate.error(error)),
        }
    }

    /// The client's credentials are for the client's server; those of the request for the server it names.
    fn credentials(&self, origin: &Origin, is_home: bool) -> Option<&Auth> {
        match &self.auth {
            Some(auth) => is_home.then_some(auth),
            None => self.client.settings().auth.as_ref().filter(|_| origin == self.client.address().origin()),
        }
    }
}

/// A stream that is as long as was promised, or fails.
struct Exact<'a> {
    stream: &'a mut dyn Read,
    left: Option<u64>,
}

impl Read for Exact<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let Some(left) = &mut self.left else { return self.stream.read(buffer).map_err(marked) };
        let most = usize::try_from(*left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.stream.read(&mut buffer[..most]).map_err(marked)?;
        if count == 0 && *left > 0 && most > 0 {
            let missing = io::Error::new(io::ErrorKind::UnexpectedEof, format!("{left} bytes are missing at its end"));
            return Err(marked(missing));
        }
        *left = left.saturating_sub(count as u64);
        Ok(count)
    }
}

/// An error of the body we send, not of the connection.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct OurBody(io::Error);

fn marked(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), OurBody(error))
}

/// An address without its query, which may hold what others should not see.
pub(crate) fn shown(url: &str) -> String {
    redacted(url.split(['?', '#']).next().unwrap_or(url))
}

/// Says what an error means here.
pub(crate) struct Translate {
    pub(crate) url: String,
    origin: String,
    limits: crate::client::Limits,
    total: Option<Duration>,
    proxy: Option<String>,
}

impl Translate {
    pub(crate) fn error(&self, error: ureq::Error) -> Error {
        let address = self.origin.clone();
        let url = shown(&self.url);
        match error {
            ureq::Error::Io(error) => self.io(error),
            ureq::Error::Timeout(which) => Error::Timeout { address, wait: self.wait(which) },
            ureq::Error::HostNotFound => Error::UnknownHost { host: self.host() },
            ureq::Error::ConnectProxyFailed(reason) => self.proxy(reason),
            ureq::Error::Protocol(error) => Error::Malformed { url, reason: error.to_string() },
            ureq::Error::LargeResponseHeader(..) => {
                Error::Malformed { url, reason: "its headers have no end".to_owned() }
            }
            ureq::Error::Http(_) | ureq::Error::BadUri(_) => Error::Request { url },
            ureq::Error::Other(error) => match error.downcast::<Error>() {
                Ok(ours) => *ours,
                Err(error) => Error::Tls { address, reason: error.to_string() },
            },
            error => Error::Malformed { url, reason: error.to_string() },
        }
    }

    pub(crate) fn io(&self, error: io::Error) -> Error {
        let address = self.origin.clone();
        let error = match error.downcast::<OurBody>() {
            Ok(OurBody(source)) => return Error::Body { url: shown(&self.url), source },
            Err(error) => error,
        };
        let error = match error.downcast::<ureq::Error>() {
            Ok(error) => return self.error(error),
            Err(error) => error,
        };
        let error = match error.downcast::<rustls::Error>() {
            Ok(error) => return self.tls(error),
            Err(error) => error,
        };
        match error.kind() {
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => {
                self.proxied("nobody listens there").unwrap_or(Error::Refused { address })
            }
            io::ErrorKind::UnexpectedEof => Error::Truncated { url: shown(&self.url) },
            io::ErrorKind::HostUnreachable
            | io::ErrorKind::NetworkUnreachable
            | io::ErrorKind::AddrNotAvailable
            | io::ErrorKind::PermissionDenied => Error::Unreachable { address, source: error },
            io::ErrorKind::TimedOut => Error::Timeout { address, wait: Wait::Connect(self.limits.connect) },
            // How the standard library wraps what `getaddrinfo` says.
            _ if error.to_string().contains("lookup address") => Error::UnknownHost { host: self.host() },
            _ => Error::Broken { address, source: error },
        }
    }

    fn tls(&self, error: rustls::Error) -> Error {
        let address = self.origin.clone();
        if let rustls::Error::InvalidCertificate(rustls::CertificateError::Other(other)) = &error
            && let Some(distrust) = other.0.downcast_ref::<Distrust>()
        {
            return Error::Untrusted { address, distrust: distrust.clone() };
        }
        let reason = match error {
            rustls::Error::InvalidMessage(_) => {
                "it does not speak TLS; should the address begin with `http://`?".to_owned()
            }
            other => other.to_string(),
        };
        Error::Tls { address, reason }
    }

    fn wait(&self, which: ureq::Timeout) -> Wait {
        match which {
            ureq::Timeout::Resolve | ureq::Timeout::Connect => Wait::Connect(self.limits.connect),
            ureq::Timeout::Global | ureq::Timeout::PerCall => Wait::Total(self.total.unwrap_or_default()),
            _ => Wait::Silence(self.limits.silence),
        }
    }

    fn proxied(&self, reason: &str) -> Option<Error> {
        let proxy = redacted(self.proxy.as_deref()?);
        Some(Error::Proxy { proxy, address: self.origin.clone(), reason: reason.to_owned() })
    }

    fn proxy(&self, reason: String) -> Error {
        self.proxied(&reason).unwrap_or(Error::Malformed { url: shown(&self.url), reason })
    }

    fn host(&self) -> String {
        let looked_up = self.proxy.as_deref().unwrap_or(&self.origin);
        Origin::of(&redacted(looked_up)).map_or_else(|_| looked_up.to_owned(), |origin| origin.host)
    }
}
