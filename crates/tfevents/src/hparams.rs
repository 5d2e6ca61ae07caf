//! Hyperparameters, as TensorBoard's HParams tab wants them. Numbers of fields are those of its `plugin_data.proto`.

use std::io::{self, Write};

use crate::encode::Message;
use crate::writer::{Stamp, Writer};

/// The value of a hyperparameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Hparam {
    Number(f64),
    Text(String),
    Bool(bool),
}

/// How a run ended, or that it did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Success = 1,
    Failure = 2,
    Running = 3,
}

impl<W: Write> Writer<W> {
    /// A run began with these. Runs of the same group are shown as repeats of one configuration.
    pub fn hparams(&mut self, stamp: Stamp, group: &str, values: &[(String, Hparam)]) -> io::Result<()> {
        self.plugin_data("_hparams_/session_start_info", stamp, |data| {
            data.nested(3, |start| {
                for (name, value) in values {
                    start.nested(1, |entry| {
                        entry.bytes(1, name.as_bytes()).nested(2, |message| value.encode(message));
                    });
                }
                start.bytes(4, group.as_bytes()).double(5, stamp.wall_time);
            });
        })
    }

    /// The run that began with [`Writer::hparams`] ended.
    pub fn hparams_end(&mut self, stamp: Stamp, ending: Ending) -> io::Result<()> {
        self.plugin_data("_hparams_/session_end_info", stamp, |data| {
            data.nested(4, |end| {
                end.varint(1, ending as u64).double(2, stamp.wall_time);
            });
        })
    }

    fn plugin_data(&mut self, tag: &str, stamp: Stamp, fill: impl FnOnce(&mut Message)) -> io::Result<()> {
        self.event(stamp, |event| {
            event.nested(5, |summary| {
                summary.nested(1, |value| {
                    value.bytes(1, tag.as_bytes()).nested(9, |metadata| {
                        metadata.nested(1, |plugin| {
                            plugin.bytes(1, b"hparams").nested(2, fill);
                        });
                    });
                });
            });
        })
    }
}

impl Hparam {
    fn encode(&self, message: &mut Message) {
        match self {
            Self::Number(number) => message.double(2, *number),
            Self::Text(text) => message.bytes(3, text.as_bytes()),
            Self::Bool(is) => message.varint(4, u64::from(*is)),
        };
    }
}
