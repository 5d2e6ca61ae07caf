//! MLflow's REST interface, as far as we need it. Each function is one question or one order, except that lists are read to
//! their end.

use serde::Deserialize;
use serde_json::json;
use trainyard_web::{Body, Client, StatusCode};

use super::wire::{Batch, ExperimentAnswer, HistoryAnswer, RunAnswer, RunsAnswer, ServerRun};
use super::{MlflowSettings, Point, RunStatus, TrackingError};

/// What a server gives at most on a page.
const RUNS_PER_PAGE: u32 = 1000;
const POINTS_PER_PAGE: u32 = 25_000;

/// A server. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Mlflow {
    client: Client,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Experiment {
    pub id: String,
    pub name: String,
}

/// What a new run is made with.
pub(super) struct NewRun<'a> {
    pub(super) experiment: &'a Experiment,
    pub(super) name: &'a str,
    pub(super) started: i64,
    pub(super) tag: (&'a str, &'a str),
}

impl Mlflow {
    /// Asks nobody yet.
    pub fn new(settings: &MlflowSettings) -> Result<Self, TrackingError> {
        Ok(Self { client: Client::new(settings.web()?)? })
    }

    pub fn address(&self) -> String {
        self.client.address().to_string()
    }

    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    /// Whether it is an MLflow that answers, and lets us in.
    pub fn version(&self) -> Result<String, TrackingError> {
        Ok(self.client.get("version").send(Body::None)?.text()?.trim().to_owned())
    }

    /// One that was deleted at the server is an error.
    pub fn experiment(&self, name: &str) -> Result<Option<Experiment>, TrackingError> {
        let asked = self.client.get(&path("experiments/get-by-name")).query("experiment_name", name);
        let found: ExperimentAnswer = match asked.json() {
            Err(error) if is_missing(&error) => return Ok(None),
            other => other?,
        };
        let (name, id) = (name.to_owned(), found.experiment.experiment_id);
        if found.experiment.lifecycle_stage == "deleted" {
            return Err(TrackingError::Deleted { name, id });
        }
        Ok(Some(Experiment { id, name }))
    }

    pub fn experiment_or_new(&self, name: &str) -> Result<Experiment, TrackingError> {
        if let Some(found) = self.experiment(name)? {
            return Ok(found);
        }
        let made =
            self.client.post(&path("experiments/create")).send_json::<serde_json::Value>(&json!({ "name": name }));
        // Whether it was we or somebody else: now it is there, or the error is worth telling.
        match (made, self.experiment(name)?) {
            (_, Some(found)) => Ok(found),
            (Err(error), None) => Err(error.into()),
            (Ok(_), None) => Err(TrackingError::NoExperiment { name: name.to_owned(), server: self.address() }),
        }
    }

    /// All that are not deleted, the oldest first.
    pub fn runs(&self, experiment: &Experiment) -> Result<Vec<ServerRun>, TrackingError> {
        self.search(experiment, None)
    }

    /// Those with this tag.
    pub(super) fn tagged(&self, experiment: &Experiment, tag: (&str, &str)) -> Result<Vec<ServerRun>, TrackingError> {
        // Quotes cannot be escaped in a filter; what has one is looked for among all.
        if tag.1.contains(['\'', '\\']) {
            let all = self.search(experiment, None)?;
            return Ok(all.into_iter().filter(|run| run.tags.get(tag.0).is_some_and(|value| value == tag.1)).collect());
        }
        self.search(experiment, Some(format!("tags.`{}` = '{}'", tag.0, tag.1)))
    }

    fn search(&self, experiment: &Experiment, filter: Option<String>) -> Result<Vec<ServerRun>, TrackingError> {
        let mut runs = Vec::new();
        let mut page = String::new();
        loop {
            let mut question = json!({
                "experiment_ids": [experiment.id], "max_results": RUNS_PER_PAGE, "run_view_type": "ACTIVE_ONLY",
                "order_by": ["attributes.start_time ASC"],
            });
            if let Some(filter) = &filter {
                question["filter"] = json!(filter);
            }
            if !page.is_empty() {
                question["page_token"] = json!(page);
            }
            let answer: RunsAnswer = self.client.post(&path("runs/search")).repeatable().send_json(&question)?;
            runs.extend(answer.runs.into_iter().map(ServerRun::from));
            if answer.next_page_token.is_empty() || answer.next_page_token == page {
                return Ok(runs);
            }
            page = answer.next_page_token;
        }
    }

    pub fn run(&self, run_id: &str) -> Result<ServerRun, TrackingError> {
        Ok(self.client.get(&path("runs/get")).query("run_id", run_id).json::<RunAnswer>()?.run.into())
    }

    /// After an error it may be there all the same.
    pub(super) fn create_run(&self, new: &NewRun<'_>) -> Result<ServerRun, TrackingError> {
        let order = json!({
            "experiment_id": new.experiment.id, "run_name": new.name, "start_time": new.started,
            "tags": [{ "key": new.tag.0, "value": new.tag.1 }],
        });
        Ok(self.client.post(&path("runs/create")).send_json::<RunAnswer>(&order)?.run.into())
    }

    pub(super) fn delete_run(&self, run_id: &str) -> Result<(), TrackingError> {
        self.order("runs/delete", &json!({ "run_id": run_id }))
    }

    pub(super) fn update_run(&self, run_id: &str, status: &RunStatus, ended: Option<i64>) -> Result<(), TrackingError> {
        let mut order = json!({ "run_id": run_id, "status": status });
        if let Some(ended) = ended {
            order["end_time"] = json!(ended);
        }
        self.order("runs/update", &order)
    }

    /// Orders that may be given twice.
    fn order(&self, what: &str, order: &serde_json::Value) -> Result<(), TrackingError> {
        self.client.post(&path(what)).repeatable().send_json::<serde_json::Value>(order)?;
        Ok(())
    }

    /// Tags and parameters may be sent twice, points may not: after an error some of them may be there.
    pub(super) fn log(&self, batch: &Batch) -> Result<(), TrackingError> {
        let request = self.client.post(&path("runs/log-batch"));
        let request = if batch.metrics.is_empty() { request.repeatable() } else { request };
        request.send_json::<serde_json::Value>(batch)?;
        Ok(())
    }

    /// Every point of a metric, in the server's order.
    pub fn history(&self, run_id: &str, metric: &str) -> Result<Vec<Point>, TrackingError> {
        let mut points = Vec::new();
        let mut page = String::new();
        loop {
            let question = self.client.get(&path("metrics/get-history")).query("run_id", run_id);
            let question = question.query("metric_key", metric).query("max_results", &POINTS_PER_PAGE.to_string());
            let question = if page.is_empty() { question } else { question.query("page_token", &page) };
            let answer: HistoryAnswer = question.json()?;
            points.extend(answer.metrics.iter().map(super::wire::Metric::point));
            if answer.next_page_token.is_empty() || answer.next_page_token == page {
                return Ok(points);
            }
            page = answer.next_page_token;
        }
    }
}

pub(super) fn path(name: &str) -> String {
    format!("api/2.0/mlflow/{name}")
}

/// MLflow's 404 with its code; any other 404 means that there is no MLflow at that address.
fn is_missing(error: &trainyard_web::Error) -> bool {
    error.status() == Some(StatusCode::NOT_FOUND) && error.code() == Some("RESOURCE_DOES_NOT_EXIST")
}

/// A file or folder among a run's artifacts.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct FileEntry {
    pub(super) path: String,
    #[serde(default)]
    pub(super) is_dir: bool,
    #[serde(default)]
    pub(super) file_size: u64,
}
