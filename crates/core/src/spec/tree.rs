//! A TOML text as a tree whose values know where they were written. Knows TOML, and nothing of what the keys mean.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeFloat, DeInteger, DeTable, DeValue};

use super::Layer;
use super::origin::{Origin, Places};
use super::path::KeyPath;
use super::problem::Problem;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub(super) raw: Raw,
    pub(super) origin: Origin,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Raw {
    Text(String),
    Integer(i64),
    Float(f64),
    Bool(bool),
    /// No key of ours takes one; kept to be refused where it stands.
    Date(String),
    List(Vec<Node>),
    Table(Table),
}

pub(super) type Table = BTreeMap<String, Field>;

/// A key and its value, each with its place: an unknown key is shown at the key, a wrong value at the value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Field {
    pub(super) key: Origin,
    pub(super) node: Node,
}

impl Node {
    pub(super) fn default(raw: Raw) -> Self {
        Self { raw, origin: Origin::Default }
    }

    pub(super) fn table(&self) -> Option<&Table> {
        if let Raw::Table(table) = &self.raw { Some(table) } else { None }
    }
}

/// Reads one file. A text that is not TOML is one problem, at the first place where it stops being TOML.
pub(super) fn parse(layer: &Layer) -> Result<Node, Vec<Problem>> {
    // Editors show no column for a byte order mark.
    let text = layer.text.strip_prefix('\u{feff}').unwrap_or(&layer.text);
    let places = Places::new(&layer.name, text);
    let document = DeTable::parse(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        vec![Problem::new(&KeyPath::default(), &places.at(offset), error.message())]
    })?;
    let mut builder = Builder { origin_at: &|offset| places.at(offset), problems: Vec::new() };
    let raw = builder.table(document.get_ref(), &KeyPath::default());
    let node = Node { raw, origin: places.at(0) };
    if builder.problems.is_empty() { Ok(node) } else { Err(builder.problems) }
}

/// Reads one value, all of it with the same origin; `None` where the text is no TOML value.
pub(super) fn parse_value(text: &str, origin: &Origin) -> Option<Node> {
    let value = DeValue::parse(text).ok()?;
    let mut builder = Builder { origin_at: &|_| origin.clone(), problems: Vec::new() };
    let node = builder.node(&value, &KeyPath::default());
    builder.problems.is_empty().then_some(node)
}

struct Builder<'p> {
    origin_at: &'p dyn Fn(usize) -> Origin,
    problems: Vec<Problem>,
}

impl Builder<'_> {
    fn node(&mut self, value: &Spanned<DeValue<'_>>, path: &KeyPath) -> Node {
        let origin = (self.origin_at)(value.span().start);
        let raw = match value.get_ref() {
            DeValue::String(text) => Raw::Text(text.to_string()),
            DeValue::Integer(number) => self.integer(number, path, &origin),
            DeValue::Float(number) => self.float(number, path, &origin),
            DeValue::Boolean(flag) => Raw::Bool(*flag),
            DeValue::Datetime(date) => Raw::Date(date.to_string()),
            DeValue::Array(items) => {
                let items = items.iter().enumerate();
                Raw::List(items.map(|(index, item)| self.node(item, &path.item(index))).collect())
            }
            DeValue::Table(table) => self.table(table, path),
        };
        Node { raw, origin }
    }

    fn table(&mut self, table: &DeTable<'_>, path: &KeyPath) -> Raw {
        let fields = table.iter().map(|(key, value)| {
            let name = key.get_ref().to_string();
            let node = self.node(value, &path.key(&name));
            (name, Field { key: (self.origin_at)(key.span().start), node })
        });
        Raw::Table(fields.collect())
    }

    fn integer(&mut self, number: &DeInteger<'_>, path: &KeyPath, origin: &Origin) -> Raw {
        let read = i64::from_str_radix(number.as_str(), number.radix());
        Raw::Integer(read.unwrap_or_else(|_| {
            let message = format!("`{number}` does not fit into 64 bits");
            self.problems.push(Problem::new(path, origin, message));
            0
        }))
    }

    fn float(&mut self, number: &DeFloat<'_>, path: &KeyPath, origin: &Origin) -> Raw {
        Raw::Float(number.as_str().parse().unwrap_or_else(|_| {
            let message = format!("`{number}` is not a number");
            self.problems.push(Problem::new(path, origin, message));
            0.0
        }))
    }
}
