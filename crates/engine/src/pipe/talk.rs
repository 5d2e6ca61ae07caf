//! How it is asked: a request goes out in frames, and its answer is read to its end before the next.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::time::Duration;

use trainyard_agent::pipe::frame::{self, Body, Tag};
use trainyard_agent::pipe::message::{Answer, Request};

use super::wire::Wire;
use super::{Pipe, PipeError};
use crate::host::{Host, HostError};

/// What is shorter goes out in one piece: over ssh every write is a packet.
const ONE_WRITE: usize = 1 << 16;

impl Pipe {
    /// Sends a request and reads the head of the answer; a refusal is read to its end and becomes an error.
    pub(crate) fn ask(&mut self, request: &Request, body: &[&[u8]]) -> Result<Answer, PipeError> {
        let chunks = || body.iter().flat_map(|part| part.chunks(1 << 20));
        if body.iter().map(|part| part.len()).sum::<usize>() > ONE_WRITE {
            self.begin(request)?;
            chunks().try_for_each(|chunk| self.send(Tag::Body, chunk))?;
            self.send(Tag::End, &[])?;
            return self.answer();
        }
        let head = self.head(request)?;
        let mut bytes = Vec::new();
        let frames = std::iter::once((Tag::Head, head.as_slice())).chain(chunks().map(|chunk| (Tag::Body, chunk)));
        for (tag, frame) in frames.chain([(Tag::End, [].as_slice())]) {
            frame::write(&mut bytes, tag, frame).map_err(|error| PipeError::Refused(error.to_string()))?;
        }
        self.session.get_mut().write_all(&bytes).map_err(|error| self.failed(&error))?;
        self.answer()
    }

    pub(crate) fn begin(&mut self, request: &Request) -> Result<(), PipeError> {
        let head = self.head(request)?;
        self.send(Tag::Head, &head)
    }

    /// From here on until its answer is read nothing else can be asked.
    fn head(&mut self, request: &Request) -> Result<Vec<u8>, PipeError> {
        if std::mem::replace(&mut self.broken, true) {
            return Err(PipeError::Dropped);
        }
        serde_json::to_vec(request).map_err(|error| PipeError::Refused(error.to_string()))
    }

    pub(crate) fn send(&mut self, tag: Tag, bytes: &[u8]) -> Result<(), PipeError> {
        let header = frame::header(tag, bytes.len()).map_err(|error| PipeError::Refused(error.to_string()))?;
        let sent = if bytes.len() < ONE_WRITE {
            self.session.get_mut().write_all(&[header.as_slice(), bytes].concat())
        } else {
            let session = self.session.get_mut();
            session.write_all(&header).and_then(|()| session.write_all(bytes))
        };
        sent.map_err(|error| self.failed(&error))
    }

    fn answer(&mut self) -> Result<Answer, PipeError> {
        let head = match frame::read(&mut self.session) {
            Ok(Some((Tag::Head, head))) => head,
            Ok(Some(_)) => return Err(PipeError::Dropped),
            Ok(None) => return Err(self.failed(&io::ErrorKind::UnexpectedEof.into())),
            Err(error) => return Err(self.failed(&error)),
        };
        let answer = serde_json::from_slice(&head).map_err(|_| PipeError::Dropped)?;
        self.broken = false;
        if let Answer::Refused { why } = answer {
            self.parts(&[])?;
            return Err(PipeError::Refused(why));
        }
        Ok(answer)
    }

    /// The same for answers without a body.
    pub(crate) fn closed_ask(&mut self, request: &Request) -> Result<Answer, PipeError> {
        let answer = self.ask(request, &[])?;
        self.parts(&[])?;
        Ok(answer)
    }

    pub(crate) fn closed_answer(&mut self) -> Result<Answer, PipeError> {
        let answer = self.answer()?;
        self.parts(&[])?;
        Ok(answer)
    }

    /// With more patience than usual.
    pub(crate) fn within<T>(&mut self, limit: Duration, ask: impl FnOnce(&mut Self) -> T) -> T {
        let usual = self.session.get_ref().limit();
        self.session.get_mut().set_limit(usual.max(limit));
        let answer = ask(self);
        self.session.get_mut().set_limit(usual);
        answer
    }

    /// The next frame of an answer's body; `None` at its end. Until then nothing else can be asked.
    pub(crate) fn frame(&mut self) -> Result<Option<Vec<u8>>, PipeError> {
        self.broken = true;
        match Body::new(&mut self.session).frame() {
            Ok(Some(bytes)) => Ok(Some(bytes)),
            Ok(None) => {
                self.broken = false;
                Ok(None)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    /// Whether the site says something while we are speaking.
    pub(crate) fn is_readable(&self) -> bool {
        self.session.get_ref().is_readable()
    }

    /// The body of an answer as lines of JSON.
    pub(super) fn lines<T: serde::de::DeserializeOwned>(&mut self) -> Result<Vec<T>, PipeError> {
        const LONGEST_LINE: u64 = 64 << 10;
        self.broken = true;
        let mut body = BufReader::new(Body::new(&mut self.session));
        let mut found = Vec::new();
        loop {
            let mut line = Vec::new();
            let read = body.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line);
            match read {
                Ok(0) => break,
                Ok(_) => found.push(serde_json::from_slice(&line).map_err(|_| PipeError::Dropped)?),
                Err(error) => return Err(self.failed(&error)),
            }
        }
        self.broken = false;
        Ok(found)
    }

    /// The body of an answer, cut into parts of these sizes. Memory is taken as bytes arrive.
    pub(crate) fn parts(&mut self, sizes: &[u64]) -> Result<Vec<Vec<u8>>, PipeError> {
        self.broken = true;
        let mut body = Body::new(&mut self.session);
        let mut read = || {
            let mut parts = Vec::with_capacity(sizes.len());
            for size in sizes {
                let mut part = Vec::new();
                body.by_ref().take(*size).read_to_end(&mut part)?;
                if part.len() as u64 != *size {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
                parts.push(part);
            }
            body.skip()?;
            Ok(parts)
        };
        let parts: io::Result<Vec<Vec<u8>>> = read();
        match parts {
            Ok(parts) => {
                self.broken = false;
                Ok(parts)
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    pub(super) fn nonsense(&mut self) -> PipeError {
        self.broken = true;
        PipeError::Dropped
    }

    fn failed(&mut self, error: &io::Error) -> PipeError {
        self.broken = true;
        if let Wire::Letters(letters) = self.session.get_mut()
            && let Some(trouble) = letters.take_trouble()
        {
            // A letter without an answer leaves nothing unread.
            self.broken = false;
            return trouble.into();
        }
        if error.kind() == io::ErrorKind::TimedOut {
            return PipeError::TimedOut;
        }
        if error.kind() == io::ErrorKind::Other {
            return PipeError::Refused(error.to_string());
        }
        match (&self.host, self.session.get_mut()) {
            (Host::Ssh(host), Wire::Child(session)) => match host.why(session) {
                HostError::NoShell { .. } | HostError::Dropped { .. } | HostError::Other { .. } => PipeError::Dropped,
                other => other.into(),
            },
            _ => PipeError::Dropped,
        }
    }
}
