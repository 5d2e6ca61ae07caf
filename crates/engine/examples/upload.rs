//! Uploads a folder once, for `bench/run upload`: scan, open the pipe, send. Prints the seconds of each as JSON.
//!
//! `upload HOST DEPOT PROJECT YARD FOLDER SSH…`
#![expect(clippy::print_stdout, reason = "a program of its own")]

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::time::{Duration, Instant};

use trainyard_agent::snapshot::{Entry, Kind, Manifest, encode};
use trainyard_core::id::Digest;
use trainyard_engine::host::{Host, SshHost};
use trainyard_engine::pipe::Pipe;
use trainyard_engine::snapshot::Snapshot;
use trainyard_engine::transfer::upload;

fn main() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [host, depot, project, yard, folder, ssh @ ..] = words.as_slice() else { return Err("too few words".into()) };
    let began = Instant::now();
    let snapshot = scan(Path::new(project))?;
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

/// Every file is read: slower than yard's own scan, and measured apart.
fn scan(project: &Path) -> Result<Snapshot, Box<dyn Error>> {
    let mut manifest = Manifest::default();
    let (mut files, mut bytes) = (BTreeMap::new(), 0);
    let mut waiting = vec![project.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let path = entry.path();
            let name = encode(path.strip_prefix(project)?);
            let kind = if entry.file_type()?.is_dir() {
                waiting.push(path);
                Kind::Folder
            } else {
                let content = std::fs::read(&path)?;
                let blob = Digest(blake3::hash(&content).to_hex().to_string());
                files.insert(blob.clone(), path);
                bytes += content.len() as u64;
                Kind::File { blob, size: content.len() as u64, mode: 0o644 }
            };
            manifest.entries.push(Entry { path: name, kind });
        }
    }
    manifest.entries.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Snapshot { digest: manifest.digest(), manifest, files, bytes })
}
