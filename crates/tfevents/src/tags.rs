//! A run's tags, each known by a small number, with the points of those that are scalars.

use std::collections::HashMap;
use std::sync::Arc;

use crate::event::{Datum, Metadata, Summary, Value};
use crate::series::{Point, Series};
use crate::wire::Malformed;

/// What a tag holds, named by the plugin of TensorBoard that shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    Scalar,
    Text,
    Histogram,
    Image,
    Audio,
    /// Hyperparameters.
    Hparams,
    /// A tensor of which no one said what it is for.
    Tensor,
    /// Of another plugin.
    Other(Box<str>),
}

/// One tag of a run. Only scalars keep their values.
#[derive(Debug)]
pub struct Tag {
    name: Arc<str>,
    kind: Kind,
    count: u64,
    last: (i64, f64),
    series: Series,
}

impl Tag {
    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn kind(&self) -> &Kind {
        &self.kind
    }

    /// How many values were seen, those included that a restart made void.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The step and wall time of the newest value.
    pub fn last_seen(&self) -> (i64, f64) {
        self.last
    }

    /// The points, if it is a scalar.
    pub fn series(&self) -> &Series {
        &self.series
    }
}

/// What to do with points that a restarted training writes again. TensorBoard itself has two answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Overlap {
    /// Keep all of them, in the order they were written.
    Keep,
    /// As `EventAccumulator`: a writer that declares a start at a step (`purge_step` in torch and tensorboardX) voids
    /// every point of the run from that step on. Unlike it, we void scalars written as tensors too.
    #[default]
    Declared,
    /// As the data server behind TensorBoard's web page: each point voids those of its tag that stand before it with
    /// the same or a later step, and declarations do not count. Steps then always rise; a tag that is logged several
    /// times at one step keeps the last.
    Newest,
}

#[derive(Debug, Default)]
pub(crate) struct Tags {
    list: Vec<Tag>,
    index: HashMap<Arc<str>, usize>,
    /// Which tag came after each one when it was last seen: trainings log their tags in the same order again and again.
    follower: Vec<usize>,
    latest: usize,
}

impl Tags {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Tag> {
        self.list.iter()
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Tag> {
        self.list.get(*self.index.get(name)?)
    }

    /// Takes in a summary's values. Those before a malformed one are kept. Returns how many points came.
    #[inline]
    pub(crate) fn take(
        &mut self,
        (step, wall_time): (i64, f64),
        summary: Summary<'_>,
        overlap: Overlap,
    ) -> Result<u64, Malformed> {
        let mut points = 0;
        for value in summary.values() {
            let value = value?;
            let tag = self.find(&value)?;
            tag.count += 1;
            tag.last = (step, wall_time);
            let number = match value.datum {
                Datum::Simple(_) => value.simple(),
                Datum::Tensor(tensor) if tag.is_scalar(&value)? => tensor.number()?,
                _ => None,
            };
            if let Some(value) = number {
                if overlap == Overlap::Newest {
                    tag.series.drop_back_to(step);
                }
                tag.series.push(Point { step, wall_time, value });
                points += 1;
            }
        }
        Ok(points)
    }

    pub(crate) fn drop_from(&mut self, step: i64) {
        self.list.iter_mut().for_each(|tag| tag.series.drop_from(step));
    }

    #[inline]
    fn find(&mut self, value: &Value<'_>) -> Result<&mut Tag, Malformed> {
        let guess = self.follower.get(self.latest).copied().unwrap_or_default();
        let is_hit = self.list.get(guess).is_some_and(|tag| tag.name.as_bytes() == value.tag);
        let at = if is_hit { guess } else { self.look_up(value)? };
        self.latest = at;
        self.list.get_mut(at).ok_or(Malformed)
    }

    fn look_up(&mut self, value: &Value<'_>) -> Result<usize, Malformed> {
        let name = std::str::from_utf8(value.tag).map_err(|_| Malformed)?;
        let at = match self.index.get(name) {
            Some(at) => *at,
            None => self.add(name, Kind::of(value)?),
        };
        if let Some(follower) = self.follower.get_mut(self.latest) {
            *follower = at;
        }
        Ok(at)
    }

    fn add(&mut self, name: &str, kind: Kind) -> usize {
        let at = self.list.len();
        let name: Arc<str> = name.into();
        self.index.insert(name.clone(), at);
        self.list.push(Tag { name, kind, count: 0, last: (0, 0.0), series: Series::default() });
        self.follower.push(0);
        at
    }
}

impl Tag {
    /// Whether a tensor of this tag is a scalar. Metadata count when they first come, even if that is late.
    fn is_scalar(&mut self, value: &Value<'_>) -> Result<bool, Malformed> {
        if self.kind == Kind::Tensor
            && let Some(metadata) = value.metadata()?
        {
            self.kind = Kind::described(metadata);
        }
        Ok(self.kind == Kind::Scalar)
    }
}

impl Kind {
    fn of(value: &Value<'_>) -> Result<Self, Malformed> {
        Ok(match (value.datum, value.metadata()?) {
            (Datum::Simple(_), _) => Self::Scalar,
            (Datum::Image(_), _) => Self::Image,
            (Datum::Histogram(_), _) => Self::Histogram,
            (Datum::Audio(_), _) => Self::Audio,
            (_, Some(metadata)) => Self::described(metadata),
            (Datum::Tensor(_), None) => Self::Tensor,
            (Datum::Nothing, None) => Self::Other(Box::default()),
        })
    }

    fn described(metadata: Metadata<'_>) -> Self {
        match metadata.plugin {
            b"scalars" => Self::Scalar,
            _ if metadata.data_class == 1 => Self::Scalar,
            b"text" => Self::Text,
            b"histograms" => Self::Histogram,
            b"images" => Self::Image,
            b"audio" => Self::Audio,
            b"hparams" => Self::Hparams,
            b"" => Self::Tensor,
            other => Self::Other(String::from_utf8_lossy(other).into()),
        }
    }
}
