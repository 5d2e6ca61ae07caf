//! An answer: its status, its headers, and a body that is read as it comes.

use std::io::{self, Read, Write};
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::http::{self, HeaderMap, Method, StatusCode};

use crate::error::{Error, Status};
use crate::request::{Translate, shown};

/// For answers that are held in memory: far above what any of the servers we speak to sends.
const LARGEST: u64 = 256 << 20;
/// Of the words of a server that refuses.
const LONGEST_MESSAGE: usize = 400;

/// Read it for the body; errors of reading carry an [`Error`].
pub struct Response {
    method: Method,
    status: StatusCode,
    headers: HeaderMap,
    body: ureq::BodyReader<'static>,
    translate: Translate,
}

impl Response {
    pub(crate) fn new(method: Method, answer: http::Response<ureq::Body>, translate: Translate) -> Self {
        let (parts, body) = answer.into_parts();
        let body = body.into_with_config().limit(u64::MAX).reader();
        Self { method, status: parts.status, headers: parts.headers, body, translate }
    }

    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// Where it came from, after all redirects.
    pub fn url(&self) -> &str {
        &self.translate.url
    }

    /// The first of this name, if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    /// All of this name that are text.
    pub fn header_values<'a>(&'a self, name: &str) -> impl Iterator<Item = &'a str> {
        self.headers.get_all(name).iter().filter_map(|value| value.to_str().ok())
    }

    /// What the server says its body's length is.
    pub fn length(&self) -> Option<u64> {
        self.header("content-length")?.parse().ok()
    }

    /// Itself, or what the server says is wrong.
    pub fn success(self) -> Result<Self, Error> {
        if self.status.is_success() { Ok(self) } else { Err(self.into_error()) }
    }

    fn into_error(mut self) -> Error {
        let mut text = Vec::new();
        // What can be read of an explanation is enough.
        drop(Read::by_ref(&mut self).take(64 << 10).read_to_end(&mut text));
        let (message, code) = explanation(&text);
        let retry_after = self.header("retry-after").and_then(|text| text.parse().ok()).map(Duration::from_secs);
        let url = shown(self.url());
        Error::Status(Box::new(Status { method: self.method, url, status: self.status, message, code, retry_after }))
    }

    pub fn bytes(mut self, limit: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        let read = Read::by_ref(&mut self).take(limit.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| Error::from_io(error, &shown(self.url())))?;
        if bytes.len() as u64 > limit {
            return Err(Error::TooLarge { url: shown(self.url()), limit });
        }
        Ok(bytes)
    }

    pub fn text(self) -> Result<String, Error> {
        let url = shown(self.url());
        String::from_utf8(self.bytes(LARGEST)?).map_err(|error| Error::Unexpected { url, reason: error.to_string() })
    }

    pub fn json<T: DeserializeOwned>(self) -> Result<T, Error> {
        let url = shown(self.url());
        let bytes = self.bytes(LARGEST)?;
        serde_json::from_slice(&bytes).map_err(|error| {
            let is_page = bytes.trim_ascii_start().starts_with(b"<");
            let reason = if is_page { "a web page instead of data".to_owned() } else { error.to_string() };
            Error::Unexpected { url, reason }
        })
    }

    /// All of the body, however large. Errors of `to` are [`Error::Body`].
    pub fn copy_to(mut self, to: &mut impl Write) -> Result<u64, Error> {
        let url = shown(self.url());
        let mut buffer = vec![0; 128 << 10];
        let mut total = 0;
        loop {
            let count = self.read(&mut buffer).map_err(|error| Error::from_io(error, &url))?;
            if count == 0 {
                return Ok(total);
            }
            to.write_all(&buffer[..count]).map_err(|source| Error::Body { url: url.clone(), source })?;
            total += count as u64;
        }
    }
}

impl std::fmt::Debug for Response {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.method, shown(self.url()), self.status)
    }
}

impl Read for Response {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.body.read(buffer).map_err(|error| {
            let kind = error.kind();
            io::Error::new(kind, self.translate.io(error))
        })
    }
}

/// What the body of a refusal says, in one line, and its code: `message`, `error`, `detail` or the first of `errors` of a
/// JSON object, or text that is no web page.
fn explanation(body: &[u8]) -> (String, Option<String>) {
    let text = String::from_utf8_lossy(body);
    let Ok(serde_json::Value::Object(object)) = serde_json::from_str(&text) else {
        let is_page = text.trim_start().starts_with('<');
        return (if is_page { String::new() } else { line(&text) }, None);
    };
    let first = object.get("errors").and_then(|errors| errors.get(0)).and_then(|error| error.as_object());
    let object = first.unwrap_or(&object);
    let word = |names: &[&str]| names.iter().find_map(|name| object.get(*name)?.as_str()).map(line);
    (word(&["message", "error", "detail", "msg", "cause"]).unwrap_or_default(), word(&["error_code", "code"]))
}

fn line(text: &str) -> String {
    let words =
        text.split(|letter: char| letter.is_whitespace() || letter.is_control()).filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(LONGEST_MESSAGE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_explained() {
        let explained = |body: &str| explanation(body.as_bytes());
        let coded = |message: &str, code: &str| (message.to_owned(), Some(code.to_owned()));
        assert_eq!(explained(r#"{"error_code":"BAD","message":"no\nway"}"#), coded("no way", "BAD"));
        assert_eq!(explained(r#"{"errors":[{"code":"DENIED","message":"x"}]}"#), coded("x", "DENIED"));
        assert_eq!(explained("plain \u{1b}[1m text\n"), ("plain [1m text".to_owned(), None));
        assert_eq!(explained("<html>…"), (String::new(), None));
        assert_eq!(explained(""), (String::new(), None));
        assert_eq!(explained(r#"{"errors":[]}"#), (String::new(), None));
        assert!(explained(&"ö".repeat(5000)).0.chars().count() == LONGEST_MESSAGE + 1);
    }
}
