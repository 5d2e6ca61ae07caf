//! What earlier sweeps have found, for a new one to begin with: a sweep in the ledger, or a file of trials.

use std::path::Path;

use serde_json::Value as Json;
use trainyard_core::search::Fate;
use trainyard_core::space::Space;
use trainyard_core::spec::{Known, SweepSpec};
use trainyard_core::value::{Params, Value};

use crate::ledger::{Ledger, LedgerError};

#[derive(Debug, thiserror::Error)]
pub enum KnownError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("`from`: there is no sweep `{0}`, and no file of that name ending in `.csv` or `.json`")]
    Unknown(String),
    #[error("`from`: {0}")]
    Io(#[from] std::io::Error),
    #[error("`from`: {file}: {why}")]
    Format { file: String, why: String },
    #[error("`from`: none of the {found} trials of `{name}` lies in this search space")]
    Elsewhere { name: String, found: usize },
}

/// All that the names of `from` hold and that lies in the space. What is outside of it, or has no result, says nothing.
pub fn known(spec: &SweepSpec, space: &Space, ledger: &Ledger, project: &Path) -> Result<Vec<Known>, KnownError> {
    let mut all = Vec::new();
    for name in &spec.from {
        let found = match Path::new(name).extension().and_then(|ending| ending.to_str()) {
            Some("csv") => from_csv(name, &fs_err::read_to_string(project.join(name))?, &spec.metric)?,
            Some("json") => from_json(name, &fs_err::read_to_string(project.join(name))?)?,
            _ => from_ledger(name, ledger)?,
        };
        let count = found.len();
        let axes: Vec<&str> = space.axes().map(|(name, _)| name).collect();
        let searched = |known: Known| Known {
            params: known.params.into_iter().filter(|(name, _)| axes.contains(&name.as_str())).collect(),
            ..known
        };
        let fitting: Vec<Known> =
            found.into_iter().map(searched).filter(|known| space.contains(&known.params)).collect();
        if fitting.is_empty() && count > 0 {
            return Err(KnownError::Elsewhere { name: name.clone(), found: count });
        }
        all.extend(fitting);
    }
    Ok(all)
}

fn from_ledger(name: &str, ledger: &Ledger) -> Result<Vec<Known>, KnownError> {
    let row = ledger.find_sweep(name)?.ok_or_else(|| KnownError::Unknown(name.to_owned()))?;
    let trials = ledger.sweep_record(&row)?.record.trials;
    let known = trials.into_iter().filter_map(|(params, fate)| match fate {
        Some(Fate::Done { value }) => Some(Known { params, value }),
        _ => None,
    });
    Ok(known.collect())
}

/// What `yard sweep show --output json` prints, or a list of `{"params": {…}, "value": …}`.
fn from_json(file: &str, text: &str) -> Result<Vec<Known>, KnownError> {
    let wrong = |why: String| KnownError::Format { file: file.to_owned(), why };
    let json: Json = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
    let list = json.get("trials").unwrap_or(&json).as_array();
    let list = list.ok_or_else(|| wrong("expected a list of trials".to_owned()))?;
    let known = list.iter().filter_map(|trial| {
        let params = trial.get("sampled").or_else(|| trial.get("params"))?;
        let value =
            trial.get("value").or_else(|| trial.get("fate").filter(|fate| fate["is"] == "done")?.get("value"))?;
        Some(Known { params: serde_json::from_value(params.clone()).ok()?, value: value.as_f64()? })
    });
    Ok(known.collect())
}

/// A header line; the result stands under the metric's name or `value`, other columns are parameters.
fn from_csv(file: &str, text: &str, metric: &str) -> Result<Vec<Known>, KnownError> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let header = cells(lines.next().unwrap_or_default());
    let result =
        header.iter().position(|name| name == metric).or_else(|| header.iter().position(|name| name == "value"));
    let why = format!("no column `{metric}` or `value`");
    let result = result.ok_or_else(|| KnownError::Format { file: file.to_owned(), why })?;
    let known = lines.filter_map(|line| {
        let cells = cells(line);
        let value: f64 = cells.get(result)?.parse().ok()?;
        let params: Params = header
            .iter()
            .zip(&cells)
            .enumerate()
            .filter(|(column, (_, cell))| *column != result && !cell.is_empty())
            .map(|(_, (name, cell))| (name.clone(), read(cell)))
            .collect();
        Some(Known { params, value }).filter(|known| known.value.is_finite())
    });
    Ok(known.collect())
}

fn read(cell: &str) -> Value {
    match cell {
        "true" => Value::Bool(true),
        "false" => Value::Bool(false),
        _ => match (cell.parse(), cell.parse()) {
            (Ok(whole), _) => Value::Int(whole),
            (_, Ok(number)) => Value::Float(number),
            _ => Value::Text(cell.to_owned()),
        },
    }
}

/// One line of a table; quotes keep commas, and two of them are one.
fn cells(line: &str) -> Vec<String> {
    let (mut found, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(std::mem::take(&mut cell)),
            letter => cell.push(letter),
        }
    }
    found.push(cell);
    found
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn a_table_is_read_with_its_quotes() {
        let table = "trial,reward,opt,lr\n0,1.5,\"a,\"\"b\"\"\",0.1\n1,,x,0.2\n";
        let known = from_csv("t.csv", table, "reward").unwrap();
        assert_eq!(known.len(), 1, "a line without a result says nothing");
        assert_eq!(known[0].value, 1.5);
        assert_eq!(known[0].params["opt"], Value::Text("a,\"b\"".to_owned()));
        assert_eq!(known[0].params["lr"], Value::Float(0.1));
        assert!(from_csv("t.csv", "a,b\n1,2\n", "reward").is_err());
    }

    #[test]
    fn what_show_prints_can_be_read_again() {
        let text = r#"{"trials": [{"sampled": {"x": 0.5}, "fate": {"is": "done", "value": 2.0}},
                                  {"sampled": {"x": 0.1}, "fate": {"is": "failed"}}]}"#;
        let known = from_json("t.json", text).unwrap();
        assert_eq!(known, [Known { params: [("x".to_owned(), Value::Float(0.5))].into(), value: 2.0 }]);
    }
}
