//! Connections: TCP or a socket of this machine, a tunnel where there is a proxy, TLS where the address says so.

mod tls;
mod unix;

use std::sync::{Arc, OnceLock};

use rustls::ClientConfig;
use ureq::unversioned::resolver::{DefaultResolver, ResolvedSocketAddrs, Resolver};
use ureq::unversioned::transport::{ConnectProxyConnector, Connector as _, NextTimeout, TcpConnector};
use ureq::{Agent, Proxy, config::Config, http::Uri};

use crate::client::Limits;
use crate::trust::Trust;

/// TLS settings, read when they are first needed.
#[derive(Debug)]
pub(crate) struct LazyTls {
    trust: Trust,
    config: OnceLock<Arc<ClientConfig>>,
}

impl LazyTls {
    pub(crate) fn new(trust: Trust) -> Self {
        Self { trust, config: OnceLock::new() }
    }

    pub(crate) fn config(&self) -> Result<Arc<ClientConfig>, crate::Error> {
        if let Some(config) = self.config.get() {
            return Ok(Arc::clone(config));
        }
        let made = self.trust.config()?;
        Ok(Arc::clone(self.config.get_or_init(|| made)))
    }
}

pub(crate) fn by_network(limits: &Limits, proxy: Option<Proxy>, tls: &Arc<LazyTls>) -> Agent {
    let connector =
        ().chain(ConnectProxyConnector::default())
            .chain(TcpConnector::default())
            .chain(tls::TlsConnector::new(Arc::clone(tls)));
    Agent::with_parts(config(limits, proxy), connector, DefaultResolver::default())
}

pub(crate) fn by_socket(limits: &Limits, path: std::path::PathBuf) -> Agent {
    Agent::with_parts(config(limits, None), unix::UnixConnector::new(path), Nowhere)
}

fn config(limits: &Limits, proxy: Option<Proxy>) -> Config {
    Config::builder()
        .proxy(proxy)
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .user_agent(concat!("trainyard/", env!("CARGO_PKG_VERSION")))
        .accept_encoding("identity")
        .timeout_resolve(Some(limits.connect))
        .timeout_connect(Some(limits.connect))
        .timeout_per_read(Some(limits.silence))
        .timeout_per_write(Some(limits.silence))
        .timeout_global(limits.total)
        .max_idle_connections_per_host(16)
        .max_idle_connections(32)
        .build()
}

/// A socket has no address to be looked up.
#[derive(Debug)]
struct Nowhere;

impl Resolver for Nowhere {
    fn resolve(&self, _: &Uri, _: &Config, _: NextTimeout) -> Result<ResolvedSocketAddrs, ureq::Error> {
        Ok(self.empty())
    }
}
