//! Values back to TOML text, for `yard show-config` and for error messages.

use std::fmt;

use serde::Serialize;

use super::origin::Origin;
use super::path::KeyPath;
use super::tree::{Node, Raw};

/// One setting that is in force.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub path: String,
    /// As TOML text; `path = value` can be pasted into a file.
    pub value: String,
    pub origin: Origin,
}

/// Every value of the tree, tables opened up, in the order of their keys.
pub(super) fn entries(tree: &Node) -> Vec<Entry> {
    let mut found = Vec::new();
    collect(tree, &KeyPath::default(), &mut found);
    found
}

fn collect(node: &Node, path: &KeyPath, found: &mut Vec<Entry>) {
    match &node.raw {
        Raw::Table(table) if !table.is_empty() => {
            for (name, field) in table {
                collect(&field.node, &path.key(name), found);
            }
        }
        raw => found.push(Entry { path: path.to_string(), value: text_of(raw), origin: node.origin.clone() }),
    }
}

/// The value as TOML.
pub(super) fn text_of(raw: &Raw) -> String {
    let mut text = String::new();
    // Writing to a `String` cannot fail.
    _ = write_raw(raw, &mut text);
    text
}

/// What was found instead of what was expected; long texts are cut, lists and tables only named.
pub(super) fn found(raw: &Raw) -> String {
    const MOST: usize = 60;
    match raw {
        Raw::Text(text) if text.chars().count() > MOST => {
            let start: String = text.chars().take(MOST).collect();
            text_of(&Raw::Text(start + "…"))
        }
        Raw::Date(date) => format!("the date {date}"),
        Raw::List(items) if items.is_empty() => "an empty list".to_owned(),
        Raw::List(_) => "a list".to_owned(),
        Raw::Table(_) => "a table".to_owned(),
        other => text_of(other),
    }
}

fn write_raw(raw: &Raw, out: &mut impl fmt::Write) -> fmt::Result {
    match raw {
        Raw::Text(text) => write_text(text, out),
        Raw::Integer(number) => write!(out, "{number}"),
        Raw::Float(number) if number.is_nan() => out.write_str("nan"),
        // The debug form keeps `.0` or an exponent, so that it reads back as a float.
        Raw::Float(number) => write!(out, "{number:?}"),
        Raw::Bool(flag) => write!(out, "{flag}"),
        Raw::Date(date) => out.write_str(date),
        Raw::List(items) => {
            out.write_char('[')?;
            for (index, item) in items.iter().enumerate() {
                out.write_str(if index > 0 { ", " } else { "" })?;
                write_raw(&item.raw, out)?;
            }
            out.write_char(']')
        }
        Raw::Table(table) if table.is_empty() => out.write_str("{}"),
        Raw::Table(table) => {
            for (index, (name, field)) in table.iter().enumerate() {
                out.write_str(if index > 0 { ", " } else { "{ " })?;
                write_key(name, out)?;
                out.write_str(" = ")?;
                write_raw(&field.node.raw, out)?;
            }
            out.write_str(" }")
        }
    }
}

/// A key, bare where TOML allows it.
pub(super) fn write_key(name: &str, out: &mut impl fmt::Write) -> fmt::Result {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    if !name.is_empty() && name.chars().all(is_bare) { out.write_str(name) } else { write_text(name, out) }
}

fn write_text(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    out.write_char('"')?;
    for c in text.chars() {
        match c {
            '"' => out.write_str("\\\"")?,
            '\\' => out.write_str("\\\\")?,
            '\n' => out.write_str("\\n")?,
            '\t' => out.write_str("\\t")?,
            '\r' => out.write_str("\\r")?,
            c if c.is_control() => write!(out, "\\u{:04X}", u32::from(c))?,
            c => out.write_char(c)?,
        }
    }
    out.write_char('"')
}
