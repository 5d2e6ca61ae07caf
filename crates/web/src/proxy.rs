//! Which proxy stands between us and a server, as the environment says.

use std::net::IpAddr;

use crate::address::Origin;

/// The proxy's address, if there is one to use. Servers of this machine are never behind one.
pub(crate) fn choose(origin: &Origin, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let first = |names: &[&str]| names.iter().find_map(|name| variable(name).filter(|value| !value.trim().is_empty()));
    if origin.is_loopback() {
        return None;
    }
    let direct = first(&["NO_PROXY", "no_proxy"]).unwrap_or_default();
    if direct.split([',', ' ']).any(|entry| covers(entry.trim(), origin)) {
        return None;
    }
    let names: &[&str] = if origin.is_https { &["HTTPS_PROXY", "https_proxy"] } else { &["http_proxy", "HTTP_PROXY"] };
    let found = first(names).or_else(|| first(&["ALL_PROXY", "all_proxy"]))?;
    let found = found.trim();
    Some(if found.contains("://") { found.to_owned() } else { format!("http://{found}") })
}

/// Whether an entry of `NO_PROXY` means this server: `*`, a name and all below it, an address, a network, each with or
/// without a port.
fn covers(entry: &str, origin: &Origin) -> bool {
    let host = origin.host.trim_start_matches('[').trim_end_matches(']');
    if entry == "*" {
        return true;
    }
    if let Ok(ip) = host.parse::<IpAddr>() {
        let with_port = format!("{}:{}", origin.host, origin.port);
        return entry == with_port || in_network(entry.trim_start_matches('[').trim_end_matches(']'), ip);
    }
    let (name, port) = match entry.rsplit_once(':') {
        Some((name, port)) => (name, port.parse().ok()),
        None => (entry, Some(origin.port)),
    };
    let name = name.trim_start_matches('*').trim_start_matches('.').to_ascii_lowercase();
    let is_below = host.strip_suffix(&name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    !name.is_empty() && port == Some(origin.port) && is_below
}

fn in_network(entry: &str, ip: IpAddr) -> bool {
    let (network, bits) = entry.split_once('/').map_or((entry, None), |(network, bits)| (network, Some(bits)));
    let same_head = |network: u128, ip: u128, width: u32| {
        let bits = bits.map_or(Some(width), |bits| bits.parse().ok()).filter(|bits| *bits <= width);
        bits.is_some_and(|bits| (network ^ ip).checked_shr(width - bits).unwrap_or(0) == 0)
    };
    match (network.parse(), ip) {
        (Ok(IpAddr::V4(network)), IpAddr::V4(ip)) => same_head(network.to_bits().into(), ip.to_bits().into(), 32),
        (Ok(IpAddr::V6(network)), IpAddr::V6(ip)) => same_head(network.to_bits(), ip.to_bits(), 128),
        _ => false,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn chosen(url: &str, variables: &[(&str, &str)]) -> Option<String> {
        let variable =
            |name: &str| variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        choose(&Origin::of(url).unwrap(), variable)
    }

    #[test]
    fn the_scheme_chooses() {
        let both = [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "p:2"), ("ALL_PROXY", "http://all:3")];
        assert_eq!(chosen("https://a.example", &both).unwrap(), "http://s:1");
        assert_eq!(chosen("http://a.example", &both).unwrap(), "http://p:2");
        assert_eq!(chosen("http://a.example", &both[2..]).unwrap(), "http://all:3");
        assert_eq!(chosen("http://127.0.0.1:5000", &both), None);
        assert_eq!(chosen("https://a.example", &[("HTTPS_PROXY", "")]), None);
    }

    #[test]
    fn some_servers_are_reached_directly() {
        let is_direct = |url: &str, list: &str| chosen(url, &[("ALL_PROXY", "http://p"), ("NO_PROXY", list)]).is_none();
        assert!(is_direct("https://a.example", "x, .example"));
        assert!(is_direct("https://a.example", "EXAMPLE"));
        assert!(is_direct("https://a.example", "*.example"));
        assert!(is_direct("https://a.example", "a.example:443"));
        assert!(is_direct("https://a.example", "*"));
        assert!(is_direct("http://10.1.2.3:80", "10.0.0.0/8"));
        assert!(is_direct("http://10.1.2.3", "10.1.2.3"));
        assert!(is_direct("http://[fd00::1]", "fd00::/16"));
        assert!(!is_direct("https://a.example", "ample"));
        assert!(!is_direct("https://a.example", "a.example:80"));
        assert!(!is_direct("http://11.1.2.3", "10.0.0.0/8"));
        assert!(!is_direct("http://10.1.2.3", "10.0.0.0/99"));
        assert!(!is_direct("https://a.example", ",,"));
    }
}
