//! Every point of an attempt, as an event file that TensorBoard reads too.
//!
//! A full disk costs points, never the file: what could not be written whole is written over by what comes next.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use trainyard_tfevents::{Stamp, Writer};

use super::Moment;

/// Gathered before it goes to the disk, at the latest with the next heartbeat.
const ROOM: usize = 64 << 10;

pub(super) struct Record {
    path: PathBuf,
    /// There is none before there is a point.
    writer: Option<Writer<Page>>,
    lost: u64,
    why: Option<String>,
}

impl Record {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, writer: None, lost: 0, why: None }
    }

    pub(super) fn write(&mut self, moment: Moment, name: &str, value: f64) {
        let stamp = Stamp { step: moment.step, wall_time: moment.time };
        let Some(writer) = self.writer(stamp.wall_time) else { return };
        // A page takes everything; what the disk refuses is counted there.
        drop(writer.exact_scalar(name, stamp, value));
        let page = writer.get_mut();
        page.points += 1;
        if page.bytes.len() >= ROOM {
            self.flush();
        }
    }

    fn writer(&mut self, time: f64) -> Option<&mut Writer<Page>> {
        if self.writer.is_none() {
            match File::create(&self.path) {
                Ok(file) => {
                    let page = Page { file, written: 0, bytes: Vec::new(), points: 0 };
                    self.writer = Writer::new(page, time).ok();
                }
                Err(error) => {
                    self.lost += 1;
                    self.why = Some(error.to_string());
                }
            }
        }
        self.writer.as_mut()
    }

    pub(super) fn flush(&mut self) {
        let Some(writer) = &mut self.writer else { return };
        let page = writer.get_mut();
        let points = page.points;
        if let Err(error) = page.put() {
            self.lost += points;
            self.why = Some(error.to_string());
        }
    }

    /// The end. Returns a remark if points were lost.
    pub(super) fn finish(&mut self) -> Option<String> {
        self.flush();
        if let Some(writer) = &mut self.writer {
            let page = writer.get_mut();
            // What is left of a failed write would be taken for a torn record, which a reader waits for.
            drop(page.file.set_len(page.written));
        }
        let why = self.why.take()?;
        Some(format!("{} points of metrics could not be written down: {why}", self.lost))
    }
}

struct Page {
    file: File,
    written: u64,
    bytes: Vec<u8>,
    points: u64,
}

impl Page {
    fn put(&mut self) -> io::Result<()> {
        self.points = 0;
        let bytes = std::mem::take(&mut self.bytes);
        let result = self.file.write_all_at(&bytes, self.written);
        if result.is_ok() {
            self.written += bytes.len() as u64;
        }
        self.bytes = bytes;
        self.bytes.clear();
        result
    }
}

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
