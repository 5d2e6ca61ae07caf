//! Names of images at registries: `[host[:port]/]path[:tag][@digest]`.

use std::fmt;
use std::net::IpAddr;

use crate::digest::Digest;
use crate::error::{Error, Result, shown};

/// As Docker understands it: what names no host is at Docker Hub, what has no tag means `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// `host` or `host:port`
    pub host: String,
    /// `library/busybox`
    pub path: String,
    pub tag: String,
    /// Goes before the tag.
    pub digest: Option<Digest>,
}

const HUB: &str = "docker.io";

impl Reference {
    pub fn parse(text: &str) -> Result<Self> {
        let refused = |why: &str| Error::malformed(format!("`{}`", shown(text.as_bytes())), why.to_owned());
        let text = text.strip_prefix("docker://").unwrap_or(text);
        let (name, digest) = match text.split_once('@') {
            None => (text, None),
            Some((name, digest)) => {
                let parsed = Digest::parse(digest).ok_or_else(|| refused("ends in no `sha256:` digest"))?;
                (name, Some(parsed))
            }
        };
        let (host, rest) = match name.split_once('/') {
            Some((first, rest)) if first.contains(['.', ':']) || first == "localhost" => (first, rest),
            _ => (HUB, name),
        };
        let (path, tag) = match rest.rsplit_once(':') {
            Some((path, tag)) if !tag.contains('/') => (path, tag),
            _ => (rest, "latest"),
        };
        let host = if matches!(host, "index.docker.io" | "registry-1.docker.io") { HUB } else { host };
        let path = if host == HUB && !path.contains('/') { format!("library/{path}") } else { path.to_owned() };
        if !is_host(host) {
            return Err(refused("names no host of a registry"));
        }
        if !is_path(&path) {
            return Err(refused("is no name of an image: lower-case letters, digits, `.`, `_`, `-` and `/`"));
        }
        if !is_tag(tag) {
            return Err(refused("has a tag that is none: letters, digits, `.`, `_` and `-`, 128 at most"));
        }
        Ok(Self { host: host.to_ascii_lowercase(), path, tag: tag.to_owned(), digest })
    }

    /// What a manifest is asked for by.
    pub(crate) fn wanted(&self) -> &str {
        self.digest.as_ref().map_or(&self.tag, Digest::as_str)
    }

    /// Where the registry is really asked.
    pub(crate) fn server(&self) -> &str {
        if self.host == HUB { "registry-1.docker.io" } else { &self.host }
    }

    /// Under which names a login may be kept, the most usual first.
    pub(crate) fn login_names(&self) -> Vec<String> {
        if self.host == HUB {
            return ["https://index.docker.io/v1/", "index.docker.io", HUB].map(str::to_owned).to_vec();
        }
        vec![self.host.clone(), format!("https://{}", self.host), format!("https://{}/v1/", self.host)]
    }

    pub(crate) fn is_loopback(&self) -> bool {
        let host = self.host.rsplit_once(':').map_or(self.host.as_str(), |(host, _)| host);
        let host = host.trim_start_matches('[').trim_end_matches(']');
        host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.digest {
            Some(digest) => write!(f, "{}/{}@{digest}", self.host, self.path),
            None => write!(f, "{}/{}:{}", self.host, self.path, self.tag),
        }
    }
}

/// It becomes the name of a folder as well as an address.
fn is_host(host: &str) -> bool {
    let begins_well = host.starts_with(|letter: char| letter.is_ascii_alphanumeric() || letter == '[');
    begins_well && trainyard_web::Address::parse(&format!("https://{host}")).is_ok()
}

fn is_path(path: &str) -> bool {
    let is_segment = |segment: &str| {
        let ends_well = |letter: Option<char>| letter.is_some_and(|letter| letter.is_ascii_alphanumeric());
        let letters =
            segment.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || "._-".contains(one));
        letters && ends_well(segment.chars().next()) && ends_well(segment.chars().next_back())
    };
    path.len() <= 255 && path.split('/').all(is_segment)
}

fn is_tag(tag: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    (1..=128).contains(&tag.len()) && tag.chars().all(is_letter) && !tag.starts_with(['.', '-'])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_docker_reads_them() {
        let digest = format!("sha256:{}", "a".repeat(64));
        for (text, full) in [
            ("busybox", "docker.io/library/busybox:latest"),
            ("nvidia/cuda:12.4-base", "docker.io/nvidia/cuda:12.4-base"),
            ("localhost/a", "localhost/a:latest"),
            ("localhost:5000/a/b:c", "localhost:5000/a/b:c"),
            ("nvcr.io/nvidia/isaac-lab:2.1", "nvcr.io/nvidia/isaac-lab:2.1"),
            ("docker://index.docker.io/library/x", "docker.io/library/x:latest"),
            ("[::1]:5000/a", "[::1]:5000/a:latest"),
        ] {
            assert_eq!(Reference::parse(text).unwrap().to_string(), full, "{text}");
        }
        let pinned = Reference::parse(&format!("a.example/b:tag@{digest}")).unwrap();
        assert_eq!((pinned.wanted(), pinned.to_string()), (digest.as_str(), format!("a.example/b@{digest}")));
    }

    #[test]
    fn what_is_no_name_is_refused() {
        for text in [
            "",
            "A",
            "a b",
            "a.example/",
            "a:",
            "a:b c",
            "../x",
            "a@sha256:1",
            "a//b",
            "a.example/-a",
            "a?b",
            ".a/b",
            "a:x/b",
            "a@b.example/c",
        ] {
            assert!(Reference::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn this_machine_is_known() {
        for (text, is) in
            [("localhost:5000/a", true), ("127.0.0.1:5000/a", true), ("[::1]:5000/a", true), ("a.example/b", false)]
        {
            assert_eq!(Reference::parse(text).unwrap().is_loopback(), is, "{text}");
        }
    }
}
