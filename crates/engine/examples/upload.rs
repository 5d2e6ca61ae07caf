//! Uploads a folder once, for `bench/run upload`: scan, open the pipe, send. Prints the seconds of each as JSON.
//!
//! `upload HOST DEPOT PROJECT CACHE YARD FOLDER SSH…`
#![expect(clippy::print_stdout, reason = "a program of its own")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_engine::host::{Host, SshHost};
use trainyard_engine::pipe::Pipe;
use trainyard_engine::snapshot::{Rules, scan};
use trainyard_engine::transfer::upload;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, depot, project, cache, yard, folder, ssh @ ..] = words.as_slice() else {
        return Err("too few words".into());
    };
    let began = Instant::now();
    let snapshot = scan(Path::new(project), &Rules::default(), Path::new(cache))?;
    let scanned = began.elapsed();
    let began = Instant::now();
    let host = Host::Ssh(SshHost::new(host, ssh, Path::new(folder))?);
    let mut pipe = Pipe::open(&host, depot, Path::new(yard), Duration::from_secs(60))?;
    let opened = began.elapsed();
    let sent = upload(&mut pipe, &snapshot, &mut |_| {})?;
    let uploaded = began.elapsed();
    println!(
        r#"{{"scan":{:.6},"open":{:.6},"upload":{:.6},"files":{},"bytes":{},"wire":{}}}"#,
        scanned.as_secs_f64(),
        opened.as_secs_f64(),
        uploaded.as_secs_f64(),
        sent.files,
        sent.bytes,
        sent.wire
    );
    Ok(())
}
