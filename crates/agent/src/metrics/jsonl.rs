//! JSON objects, one a line.

use serde_json::{Map, Value};

use super::find::{Parser, is_step, step_rank};
use super::{Moment, seconds_now};

/// Numbers under these names are the time of the line, if they can be that.
const TIMES: [&str; 4] = ["time", "timestamp", "wall_time", "_timestamp"];
/// From 2001 to 2286, in seconds.
const MOMENTS: std::ops::Range<f64> = 1e9..1e10;

#[derive(Debug, Default)]
pub(super) struct Json {
    lines: i64,
}

impl Parser for Json {
    const WHAT: &'static str = "JSON lines";

    fn anew(&mut self) {
        self.lines = 0;
    }

    /// A line that is no JSON object says nothing; programs write headers and stray prints into such files.
    fn line(&mut self, line: &[u8], stream: u64, sink: &mut super::Sink<'_>) {
        let Some(fields) = object(line) else { return };
        self.lines += 1;
        let step_name = fields.keys().filter(|name| is_step(name)).min_by_key(|name| step_rank(name)).cloned();
        let step = step_name.as_ref().and_then(|name| whole(fields.get(name)?)).unwrap_or(self.lines);
        let time_of = |name: &str| fields.get(name).and_then(Value::as_f64).filter(|time| MOMENTS.contains(time));
        let time_name = TIMES.into_iter().find(|name| time_of(name).is_some());
        let time = time_name.and_then(time_of).unwrap_or_else(seconds_now);
        let moment = Moment { step, time, stream };
        for (name, value) in &fields {
            if Some(name) != step_name.as_ref() && Some(name.as_str()) != time_name {
                numbers(name, value, &mut |name, value| sink(moment, name, value));
            }
        }
    }
}

/// Names within objects are joined by `/`, but for `metrics`, which says nothing.
fn numbers(name: &str, value: &Value, sink: &mut dyn FnMut(&str, f64)) {
    match value {
        Value::Number(number) => sink(name, number.as_f64().unwrap_or(f64::NAN)),
        Value::String(text) => {
            if let Some(value) = no_number(text) {
                sink(name, value);
            }
        }
        Value::Object(fields) => {
            for (inner, value) in fields {
                let full = if name == "metrics" { inner.clone() } else { format!("{name}/{inner}") };
                numbers(&full, value, sink);
            }
        }
        Value::Null | Value::Bool(_) | Value::Array(_) => {}
    }
}

fn no_number(text: &str) -> Option<f64> {
    match text {
        "NaN" | "nan" => Some(f64::NAN),
        "Infinity" | "inf" => Some(f64::INFINITY),
        "-Infinity" | "-inf" => Some(f64::NEG_INFINITY),
        _ => None,
    }
}

fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| value.as_f64().map(|step| step as i64))
}

fn object(line: &[u8]) -> Option<Map<String, Value>> {
    if line.trim_ascii_start().first() != Some(&b'{') {
        return None;
    }
    match serde_json::from_slice(line) {
        Ok(Value::Object(fields)) => Some(fields),
        Ok(_) => None,
        Err(_) => serde_json::from_str(&quoted(std::str::from_utf8(line).ok()?)?).ok(),
    }
}

/// Python writes `NaN` and `Infinity` bare, which is no JSON. `None` if there is nothing of the kind.
fn quoted(line: &str) -> Option<String> {
    let mut out = String::new();
    let (mut rest, mut found) = (line, false);
    let mut is_text = false;
    while let Some(first) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| !is_text && rest.starts_with(word));
        let taken = match word {
            Some(word) => {
                out.extend(["\"", word, "\""]);
                found = true;
                word.len()
            }
            None => {
                let escaped = if is_text && first == '\\' { rest.chars().nth(1).map_or(0, char::len_utf8) } else { 0 };
                is_text ^= first == '"';
                let taken = first.len_utf8() + escaped;
                out.push_str(rest.get(..taken)?);
                taken
            }
        };
        rest = rest.get(taken..)?;
    }
    found.then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(lines: &[&str]) -> Vec<(String, i64, f64)> {
        let (mut json, mut points) = (Json::default(), Vec::new());
        for line in lines {
            json.line(line.as_bytes(), 0, &mut |moment, name, value| {
                points.push((name.to_owned(), moment.step, value))
            });
        }
        points
    }

    fn point(name: &str, step: i64, value: f64) -> (String, i64, f64) {
        (name.to_owned(), step, value)
    }

    #[test]
    fn numbers_are_metrics() {
        assert_eq!(points(&["header", r#"{"step":3,"a":1,"b":"x","c":true}"#]), [point("a", 3, 1.0)]);
        assert_eq!(points(&[r#"{"a":1}"#, r#"{"a":2}"#]), [point("a", 1, 1.0), point("a", 2, 2.0)]);
        assert_eq!(points(&[r#"{"time/total_timesteps":30,"a":1}"#]), [point("a", 30, 1.0)]);
    }

    #[test]
    fn objects_within_are_part_of_the_name() {
        let line = r#"{"step":1,"metrics":{"a":1},"train":{"loss":2}}"#;
        assert_eq!(points(&[line]), [point("a", 1, 1.0), point("train/loss", 1, 2.0)]);
    }

    #[test]
    fn the_time_of_a_line_is_no_metric_and_seconds_are() {
        assert_eq!(points(&[r#"{"step":1,"time":1.7e9,"a":1}"#]), [point("a", 1, 1.0)]);
        assert_eq!(points(&[r#"{"step":1,"time":12.5}"#]), [point("time", 1, 12.5)]);
    }

    #[test]
    fn what_python_writes_for_no_number() {
        let found = points(&[r#"{"step": 1, "NaN \" NaN": NaN, "b": -Infinity, "c": 2.5}"#]);
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].2.is_nan() && found[0].0 == "NaN \" NaN");
        assert_eq!(found[1..], [point("b", 1, f64::NEG_INFINITY), point("c", 1, 2.5)]);
        assert!(points(&[r#"{"step": 1, "a": NaN"#, "{]"]).is_empty());
    }
}
