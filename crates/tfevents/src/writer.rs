//! Writes event files that TensorBoard reads. Records are buffered until [`Writer::flush`] or until some kilobytes
//! have come together; a reader sees whole records, save for the last one when a buffer went out in its middle.
//! A writer always begins a new file: continuing one that another process left is what the format has restarts for.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::encode::Message;
use crate::event::EXACT;
use crate::frame;

const VERSION: &[u8] = b"brain.Event:2";

#[derive(Debug, thiserror::Error)]
#[error("cannot create an event file `{}`", path.display())]
pub struct CreateError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// When a value was had.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Stamp {
    pub step: i64,
    /// Seconds since 1970.
    pub wall_time: f64,
}

impl Stamp {
    /// This step at this moment.
    pub fn now(step: i64) -> Self {
        Self { step, wall_time: seconds_now() }
    }
}

/// Writes events to a file, or to anything else.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
    event: Message,
    record: Vec<u8>,
    /// Tags whose metadata are written; once is enough.
    introduced: HashSet<Box<str>>,
}

/// An event file as [`Writer::create`] makes it.
pub type FileWriter = Writer<BufWriter<File>>;

impl FileWriter {
    /// Begins a new file in this folder, which is made if need be. Returns the file's path too.
    pub fn create(folder: impl AsRef<Path>) -> Result<(Self, PathBuf), CreateError> {
        let now = seconds_now();
        let path = folder.as_ref().join(file_name(now));
        let create = || {
            fs::create_dir_all(folder.as_ref())?;
            let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
            let mut writer = Self::new(BufWriter::new(file), now)?;
            writer.flush()?;
            Ok(writer)
        };
        match create() {
            Ok(writer) => Ok((writer, path)),
            Err(source) => Err(CreateError { path, source }),
        }
    }

    /// Waits until all that was written is on the disk.
    pub fn sync(&mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_data()
    }
}

/// `events.out.tfevents.<seconds>.<host>.<process>.<count>`: files of one run sort by age, and no two are the same.
fn file_name(now: f64) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let process = std::process::id();
    format!("events.out.tfevents.{:010}.{}.{process}.{count}", now as u64, host_name())
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").ok().or_else(|| std::env::var("HOSTNAME").ok());
    let name: String = name.unwrap_or_default().trim().replace(['/', '\\'], "-");
    if name.is_empty() { "localhost".to_owned() } else { name }
}

fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

impl<W: Write> Writer<W> {
    /// Writes the record that each event file begins with.
    pub fn new(out: W, wall_time: f64) -> io::Result<Self> {
        let mut writer = Self { out, event: Message::default(), record: Vec::new(), introduced: HashSet::new() };
        writer.event(Stamp { step: 0, wall_time }, |event| {
            event.bytes(3, VERSION);
        })?;
        Ok(writer)
    }

    /// A scalar as most writers write it: a `simple_value`.
    pub fn scalar(&mut self, tag: &str, stamp: Stamp, value: f32) -> io::Result<()> {
        self.scalars(stamp, [(tag, value)])
    }

    /// Several scalars of one moment in one record, which takes less room.
    pub fn scalars<'a>(&mut self, stamp: Stamp, values: impl IntoIterator<Item = (&'a str, f32)>) -> io::Result<()> {
        self.event(stamp, |event| {
            event.nested(5, |summary| {
                for (tag, number) in values {
                    summary.nested(1, |value| {
                        value.bytes(1, tag.as_bytes()).float(2, number);
                    });
                }
            });
        })
    }

    /// A scalar as TensorFlow 2 writes it: a tensor without dimensions for the plugin `scalars`.
    pub fn tensor_scalar(&mut self, tag: &str, stamp: Stamp, value: f32) -> io::Result<()> {
        const SCALAR: u64 = 1;
        self.tensor(tag, stamp, Plugin { name: "scalars", data_class: SCALAR }, |tensor| {
            // dtype DT_FLOAT, no dimensions, one packed float_val
            tensor.varint(1, 1).nested(2, |_| {}).bytes(5, &value.to_le_bytes());
        })
    }

    /// A scalar of double precision. TensorBoard sees it in single precision; its web page shows no tensors of doubles.
    /// The rest stands in a field that only this crate knows, where it is needed.
    pub fn exact_scalar(&mut self, tag: &str, stamp: Stamp, number: f64) -> io::Result<()> {
        let single = number as f32;
        if f64::from(single) == number || number.is_nan() {
            return self.scalar(tag, stamp, single);
        }
        self.event(stamp, |event| {
            event.nested(5, |summary| {
                summary.nested(1, |value| {
                    value.bytes(1, tag.as_bytes()).float(2, single).double(EXACT, number);
                });
            });
        })
    }

    /// A text, which TensorBoard shows as Markdown.
    pub fn text(&mut self, tag: &str, stamp: Stamp, text: &str) -> io::Result<()> {
        const TENSOR: u64 = 2;
        self.tensor(tag, stamp, Plugin { name: "text", data_class: TENSOR }, |tensor| {
            // dtype DT_STRING, shape [1], string_val
            tensor.varint(1, 7).nested(2, |shape| {
                shape.nested(2, |dimension| {
                    dimension.varint(1, 1);
                });
            });
            tensor.bytes(8, text.as_bytes());
        })
    }

    /// Declares that this writer goes on from `stamp.step`: what older files of the run hold from there on is void.
    pub fn session_start(&mut self, stamp: Stamp) -> io::Result<()> {
        self.event(stamp, |event| {
            event.nested(7, |session| {
                session.varint(1, 1);
            });
        })
    }

    /// Hands everything to the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    pub fn into_inner(self) -> W {
        self.out
    }

    pub fn get_mut(&mut self) -> &mut W {
        &mut self.out
    }

    fn tensor(&mut self, tag: &str, stamp: Stamp, plugin: Plugin, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        let is_new = !self.introduced.contains(tag);
        self.event(stamp, |event| {
            event.nested(5, |summary| {
                summary.nested(1, |value| {
                    value.bytes(1, tag.as_bytes()).nested(8, fill);
                    if is_new {
                        value.nested(9, |metadata| plugin.describe(metadata));
                    }
                });
            });
        })?;
        if is_new {
            self.introduced.insert(tag.into());
        }
        Ok(())
    }

    pub(crate) fn event(&mut self, stamp: Stamp, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.event.clear();
        self.event.double(1, stamp.wall_time).varint(2, stamp.step.cast_unsigned());
        fill(&mut self.event);
        self.record.clear();
        frame::append(self.event.as_bytes(), &mut self.record);
        self.out.write_all(&self.record)
    }
}

/// What `SummaryMetadata` says of a tag.
struct Plugin {
    name: &'static str,
    data_class: u64,
}

impl Plugin {
    fn describe(&self, metadata: &mut Message) {
        metadata.nested(1, |plugin| {
            plugin.bytes(1, self.name.as_bytes());
        });
        metadata.varint(4, self.data_class);
    }
}
