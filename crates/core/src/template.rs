//! Placeholders in texts: `{seed}`, `{param.lr}`. Everything else in braces stays as the user wrote it, so
//! that Hydra's `k={name:default}` and a shell's `${HOME}` need no escape. Reads texts; knows no quoting.
//!
//! `{` + name + `}` is a placeholder, a name being `[a-z_][A-Za-z0-9_.-]*`; after `param.` also `+~/@`, which
//! Hydra's keys hold. `{{` writes `{`, and the `}}` that closes it writes `}`. All other braces are literal.

use thiserror::Error;

use crate::quote;
use crate::value::{Params, Value};

/// Placeholders that every run has; `param.NAME` comes on top.
pub const KNOWN: [&str; 11] =
    ["seed", "run", "name", "job", "attempt", "checkpoint", "gpus", "nodes", "total_gpus", "tasks", "world_size"];

/// What placeholders stand for in one attempt of one run.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    pub seed: Option<u64>,
    /// The run's id.
    pub run: String,
    /// The run's readable name.
    pub name: String,
    pub job: String,
    pub attempt: u32,
    /// `None` on a first attempt; `{checkpoint}` is the empty text then.
    pub checkpoint: Option<String>,
    pub size: Size,
    /// All of the run's parameters: the job's own and those a sweep chose.
    pub params: &'a Params,
}

/// How large a run is, as texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Size {
    /// On each node.
    pub gpus: String,
    pub nodes: String,
    /// On all nodes.
    pub total_gpus: String,
    /// Processes on all nodes; `{world_size}` is the same.
    pub tasks: String,
}

impl Size {
    fn of(&self, name: &str) -> Option<&String> {
        Some(match name {
            "gpus" => &self.gpus,
            "nodes" => &self.nodes,
            "total_gpus" => &self.total_gpus,
            "tasks" | "world_size" => &self.tasks,
            _ => return None,
        })
    }

    /// A parameter's text with these placeholders replaced. Everything else stays, `${gpus}` too: parameters hold
    /// the languages of other programs.
    pub(crate) fn fill_in(&self, text: &str) -> Value {
        let whole = name_at(text).filter(|name| name.len() + 2 == text.len());
        if let Some(size) = whole.and_then(|name| self.of(name)) {
            let number = size.parse().map(Value::Int);
            return number
                .or_else(|_share| size.parse().map(Value::Float))
                .unwrap_or_else(|_| Value::Text(size.clone()));
        }
        let mut filled = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(at) = rest.find('{') {
            let (before, from) = rest.split_at(at);
            filled.push_str(before);
            let size =
                name_at(from).filter(|_| !filled.ends_with(['$', '{'])).and_then(|name| Some((name, self.of(name)?)));
            let taken = size.map_or(1, |(name, _)| name.len() + 2);
            filled.push_str(size.map_or("{", |(_, size)| size));
            rest = from.split_at(taken).1;
        }
        filled.push_str(rest);
        Value::Text(filled)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum TemplateError {
    #[error(
        "unknown placeholder `{{{name}}}`, the nearest is `{{{nearest}}}`; \
         to write the braces themselves, double them: `{{{{{name}}}}}`"
    )]
    Unknown { name: String, nearest: String },
    #[error("`{{seed}}` is used, but the run has no seed; give `--seeds 1` or write `seeds = [1]` in the job")]
    NoSeed,
    #[error(
        "`{{{name}}}` stands for {value:?}, which a shell would not read as one plain word; \
         write `env = {{ VALUE = \"{{{name}}}\" }}` and use `\"$VALUE\"` in `shell`"
    )]
    NotAWord { name: String, value: String },
}

/// Whether every placeholder in `text` is known, given the names of the parameters a run will have.
pub fn check(text: &str, known_params: &[&str]) -> Result<(), TemplateError> {
    for name in names(text) {
        let known = match name.strip_prefix("param.") {
            Some(param) => known_params.contains(&param),
            None => KNOWN.contains(&name),
        };
        if !known {
            return Err(unknown(name, known_params.iter().copied()));
        }
    }
    Ok(())
}

/// `text` with its placeholders replaced.
pub fn fill(text: &str, values: &Values<'_>) -> Result<String, TemplateError> {
    fill_each(text, |name| value_of(name, values))
}

/// As [`fill`], for a text that a shell will read. A value that would not arrive there as written, whatever
/// quotes stand around the placeholder, is refused.
pub fn fill_shell(text: &str, values: &Values<'_>) -> Result<String, TemplateError> {
    fill_each(text, |name| {
        let value = value_of(name, values)?;
        if quote::is_plain(&value) {
            return Ok(value);
        }
        Err(TemplateError::NotAWord { name: name.to_owned(), value })
    })
}

/// A file of some other language: `{param.NAME}` and `{seed}` are filled in, and all other braces stay as they are,
/// those after a `$` or another brace too, which OmegaConf and Jinja read.
pub fn fill_file(text: &str, values: &Values<'_>) -> Result<String, TemplateError> {
    let mut filled = String::with_capacity(text.len());
    for piece in file_pieces(text) {
        match piece {
            Piece::Text(literal) => filled.push_str(literal),
            Piece::Name(name) => filled.push_str(&value_of(name, values)?),
        }
    }
    Ok(filled)
}

/// The parameters that [`fill_file`] would fill in.
pub fn names_in_file(text: &str) -> Vec<&str> {
    let names = file_pieces(text).into_iter();
    names.filter_map(|piece| if let Piece::Name(name) = piece { name.strip_prefix("param.") } else { None }).collect()
}

fn file_pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut before = ' ';
    while let Some(at) = rest.find('{') {
        let (literal, from) = rest.split_at(at);
        before = literal.chars().next_back().unwrap_or(before);
        let name = name_at(from).filter(|name| *name == "seed" || name.starts_with("param."));
        match name.filter(|_| !['$', '{'].contains(&before)) {
            Some(name) => {
                pieces.extend([Piece::Text(literal), Piece::Name(name)]);
                rest = from.split_at(name.len() + 2).1;
                before = '}';
            }
            None => {
                pieces.push(Piece::Text(rest.split_at(at + 1).0));
                rest = from.split_at(1).1;
                before = '{';
            }
        }
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// As [`fill`], with these names alone.
pub fn fill_from(text: &str, values: &[(&str, String)]) -> Result<String, TemplateError> {
    fill_each(text, |name| {
        let value = values.iter().find(|(known, _)| *known == name);
        value.map(|(_, value)| value.clone()).ok_or_else(|| unknown(name, std::iter::empty()))
    })
}

/// The names of the placeholders in `text`, known or not, in order and as often as they occur.
pub fn names(text: &str) -> Vec<&str> {
    let pieces = pieces(text).into_iter();
    pieces.filter_map(|piece| if let Piece::Name(name) = piece { Some(name) } else { None }).collect()
}

/// A value as a bare text: texts without quotes, numbers in their shortest form that reads back the same
/// (a float keeps its point or exponent), lists and tables as JSON. Numbers that JSON lacks are written there as
/// Python's `json` writes and reads them: `NaN`, `Infinity`.
pub fn plain(value: &Value) -> String {
    match value {
        Value::Text(text) => text.clone(),
        Value::Float(number) if number.is_nan() => "nan".to_owned(),
        // `inf`, `0.1`, `1.0`, `1e-5`
        Value::Float(number) => format!("{number:?}"),
        other => json(other),
    }
}

fn json(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(flag) => flag.to_string(),
        Value::Int(number) => number.to_string(),
        Value::Float(number) if number.is_nan() => "NaN".to_owned(),
        Value::Float(number) => format!("{number:?}").replace("inf", "Infinity"),
        Value::Text(text) => json_text(text),
        Value::List(items) => {
            let items: Vec<_> = items.iter().map(json).collect();
            format!("[{}]", items.join(","))
        }
        Value::Table(entries) => {
            let pair = |(key, item): (&String, _)| format!("{}:{}", json_text(key), json(item));
            let pairs: Vec<_> = entries.iter().map(pair).collect();
            format!("{{{}}}", pairs.join(","))
        }
    }
}

fn json_text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn fill_each(
    text: &str,
    mut value_of: impl FnMut(&str) -> Result<String, TemplateError>,
) -> Result<String, TemplateError> {
    let mut filled = String::with_capacity(text.len());
    for piece in pieces(text) {
        match piece {
            Piece::Text(literal) => filled.push_str(literal),
            Piece::Name(name) => filled.push_str(&value_of(name)?),
        }
    }
    Ok(filled)
}

fn value_of(name: &str, values: &Values<'_>) -> Result<String, TemplateError> {
    if let Some(size) = values.size.of(name) {
        return Ok(size.clone());
    }
    Ok(match name {
        "seed" => values.seed.ok_or(TemplateError::NoSeed)?.to_string(),
        "run" => values.run.clone(),
        "name" => values.name.clone(),
        "job" => values.job.clone(),
        "attempt" => values.attempt.to_string(),
        "checkpoint" => values.checkpoint.clone().unwrap_or_default(),
        _ => {
            let param = name.strip_prefix("param.").and_then(|param| values.params.get(param));
            plain(param.ok_or_else(|| unknown(name, values.params.keys().map(String::as_str)))?)
        }
    })
}

/// `{lr}` is near `{param.lr}`: the prefix is what people forget.
fn unknown<'a>(name: &str, params: impl Iterator<Item = &'a str>) -> TemplateError {
    let likeness = |known: &str| strsim::normalized_damerau_levenshtein(name, known);
    let fixed = KNOWN.iter().map(|known| (likeness(known), (*known).to_owned()));
    let own = params.map(|param| {
        let full = format!("param.{param}");
        (likeness(&full).max(likeness(param)), full)
    });
    let nearest = fixed.chain(own).max_by(|(a, _), (b, _)| a.total_cmp(b));
    TemplateError::Unknown { name: name.to_owned(), nearest: nearest.map_or_else(String::new, |(_, known)| known) }
}

#[derive(Debug, PartialEq, Eq)]
enum Piece<'a> {
    Text(&'a str),
    Name(&'a str),
}

/// How an open brace was written, and so how it closes.
#[derive(PartialEq, Eq)]
enum Open {
    Single,
    Double,
}

fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut open = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(['{', '}']) {
        let (before, from) = rest.split_at(at);
        if let Some(name) = name_at(from) {
            pieces.extend([Piece::Text(before), Piece::Name(name)]);
            rest = from.split_at(name.len() + 2).1;
            continue;
        }
        let doubled = if from.starts_with("{{") {
            open.push(Open::Double);
            true
        } else if from.starts_with('{') {
            open.push(Open::Single);
            false
        } else if from.starts_with("}}") && open.last() == Some(&Open::Double) {
            open.pop();
            true
        } else {
            open.pop_if(|brace| *brace == Open::Single);
            false
        };
        pieces.push(Piece::Text(rest.split_at(at + 1).0));
        rest = from.split_at(if doubled { 2 } else { 1 }).1;
    }
    pieces.push(Piece::Text(rest));
    pieces
}

/// The placeholder that `from` begins with.
fn name_at(from: &str) -> Option<&str> {
    let body = from.strip_prefix('{')?;
    let in_param = body.starts_with("param.");
    let fits = |c: char| c.is_ascii_alphanumeric() || "_.-".contains(c) || (in_param && "+~/@".contains(c));
    let (name, after) = body.split_at(body.find(|c| !fits(c))?);
    let begins = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    (begins && after.starts_with('}')).then_some(name)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
