//! `yard report`: a program says its numbers.

use std::io::Write;

use clap::Args;
use serde_json::{Map, Value, json};
use trainyard_agent::disk::now;

use crate::context::Context;
use crate::env;
use crate::error::{CommandError, Exit};

/// Report metrics from inside a run, as in `"$YARD" report step=300 reward=1.2`
#[derive(Debug, Args)]
#[command(
    after_help = "A program finds this command as \"$YARD\", in images too. It may as well append JSON lines such \
as {\"step\": 300, \"reward\": 1.2} to the file that $YARD_METRICS names."
)]
pub(crate) struct Report {
    /// Metrics and their values; `step` is the step
    #[arg(required = true, value_name = "NAME=VALUE", allow_hyphen_values = true)]
    values: Vec<String>,
}

impl Report {
    pub(crate) fn run(self, _context: &Context) -> Result<Exit, CommandError> {
        let path = env::metrics().ok_or_else(|| {
            CommandError::new(Exit::Usage, "this is not inside a run: YARD_METRICS is not set")
                .hint("yard sets it for every program that it starts; call `\"$YARD\" report …` there")
        })?;
        let line = line(&self.values)?;
        // One write at the end of the file, so that several processes do not tear each other's lines.
        let mut file = fs_err::OpenOptions::new().create(true).append(true).open(path)?;
        file.write_all(line.as_bytes())?;
        Ok(Exit::Done)
    }
}

fn line(values: &[String]) -> Result<String, CommandError> {
    let mut fields = Map::new();
    for text in values {
        let wrong = |why: &str| {
            CommandError::new(Exit::Usage, format!("`{text}` {why}")).hint("write it as in `step=300 reward=1.2`")
        };
        // A metric's own name may hold one.
        let (name, value) = text.rsplit_once('=').ok_or_else(|| wrong("has no `=`"))?;
        let number: f64 = value.trim().parse().map_err(|_| wrong("does not end with a number"))?;
        let value = match name {
            "" => return Err(wrong("has no name before the `=`")),
            "step" if number.fract() != 0.0 || !number.is_finite() => return Err(wrong("is no whole step")),
            "step" => json!(number as i64),
            _ if number.is_finite() => json!(number),
            // JSON has no such numbers.
            _ => json!(if number.is_nan() {
                "NaN"
            } else if number > 0.0 {
                "Infinity"
            } else {
                "-Infinity"
            }),
        };
        if fields.insert(name.to_owned(), value).is_some() {
            return Err(wrong("is there twice"));
        }
    }
    if fields.keys().all(|name| name == "step") {
        return Err(CommandError::new(Exit::Usage, "there is a step, but no metric"));
    }
    fields.entry("time").or_insert_with(|| json!(now().0 as f64 / 1000.0));
    Ok(format!("{}\n", Value::Object(fields)))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn parsed(values: &[&str]) -> Result<Map<String, Value>, String> {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let line = line(&values).map_err(|error| error.chain.join(": "))?;
        let mut fields: Map<String, Value> = serde_json::from_str(&line).unwrap();
        assert!(fields.remove("time").is_some() && line.ends_with("}\n"));
        Ok(fields)
    }

    #[test]
    fn numbers_become_a_line() {
        let fields = parsed(&["reward=1.5", "step=300", "a=b=-inf", "loss=nan"]).unwrap();
        assert_eq!(Value::Object(fields), json!({"reward": 1.5, "step": 300, "a=b": "-Infinity", "loss": "NaN"}));
    }

    #[test]
    fn what_is_no_number_is_refused() {
        let error = |values: &[&str]| parsed(values).unwrap_err();
        assert_eq!(error(&["reward"]), "`reward` has no `=`");
        assert_eq!(error(&["reward=high"]), "`reward=high` does not end with a number");
        assert_eq!(error(&["=1"]), "`=1` has no name before the `=`");
        assert_eq!(error(&["step=1.5", "a=1"]), "`step=1.5` is no whole step");
        assert_eq!(error(&["a=1", "a=2"]), "`a=2` is there twice");
        assert_eq!(error(&["step=1"]), "there is a step, but no metric");
    }
}
