//! Curves for other programs: a table, or event files as TensorBoard wants them.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use trainyard_core::value::Value;
use trainyard_tfevents::{Ending, Hparam, Stamp, Writer};

use super::Curves;
use crate::ledger::RunRow;

#[derive(Debug, thiserror::Error)]
#[error("cannot write {}", path.display())]
pub struct ExportError {
    pub path: PathBuf,
    pub source: io::Error,
}

/// One line for each point: run, seed, metric, step, time in seconds since 1970, value. Returns how many there were.
pub fn write_csv(out: &mut impl Write, row: &RunRow, curves: &Curves, metrics: &[&str]) -> io::Result<u64> {
    let seed = row.seed.map(|seed| seed.to_string()).unwrap_or_default();
    let (name, mut count) = (cell(&row.name), 0);
    for metric in metrics {
        let Some(series) = curves.get(metric) else { continue };
        let metric = cell(metric);
        for point in series.iter() {
            writeln!(out, "{name},{seed},{metric},{},{},{}", point.step, point.wall_time, point.value)?;
            count += 1;
        }
    }
    Ok(count)
}

fn cell(text: &str) -> String {
    // A spreadsheet would take it for a formula.
    let is_formula = text.starts_with(['=', '+', '-', '@']);
    let text = if is_formula { format!("'{text}") } else { text.to_owned() };
    let is_plain = !text.contains([',', '"', '\n', '\r']);
    if is_plain { text } else { format!("\"{}\"", text.replace('"', "\"\"")) }
}

/// One folder for each run below `to`, with the steps and times as they were. Written anew each time, whole or not at
/// all, so that a run that was still going is brought up to date. Returns the folder and how many points it holds.
pub fn export_tensorboard(
    to: &Path,
    row: &RunRow,
    curves: &Curves,
    metrics: &[&str],
) -> Result<(PathBuf, u64), ExportError> {
    let id = row.id.0.simple().to_string();
    let folder = to.join(format!("{}-{}", row.name, id.get(24..).unwrap_or_default()));
    let began = row.created.0 as f64 / 1000.0;
    let path = folder.join(format!("events.out.tfevents.{:010}.trainyard", row.created.0 / 1000));
    let beside = folder.join(format!(".part.{}", std::process::id()));
    let write = || {
        fs_err::create_dir_all(&folder)?;
        let file = BufWriter::new(File::create(&beside)?);
        let count = write_events(file, row, curves, metrics, began)?;
        fs_err::rename(&beside, &path)?;
        Ok(count)
    };
    match write() {
        Ok(count) => Ok((folder, count)),
        Err(source) => {
            // Already failing; what is left behind is hidden from readers.
            drop(std::fs::remove_file(&beside));
            Err(ExportError { path: folder, source })
        }
    }
}

fn write_events(out: impl Write, row: &RunRow, curves: &Curves, metrics: &[&str], began: f64) -> io::Result<u64> {
    let mut writer = Writer::new(out, began)?;
    let start = Stamp { step: 0, wall_time: began };
    let mut values: Vec<(String, Hparam)> =
        row.params.iter().map(|(name, value)| (name.clone(), hparam(value))).collect();
    let group = format!("{} {}", row.job, serde_json::to_string(&row.params).unwrap_or_default());
    if let Some(seed) = row.seed {
        values.push(("seed".to_owned(), Hparam::Number(seed as f64)));
    }
    writer.hparams(start, &group, &values)?;
    for (name, value) in &values {
        let text = match value {
            Hparam::Number(number) => number.to_string(),
            Hparam::Text(text) => text.clone(),
            Hparam::Bool(is) => is.to_string(),
        };
        writer.text(&format!("params/{name}"), start, &text)?;
    }
    let mut count = 0;
    for metric in metrics {
        let Some(series) = curves.get(metric) else { continue };
        for point in series.iter() {
            let stamp = Stamp { step: point.step, wall_time: point.wall_time };
            writer.exact_scalar(metric, stamp, point.value)?;
            count += 1;
        }
    }
    let ending = match (row.ended, row.state.as_str()) {
        (None, _) => Ending::Running,
        (Some(_), "succeeded") => Ending::Success,
        (Some(_), _) => Ending::Failure,
    };
    let ended = row.ended.map_or(began, |at| at.0 as f64 / 1000.0);
    writer.hparams_end(Stamp { step: 0, wall_time: ended }, ending)?;
    writer.flush()?;
    Ok(count)
}

fn hparam(value: &Value) -> Hparam {
    match value {
        Value::Bool(is) => Hparam::Bool(*is),
        Value::Int(number) => Hparam::Number(*number as f64),
        Value::Float(number) => Hparam::Number(*number),
        Value::Text(text) => Hparam::Text(text.clone()),
        other => Hparam::Text(serde_json::to_string(other).unwrap_or_default()),
    }
}
