//! What a Ray cluster says about itself.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::Node;

/// Of `GET /api/version`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Version {
    pub ray_version: String,
    /// Another one after the head was started anew. Old versions do not say.
    #[serde(default)]
    pub session_name: Option<String>,
}

/// One of our jobs, or of others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobRow {
    pub id: String,
    pub status: JobStatus,
    pub message: String,
    /// In milliseconds since 1970.
    pub ended: Option<i64>,
    /// Where its program was started.
    pub node: Option<String>,
    pub metadata: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobStatus {
    Pending,
    Running,
    Succeeded,
    Failed,
    Stopped,
    Other(String),
}

impl JobStatus {
    fn of(word: &str) -> Self {
        match word {
            "PENDING" => Self::Pending,
            "RUNNING" => Self::Running,
            "SUCCEEDED" => Self::Succeeded,
            "FAILED" => Self::Failed,
            "STOPPED" => Self::Stopped,
            other => Self::Other(other.to_owned()),
        }
    }

    pub fn has_ended(&self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Stopped)
    }
}

impl JobRow {
    /// Ray gives up a job that it could not start for a quarter of an hour.
    pub fn was_given_up(&self) -> bool {
        self.status == JobStatus::Failed && self.node.is_none() && self.message.contains("failed to start within")
    }

    fn of(row: &Value) -> Option<Self> {
        let text = |name: &str| row.get(name).and_then(Value::as_str);
        let metadata = row.get("metadata").and_then(Value::as_object).into_iter().flatten();
        Some(Self {
            id: text("submission_id")?.to_owned(),
            status: JobStatus::of(text("status")?),
            message: text("message").unwrap_or_default().to_owned(),
            ended: row.get("end_time").and_then(Value::as_i64).filter(|at| *at > 0),
            node: text("driver_node_id").filter(|id| !id.is_empty()).map(str::to_owned),
            metadata: metadata.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        })
    }
}

/// Of `GET /api/jobs/`. Programs that nobody submitted have no name there, and are passed over.
pub fn parse_jobs(said: &Value) -> Option<Vec<JobRow>> {
    Some(said.as_array()?.iter().filter_map(JobRow::of).collect())
}

/// Of `GET /api/v0/nodes`: those that are alive, the head first.
pub fn parse_nodes(said: &Value) -> Option<Vec<Node>> {
    let rows = said.pointer("/data/result/result")?.as_array()?;
    let node = |row: &Value| {
        let text = |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let resources = row.get("resources_total").and_then(Value::as_object).into_iter().flatten();
        let node = Node {
            id: text("node_id"),
            ip: text("node_ip"),
            name: text("node_name"),
            is_head: row.get("is_head_node").and_then(Value::as_bool).unwrap_or(false),
            resources: resources.filter_map(|(name, amount)| Some((name.clone(), amount.as_f64()?))).collect(),
        };
        (text("state") == "ALIVE").then_some(node)
    };
    let mut nodes: Vec<Node> = rows.iter().filter_map(node).collect();
    nodes.sort_by(|a, b| (b.is_head, &a.ip, &a.id).cmp(&(a.is_head, &b.ip, &b.id)));
    Some(nodes)
}

/// Of all nodes together: used and there, by resource.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage(pub BTreeMap<String, (f64, f64)>);

/// Of `GET /api/cluster_status`; empty where it does not say.
pub fn parse_usage(said: &Value) -> Usage {
    let usage = said.pointer("/data/clusterStatus/loadMetricsReport/usage").and_then(Value::as_object);
    let pair = |(name, pair): (&String, &Value)| {
        let at = |index| pair.get(index).and_then(Value::as_f64);
        Some((name.clone(), (at(0)?, at(1)?)))
    };
    Usage(usage.into_iter().flatten().filter_map(pair).collect())
}
