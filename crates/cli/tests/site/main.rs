//! Hosts, the pipe and transfer, with the real program and a real sshd on loopback.
#![expect(clippy::unwrap_used, reason = "tests")]

mod hosts;
mod images;
mod pipes;
mod pulls;
mod sshd;
mod uploads;

use std::path::Path;
use std::time::Duration;

use trainyard_engine::host::Host;
use trainyard_engine::pipe::Pipe;

const PROGRAM: &str = env!("CARGO_BIN_EXE_yard");
const LIMIT: Duration = Duration::from_secs(20);

fn here(depot: &Path) -> Pipe {
    Pipe::open(&Host::Here, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT).unwrap()
}

fn words(argv: &[&str]) -> Vec<String> {
    argv.iter().map(|&word| word.to_owned()).collect()
}
