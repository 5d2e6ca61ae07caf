//! YAML as a tree whose values know their lines. Aliases are refused: a list of tasks needs none, and a few lines of them can
//! stand for gigabytes.

use saphyr_parser::{Event, Parser, ScalarStyle};

use super::{Remark, at};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) line: usize,
    pub(super) value: Value,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// `~`, `null` and nothing at all.
    Null,
    Text(String),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

/// Deeper ones are no lists of tasks.
const DEEPEST: usize = 32;

pub(super) fn parse(text: &str) -> Result<Node, Remark> {
    let mut open: Vec<(Node, Option<(String, usize)>)> = Vec::new();
    let mut root: Option<Node> = None;
    for event in Parser::new_from_str(text) {
        let (event, span) = event.map_err(|error| at(error.marker().line(), error.info()))?;
        let line = span.start.line();
        let done = match event {
            Event::Alias(_) => return Err(at(line, "aliases (`*name`) are not accepted here; write the value itself")),
            Event::Scalar(text, style, _, _) => Some(Node { line, value: scalar(&text, style) }),
            Event::SequenceStart(..) | Event::MappingStart(..) if open.len() >= DEEPEST => {
                return Err(at(line, "this is nested too deeply for a list of tasks"));
            }
            Event::SequenceStart(..) => {
                open.push((Node { line, value: Value::List(Vec::new()) }, None));
                None
            }
            Event::MappingStart(..) => {
                open.push((Node { line, value: Value::Map(Vec::new()) }, None));
                None
            }
            Event::SequenceEnd | Event::MappingEnd => open.pop().map(|(node, _)| node),
            Event::DocumentStart(_) if root.is_some() => {
                return Err(at(line, "there is a second document in the file"));
            }
            _ => None,
        };
        match (done, open.last_mut()) {
            (None, _) => {}
            (Some(node), None) => root = Some(node),
            (Some(node), Some((parent, key))) => put(parent, key, node)?,
        }
    }
    Ok(root.unwrap_or(Node { line: 1, value: Value::Null }))
}

fn put(parent: &mut Node, key: &mut Option<(String, usize)>, node: Node) -> Result<(), Remark> {
    match (&mut parent.value, key.take()) {
        (Value::List(items), _) => items.push(node),
        (Value::Map(fields), Some((name, line))) => {
            if fields.iter().any(|(known, _)| *known == name) {
                return Err(at(line, format!("`{name}` stands here twice")));
            }
            // The line of the key: a value that is missing has none of its own.
            fields.push((name, Node { line, ..node }));
        }
        (_, _) => match node.value {
            Value::Text(name) => *key = Some((name, node.line)),
            _ => return Err(at(node.line, "a key is to be plain text")),
        },
    }
    Ok(())
}

fn scalar(text: &str, style: ScalarStyle) -> Value {
    let is_null = style == ScalarStyle::Plain && matches!(text, "" | "~" | "null" | "Null" | "NULL");
    if is_null { Value::Null } else { Value::Text(text.to_owned()) }
}

impl Node {
    pub(super) fn text(&self) -> Option<&str> {
        if let Value::Text(text) = &self.value { Some(text) } else { None }
    }

    pub(super) fn fields(&self) -> &[(String, Self)] {
        if let Value::Map(fields) = &self.value { fields } else { &[] }
    }

    /// `None` also where nothing stands behind the key.
    pub(super) fn get(&self, key: &str) -> Option<&Self> {
        let field = self.fields().iter().find(|(name, node)| name == key && node.value != Value::Null);
        field.map(|(_, node)| node)
    }
}
