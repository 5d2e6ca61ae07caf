//! MLflow's JSON. Empty lists and defaults are left out by the server, so everything may be missing.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize, Serializer};

use super::Point;

/// How a run is going.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RunStatus {
    Scheduled,
    Running,
    Finished,
    Failed,
    Killed,
    /// One we do not know.
    Other(String),
}

impl RunStatus {
    pub(super) fn as_str(&self) -> &str {
        match self {
            Self::Scheduled => "SCHEDULED",
            Self::Running => "RUNNING",
            Self::Finished => "FINISHED",
            Self::Failed => "FAILED",
            Self::Killed => "KILLED",
            Self::Other(text) => text,
        }
    }
}

impl Serialize for RunStatus {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for RunStatus {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Ok(match text.as_str() {
            "SCHEDULED" => Self::Scheduled,
            "RUNNING" => Self::Running,
            "FINISHED" => Self::Finished,
            "FAILED" => Self::Failed,
            "KILLED" => Self::Killed,
            _ => Self::Other(text),
        })
    }
}

/// `{"key": …, "value": …}`
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Pair {
    pub(super) key: String,
    #[serde(default)]
    pub(super) value: String,
}

pub(super) fn pairs<'a>(from: impl IntoIterator<Item = (&'a String, &'a String)>) -> Vec<Pair> {
    from.into_iter().map(|(key, value)| Pair { key: key.clone(), value: value.clone() }).collect()
}

fn map(pairs: Vec<Pair>) -> BTreeMap<String, String> {
    pairs.into_iter().map(|pair| (pair.key, pair.value)).collect()
}

/// JSON has no word for what is no number; MLflow takes texts for these.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Number(pub(super) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            number if number.is_nan() => serializer.serialize_str("NaN"),
            f64::INFINITY => serializer.serialize_str("Infinity"),
            f64::NEG_INFINITY => serializer.serialize_str("-Infinity"),
            number => serializer.serialize_f64(number),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Number(f64),
            Text(String),
        }
        match Either::deserialize(deserializer)? {
            Either::Number(number) => Ok(Self(number)),
            Either::Text(text) => text.parse().map(Self).map_err(serde::de::Error::custom),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Metric {
    pub(super) key: String,
    pub(super) value: Number,
    pub(super) timestamp: i64,
    #[serde(default)]
    pub(super) step: i64,
}

impl Metric {
    pub(super) fn new(key: &str, point: Point) -> Self {
        Self { key: key.to_owned(), value: Number(point.value), timestamp: point.time, step: point.step }
    }

    pub(super) fn point(&self) -> Point {
        Point { step: self.step, time: self.timestamp, value: self.value.0 }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct ExperimentAnswer {
    pub(super) experiment: ExperimentBody,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExperimentBody {
    pub(super) experiment_id: String,
    #[serde(default)]
    pub(super) lifecycle_stage: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunAnswer {
    pub(super) run: RunBody,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunsAnswer {
    #[serde(default)]
    pub(super) runs: Vec<RunBody>,
    #[serde(default)]
    pub(super) next_page_token: String,
}

#[derive(Debug, Deserialize)]
pub(super) struct RunBody {
    info: Info,
    #[serde(default)]
    data: Data,
}

#[derive(Debug, Deserialize)]
struct Info {
    run_id: String,
    #[serde(default)]
    run_name: String,
    status: RunStatus,
    #[serde(default)]
    start_time: i64,
    end_time: Option<i64>,
    #[serde(default)]
    artifact_uri: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Data {
    metrics: Vec<Metric>,
    params: Vec<Pair>,
    tags: Vec<Pair>,
}

/// A run as the server has it.
#[derive(Debug, Clone, PartialEq)]
pub struct ServerRun {
    pub run_id: String,
    pub name: String,
    pub status: RunStatus,
    pub started: i64,
    pub ended: Option<i64>,
    pub artifact_uri: String,
    pub params: BTreeMap<String, String>,
    pub tags: BTreeMap<String, String>,
    /// The newest point of each metric.
    pub newest: BTreeMap<String, Point>,
}

impl From<RunBody> for ServerRun {
    fn from(RunBody { info, data }: RunBody) -> Self {
        Self {
            run_id: info.run_id,
            name: info.run_name,
            status: info.status,
            started: info.start_time,
            ended: info.end_time,
            artifact_uri: info.artifact_uri,
            params: map(data.params),
            tags: map(data.tags),
            newest: data.metrics.into_iter().map(|metric| (metric.key.clone(), metric.point())).collect(),
        }
    }
}

#[derive(Debug, Deserialize)]
pub(super) struct HistoryAnswer {
    #[serde(default)]
    pub(super) metrics: Vec<Metric>,
    #[serde(default)]
    pub(super) next_page_token: String,
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Batch {
    pub(super) run_id: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) metrics: Vec<Metric>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) params: Vec<Pair>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<Pair>,
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive() {
        for value in [0.1, -0.0, 1e-320, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, 3.0]
            .into_iter()
            .chain((0..3000).map(|number| f64::from(number) / 3.0))
        {
            let text = serde_json::to_string(&Number(value)).unwrap();
            assert_eq!(serde_json::from_str::<Number>(&text).unwrap().0.to_bits(), value.to_bits(), "{text}");
        }
        assert_eq!(serde_json::to_string(&Number(f64::NAN)).unwrap(), "\"NaN\"");
        assert!(serde_json::from_str::<Number>("\"NaN\"").unwrap().0.is_nan());
    }

    #[test]
    fn a_status_we_do_not_know_stays_as_it_is() {
        let status: RunStatus = serde_json::from_str("\"PAUSED\"").unwrap();
        assert_eq!(status, RunStatus::Other("PAUSED".to_owned()));
    }
}
