//! TensorBoard's event files: read while they grow, and written.
//!
//! ```
//! use trainyard_tfevents::{FileWriter, Folder, Stamp};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! let (mut writer, _path) = FileWriter::create(folder.path().join("train"))?;
//! writer.scalar("loss", Stamp::now(1), 0.5)?;
//! writer.flush()?;
//!
//! let mut logs = Folder::new(folder.path());
//! logs.poll();
//! let series = logs.run("train").and_then(|run| run.series("loss")).ok_or("no such series")?;
//! assert_eq!(series.last().map(|point| (point.step, point.value)), Some((1, 0.5)));
//!
//! writer.scalar("loss", Stamp::now(2), 0.25)?;
//! writer.flush()?;
//! let (gain, _) = logs.poll(); // reads the new record and nothing else
//! assert_eq!(gain.points, 1);
//! # Ok(())
//! # }
//! ```
//!
//! [`Folder`] follows a whole log folder, [`Run`] the files of one run, [`Reader`] a single file, event by event;
//! [`Tree`] only finds the files.
//! Every scalar point is kept, in [`Series`] of 20 to 24 bytes a point; texts, histograms, images and others are
//! listed by tag and kind, and what they hold is for those who read with [`Reader`]. [`Writer`] writes scalars, texts
//! and the mark of a restart.
//!
//! It reads local files, on one thread, without waiting: whoever wants to wait calls again. It does not understand
//! compressed files, does not sample, and does not know the restarts of files before version 2 (2015).

mod buffer;
mod checksum;
mod encode;
mod event;
mod folder;
mod frame;
mod hparams;
mod reader;
mod run;
mod series;
mod tags;
mod tensor;
mod tree;
mod wire;
mod writer;

pub use buffer::Buffer;
pub use event::{Datum, Event, Metadata, Summary, Value, Values, What};
pub use folder::Folder;
pub use hparams::{Ending, Hparam};
pub use reader::{Lost, Polled, ReadError, Reader, State};
pub use run::{EventFile, Gain, Run};
pub use series::{Block, Column, Point, Series};
pub use tags::{Kind, Overlap, Tag};
pub use tensor::Tensor;
pub use tree::Tree;
pub use wire::Malformed;
pub use writer::{CreateError, FileWriter, Stamp, Writer};
