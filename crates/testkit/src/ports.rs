//! Ports of loopback that are free.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::net::{Ipv4Addr, TcpListener};

/// Below the range the kernel gives to outgoing connections, so that none of them can take one away between the
/// choice and the daemon's start.
const FIRST: u64 = 10_000;
const LAST: u64 = 32_000;

/// # Panics
/// When none is free.
pub fn free() -> u16 {
    let chance = || FIRST + RandomState::new().hash_one(std::process::id()) % (LAST - FIRST);
    let port = std::iter::repeat_with(chance).take(1000).find_map(|port| {
        let port = u16::try_from(port).ok()?;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok().map(|_| port)
    });
    port.expect("a free port")
}

/// Whether somebody listens there.
pub fn answers(port: u16) -> bool {
    std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
}
