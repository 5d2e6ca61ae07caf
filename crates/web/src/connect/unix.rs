//! Servers of this machine behind a socket, such as Docker's and Podman's.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use ureq::Error;
use ureq::unversioned::transport::{Buffers, ConnectionDetails, Connector, LazyBuffers, NextTimeout, Transport};

#[derive(Debug)]
pub(super) struct UnixConnector {
    path: PathBuf,
}

impl UnixConnector {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Connector for UnixConnector {
    type Out = UnixTransport;

    fn connect(&self, details: &ConnectionDetails, _: Option<()>) -> Result<Option<Self::Out>, Error> {
        let buffers = LazyBuffers::new(details.config.input_buffer_size(), details.config.output_buffer_size());
        Ok(Some(UnixTransport { stream: UnixStream::connect(&self.path)?, buffers }))
    }
}

#[derive(Debug)]
pub(super) struct UnixTransport {
    stream: UnixStream,
    buffers: LazyBuffers,
}

impl Transport for UnixTransport {
    fn buffers(&mut self) -> &mut dyn Buffers {
        &mut self.buffers
    }

    fn transmit_output(&mut self, amount: usize, timeout: NextTimeout) -> Result<(), Error> {
        let timeout = timeout.for_write();
        self.stream.set_write_timeout(timeout.not_zero().map(|limit| *limit))?;
        let sent = self.stream.write_all(&self.buffers.output()[..amount]);
        sent.map_err(|error| in_time(error, timeout))
    }

    fn await_input(&mut self, timeout: NextTimeout) -> Result<bool, Error> {
        let timeout = timeout.for_read();
        self.stream.set_read_timeout(timeout.not_zero().map(|limit| *limit))?;
        let amount = loop {
            match self.stream.read(self.buffers.input_append_buf()) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other.map_err(|error| in_time(error, timeout))?,
            }
        };
        self.buffers.input_appended(amount);
        Ok(amount > 0)
    }

    /// A quiet socket would have us wait; one that is closed, or says what nobody asked for, would not.
    fn is_open(&mut self) -> bool {
        let quiet = |stream: &mut UnixStream| {
            stream.set_nonblocking(true)?;
            let found = stream.read(&mut [0]);
            stream.set_nonblocking(false)?;
            std::io::Result::Ok(found.is_err_and(|error| error.kind() == ErrorKind::WouldBlock))
        };
        quiet(&mut self.stream).unwrap_or(false)
    }
}

fn in_time(error: std::io::Error, timeout: NextTimeout) -> Error {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Error::Timeout(timeout.reason),
        _ => Error::Io(error),
    }
}
