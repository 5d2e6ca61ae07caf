//! A client of one server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ureq::http::Method;
use ureq::{Agent, Proxy};

use crate::address::{Address, Origin};
use crate::connect::{self, LazyTls};
use crate::error::Error;
use crate::proxy;
use crate::request::Request;
use crate::retry::Retry;
use crate::secret::Auth;
use crate::trust::Trust;

/// How long we wait for what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Until there is a connection, with TLS and through the proxy.
    pub connect: Duration,
    /// For the next byte, in either direction; so also for the first byte of an answer.
    pub silence: Duration,
    /// For all of a request and its answer. None for those who stream gigabytes.
    pub total: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self { connect: Duration::from_secs(15), silence: Duration::from_secs(60), total: None }
    }
}

/// What a [`Client`] is made from.
#[derive(Debug, Clone)]
pub struct Settings {
    pub address: Address,
    /// Sent to this server only, whatever it redirects to.
    pub auth: Option<Auth>,
    pub trust: Trust,
    pub limits: Limits,
    /// Of requests that may be sent twice without harm.
    pub retry: Retry,
}

impl Settings {
    /// With nothing special.
    pub fn new(address: &str) -> Result<Self, Error> {
        Ok(Self::of(Address::parse(address)?))
    }

    pub fn of(address: Address) -> Self {
        Self { address, auth: None, trust: Trust::default(), limits: Limits::default(), retry: Retry::default() }
    }
}

/// Keeps its connections. Cheap to clone, and clones share them.
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    tls: Arc<LazyTls>,
    /// By the proxy they go through.
    agents: Mutex<BTreeMap<Option<String>, Agent>>,
}

impl Client {
    /// Connects to nobody yet. Fails when a certificate file cannot be used.
    pub fn new(settings: Settings) -> Result<Self, Error> {
        let tls = Arc::new(LazyTls::new(settings.trust.clone()));
        if settings.address.is_https() || settings.trust != Trust::default() {
            tls.config()?;
        }
        Ok(Self { shared: Arc::new(Shared { settings, tls, agents: Mutex::default() }) })
    }

    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    pub fn address(&self) -> &Address {
        &self.shared.settings.address
    }

    /// `path` lies below the client's address, with its segments encoded ([`encode`](crate::encode)); or it is a full address
    /// of another server, which gets no credentials from us but those of [`Request::auth`].
    pub fn request<'a>(&'a self, method: Method, path: &str) -> Request<'a> {
        Request::new(self, method, path)
    }

    pub fn get<'a>(&'a self, path: &str) -> Request<'a> {
        self.request(Method::GET, path)
    }

    pub fn head<'a>(&'a self, path: &str) -> Request<'a> {
        self.request(Method::HEAD, path)
    }

    pub fn post<'a>(&'a self, path: &str) -> Request<'a> {
        self.request(Method::POST, path)
    }

    pub fn put<'a>(&'a self, path: &str) -> Request<'a> {
        self.request(Method::PUT, path)
    }

    pub fn delete<'a>(&'a self, path: &str) -> Request<'a> {
        self.request(Method::DELETE, path)
    }

    /// The agent that reaches this server, and the proxy it goes through.
    pub(crate) fn route(&self, to: &Origin) -> Result<(Agent, Option<String>), Error> {
        let Shared { settings, tls, agents } = &*self.shared;
        let socket = settings.address.socket_path();
        let proxy = if socket.is_some() { None } else { proxy::choose(to, |name| std::env::var(name).ok()) };
        let mut agents = agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(agent) = agents.get(&proxy) {
            return Ok((agent.clone(), proxy));
        }
        let agent = match (socket, &proxy) {
            (Some(path), _) => connect::by_socket(&settings.limits, path.to_owned()),
            (None, None) => connect::by_network(&settings.limits, None, tls),
            (None, Some(url)) => connect::by_network(&settings.limits, Some(usable(url, to)?), tls),
        };
        agents.insert(proxy.clone(), agent.clone());
        Ok((agent, proxy))
    }
}

fn usable(url: &str, to: &Origin) -> Result<Proxy, Error> {
    let refused =
        |reason: &str| Error::Proxy { proxy: redacted(url), address: to.to_string(), reason: reason.to_owned() };
    if !url.starts_with("http://") && !url.starts_with("https://") {
        return Err(refused("only proxies that begin with `http://` or `https://` can be used"));
    }
    Proxy::new(url).map_err(|_| refused("its address cannot be read"))
}

/// Without user and password.
pub(crate) fn redacted(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => url.to_owned(),
    }
}
