//! Uploads a folder once, for `bench/run upload`: scan while the pipe is opened, then send. Prints the seconds of each as JSON.
//!
//! `upload HOST DEPOT PROJECT CACHE YARD FOLDER SSH…`
#![expect(clippy::print_stdout, reason = "a program of its own")]

use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_core::id::Digest;
use trainyard_engine::host::{Host, SshHost};
use trainyard_engine::pipe::Pipe;
use trainyard_engine::snapshot::{Rules, scan};
use trainyard_engine::transfer::{Base, upload};

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, depot, project, cache, yard, folder, ssh @ ..] = words.as_slice() else {
        return Err("too few words".into());
    };
    let began = Instant::now();
    let host = Host::Ssh(SshHost::new(host, ssh, Path::new(folder))?);
    // As `yard run` does it with a project of this size: the pipe is opened while the project is looked at.
    let (pipe, snapshot) = std::thread::scope(|scope| {
        let pipe = scope.spawn(|| Pipe::open(&host, depot, Path::new(yard), Duration::from_secs(60)));
        let snapshot = scan(Path::new(project), &Rules::default(), Path::new(cache));
        (pipe.join(), snapshot)
    });
    let (mut pipe, snapshot) = (pipe.map_err(|_| "the pipe's thread failed")??, snapshot?);
    let ready = began.elapsed();
    // What `yard run` remembers of the newest upload of a project.
    let remembered = Path::new(cache).with_extension("newest");
    let earlier = std::fs::read(&remembered).ok();
    let digest = earlier.as_ref().map(|text| Digest(blake3::hash(text).to_hex().to_string()));
    let base = earlier.as_ref().zip(digest.as_ref()).map(|(text, digest)| Base { digest, text });
    let sent = upload(&mut pipe, &snapshot, base, &mut |_| {})?;
    std::fs::write(&remembered, &snapshot.text)?;
    let uploaded = began.elapsed();
    println!(
        r#"{{"ready":{:.6},"upload":{:.6},"files":{},"bytes":{},"wire":{}}}"#,
        ready.as_secs_f64(),
        uploaded.as_secs_f64(),
        sent.files,
        sent.bytes,
        sent.wire
    );
    Ok(())
}
