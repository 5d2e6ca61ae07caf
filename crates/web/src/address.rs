//! Where a server is, and what a path below it is called.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::Error;

/// What stands for itself everywhere in an address.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// One segment of a path, or a value in a query.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A server, and the path that everything of it lies below: `https://host:port/prefix/` or `unix:///run/docker.sock`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    origin: Origin,
    /// Begins and ends with a slash.
    prefix: String,
    socket: Option<PathBuf>,
}

/// Whom credentials are for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) is_https: bool,
    /// In lower case, with brackets around IPv6.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Address {
    pub fn parse(text: &str) -> Result<Self, Error> {
        if let Some(path) = text.strip_prefix("unix://") {
            return Self::socket(path);
        }
        let (origin, rest) = Origin::split(text)?;
        let path = rest.split(['?', '#']).next().unwrap_or_default();
        if path.len() != rest.len() {
            return Err(bad(text, "it may have no `?` and no `#`"));
        }
        let prefix = format!("/{}/", path.trim_matches('/')).replace("//", "/");
        Ok(Self { origin, prefix, socket: None })
    }

    /// A server behind a socket of this machine.
    pub fn socket(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if !path.is_absolute() {
            return Err(bad(&format!("unix://{}", path.display()), "a socket's path begins with `/`"));
        }
        let origin = Origin { is_https: false, host: "localhost".to_owned(), port: 80 };
        Ok(Self { origin, prefix: "/".to_owned(), socket: Some(path.to_owned()) })
    }

    pub fn host(&self) -> &str {
        &self.origin.host
    }

    pub fn port(&self) -> u16 {
        self.origin.port
    }

    pub fn is_https(&self) -> bool {
        self.origin.is_https
    }

    pub(crate) fn socket_path(&self) -> Option<&Path> {
        self.socket.as_deref()
    }

    pub(crate) fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The full address of a path below this one; one that is full already stays as it is.
    pub(crate) fn below(&self, path: &str) -> String {
        if path.starts_with("http://") || path.starts_with("https://") {
            return path.to_owned();
        }
        format!("{}{}{}", self.origin, self.prefix, path.trim_start_matches('/'))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.socket {
            Some(path) => write!(f, "unix://{}", path.display()),
            None => write!(f, "{}{}", self.origin, self.prefix.trim_end_matches('/')),
        }
    }
}

impl Origin {
    pub(crate) fn of(url: &str) -> Result<Self, Error> {
        Self::split(url).map(|(origin, _)| origin)
    }

    /// The origin of an address, and what follows it.
    fn split(text: &str) -> Result<(Self, &str), Error> {
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| bad(text, "it begins with `https://` or `http://`"))?;
        let is_https = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err(bad(text, "it begins with `https://` or `http://`")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        if authority.contains('@') {
            // Not shown: there is a password in it.
            return Err(bad("http://…@…", "credentials do not belong into it, where everybody sees them"));
        }
        let (host, port) = split_port(authority).ok_or_else(|| bad(text, "its port is no number"))?;
        if !is_host(host) {
            return Err(bad(text, "it names no host"));
        }
        let port = port.unwrap_or(if is_https { 443 } else { 80 });
        Ok((Self { is_https, host: host.to_ascii_lowercase(), port }, rest))
    }

    pub(crate) fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[').trim_end_matches(']');
        bare == "localhost" || bare.ends_with(".localhost") || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }

    /// Where a redirect from `from`, an address here, leads.
    pub(crate) fn follow(&self, from: &str, location: &str) -> String {
        if location.starts_with("http://") || location.starts_with("https://") {
            return location.to_owned();
        }
        if let Some(rest) = location.strip_prefix("//") {
            return format!("{}://{rest}", if self.is_https { "https" } else { "http" });
        }
        if location.starts_with('/') {
            return format!("{self}{location}");
        }
        let here = from.split(['?', '#']).next().unwrap_or(from);
        let folder = here.rfind('/').map_or(here, |end| &here[..end]);
        format!("{folder}/{location}")
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, usual) = if self.is_https { ("https", 443) } else { ("http", 80) };
        write!(f, "{scheme}://{}", self.host)?;
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let after_host = authority.rfind(']').map_or(0, |end| end + 1);
    match authority[after_host..].find(':') {
        None => Some((authority, None)),
        Some(colon) => {
            let (host, port) = authority.split_at(after_host + colon);
            Some((host, Some(port[1..].parse().ok()?)))
        }
    }
}

fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        return inner.strip_suffix(']').is_some_and(|ip| ip.parse::<std::net::Ipv6Addr>().is_ok());
    }
    !host.is_empty() && host.chars().all(|letter| letter.is_ascii_alphanumeric() || "-._".contains(letter))
}

fn bad(text: &str, reason: &'static str) -> Error {
    Error::Address { text: text.to_owned(), reason }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_lie_below_the_prefix() {
        let below = |address: &str, path: &str| Address::parse(address).unwrap().below(path);
        assert_eq!(below("https://a.example", "v2/x"), "https://a.example/v2/x");
        assert_eq!(below("https://a.example:443/mlflow", "/v2/x"), "https://a.example/mlflow/v2/x");
        assert_eq!(below("HTTP://A.example:5000/a/b/", ""), "http://a.example:5000/a/b/");
        assert_eq!(below("http://[::1]:80", "x"), "http://[::1]/x");
        assert_eq!(below("unix:///run/docker.sock", "/version"), "http://localhost/version");
        assert_eq!(below("http://a", "https://b/c"), "https://b/c");
    }

    #[test]
    fn what_is_no_address_is_refused_without_showing_a_password() {
        for text in
            ["a.example", "ftp://a", "http://", "http://a:b", "http://a/?x", "unix://x", "http://a b", "http://[x]"]
        {
            assert!(Address::parse(text).is_err(), "{text}");
        }
        let error = Address::parse("https://me:hunter2@a.example/").unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter"));
    }

    #[test]
    fn redirects_lead_where_they_say() {
        let origin = Origin::of("https://a.example:8443/v2/x/y?z=1").unwrap();
        let follow = |location| origin.follow("https://a.example:8443/v2/x/y?z=1", location);
        assert_eq!(follow("/q"), "https://a.example:8443/q");
        assert_eq!(follow("w?t"), "https://a.example:8443/v2/x/w?t");
        assert_eq!(follow("//b.example/q"), "https://b.example/q");
        assert_eq!(follow("http://b.example/q"), "http://b.example/q");
    }

    #[test]
    fn loopback_is_known() {
        let is_loopback = |url: &str| Origin::of(url).unwrap().is_loopback();
        assert!(is_loopback("http://localhost:1") && is_loopback("http://127.3.0.1") && is_loopback("http://[::1]"));
        assert!(!is_loopback("http://localhost.example") && !is_loopback("http://10.0.0.1"));
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(https?://)?\\PC{0,40}", location in "\\PC{0,20}") {
            if let Ok(address) = Address::parse(&text) {
                let again = Address::parse(&address.to_string()).unwrap();
                prop_assert_eq!(&again, &address);
                address.origin().follow(&address.below("x"), &location);
            }
        }

        #[test]
        fn encoding_keeps_the_text(text in "\\PC{0,40}") {
            let back = percent_encoding::percent_decode_str(&encode(&text)).decode_utf8().unwrap().into_owned();
            prop_assert_eq!(back, text);
        }
    }
}
