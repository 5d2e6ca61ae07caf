//! Typed reading of a tree. `Ok(None)` is a key that is not there, `Err` one whose value has another type; after
//! `check` found nothing there are no such values.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::de::value::{Error, StrDeserializer};
use serde::de::{DeserializeOwned, IntoDeserializer as _};

use super::job::{Gpus, SecretRef, Setting};
use super::origin::Origin;
use super::path::KeyPath;
use super::problem::Problem;
use super::quantity::{parse_duration, parse_gpus, parse_seeds, parse_size};
use super::tree::{Node, Raw, Table};
use crate::time::Span;
use crate::value::Value;

/// One table of the tree.
#[derive(Clone)]
pub(super) struct Reader<'t> {
    table: &'t Table,
    origin: &'t Origin,
    path: KeyPath,
}

impl<'t> Reader<'t> {
    /// The whole tree; anything but a table reads as an empty one.
    pub(super) fn root(tree: &'t Node) -> Self {
        static EMPTY: Table = Table::new();
        let table = tree.table().unwrap_or(&EMPTY);
        Self { table, origin: &tree.origin, path: KeyPath::default() }
    }

    pub(super) fn get<T: FromNode>(&self, key: &str) -> Result<Option<T>, Problem> {
        let Some(field) = self.table.get(key) else { return Ok(None) };
        match T::from_node(&field.node) {
            Some(value) => Ok(Some(value)),
            None => Err(self.problem(key, "cannot be read")),
        }
    }

    pub(super) fn need<T: FromNode>(&self, key: &str) -> Result<T, Problem> {
        self.get(key)?.ok_or_else(|| self.problem(key, format!("missing key `{key}`")))
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Somebody wrote it; it is no default.
    pub(super) fn is_written(&self, key: &str) -> bool {
        self.table.get(key).is_some_and(|field| field.key != Origin::Default)
    }

    /// A problem at the value of `key`, or at the table where there is no such key.
    pub(super) fn problem(&self, key: &str, message: impl Into<String>) -> Problem {
        match self.table.get(key) {
            Some(field) => Problem::new(&self.path.key(key), &field.node.origin, message),
            None => Problem::new(&self.path, self.origin, message),
        }
    }

    /// A problem at one item of the list at `key`.
    pub(super) fn item_problem(&self, key: &str, index: usize, message: impl Into<String>) -> Problem {
        match self.table.get(key).map(|field| &field.node.raw) {
            Some(Raw::List(items)) if index < items.len() => {
                Problem::new(&self.path.key(key).item(index), &items[index].origin, message)
            }
            _ => self.problem(key, message),
        }
    }

    pub(super) fn table(&self, key: &str) -> Option<Self> {
        let node = &self.table.get(key)?.node;
        Some(Self { table: node.table()?, origin: &node.origin, path: self.path.key(key) })
    }

    /// The entries of the map at `key` that are tables.
    pub(super) fn tables(&self, key: &str) -> Vec<(&'t str, Self)> {
        let Some(map) = self.table(key) else { return Vec::new() };
        map.names().into_iter().filter_map(|name| Some((name, map.table(name)?))).collect()
    }

    pub(super) fn names(&self) -> Vec<&'t str> {
        self.table.keys().map(String::as_str).collect()
    }

    /// The names in the map at `key`.
    pub(super) fn names_in(&self, key: &str) -> Vec<&'t str> {
        self.table(key).map(|map| map.names()).unwrap_or_default()
    }
}

/// What a value of the tree can be read as.
pub(super) trait FromNode: Sized {
    fn from_node(node: &Node) -> Option<Self>;
}

/// A word out of a list, as the enum that serde makes of it.
pub(super) struct Choice<T>(pub(super) T);

/// Bytes.
pub(super) struct Size(pub(super) u64);

pub(super) struct Seeds(pub(super) Vec<u64>);

impl FromNode for String {
    fn from_node(node: &Node) -> Option<Self> {
        if let Raw::Text(text) = &node.raw { Some(text.clone()) } else { None }
    }
}

impl FromNode for bool {
    fn from_node(node: &Node) -> Option<Self> {
        if let Raw::Bool(flag) = node.raw { Some(flag) } else { None }
    }
}

impl FromNode for i64 {
    fn from_node(node: &Node) -> Option<Self> {
        if let Raw::Integer(number) = node.raw { Some(number) } else { None }
    }
}

impl FromNode for u64 {
    fn from_node(node: &Node) -> Option<Self> {
        i64::from_node(node)?.try_into().ok()
    }
}

impl FromNode for u32 {
    fn from_node(node: &Node) -> Option<Self> {
        i64::from_node(node)?.try_into().ok()
    }
}

impl FromNode for f64 {
    fn from_node(node: &Node) -> Option<Self> {
        match node.raw {
            Raw::Integer(number) => Some(number as Self),
            Raw::Float(number) if number.is_finite() => Some(number),
            _ => None,
        }
    }
}

impl FromNode for Size {
    fn from_node(node: &Node) -> Option<Self> {
        parse_size(&String::from_node(node)?).ok().map(Self)
    }
}

impl FromNode for Span {
    fn from_node(node: &Node) -> Option<Self> {
        parse_duration(&String::from_node(node)?).ok()
    }
}

impl FromNode for Gpus {
    fn from_node(node: &Node) -> Option<Self> {
        parse_gpus(f64::from_node(node)?).ok()
    }
}

impl FromNode for Seeds {
    fn from_node(node: &Node) -> Option<Self> {
        match &node.raw {
            Raw::Text(text) => parse_seeds(text).ok().map(Self),
            _ => Vec::from_node(node).map(Self),
        }
    }
}

impl<T: DeserializeOwned> FromNode for Choice<T> {
    fn from_node(node: &Node) -> Option<Self> {
        let text = String::from_node(node)?;
        let word: StrDeserializer<'_, Error> = text.as_str().into_deserializer();
        T::deserialize(word).ok().map(Self)
    }
}

impl<T: FromNode> FromNode for Vec<T> {
    fn from_node(node: &Node) -> Option<Self> {
        if let Raw::List(items) = &node.raw { items.iter().map(T::from_node).collect() } else { None }
    }
}

impl<T: FromNode> FromNode for BTreeMap<String, T> {
    fn from_node(node: &Node) -> Option<Self> {
        let fields = node.table()?.iter();
        fields.map(|(name, field)| Some((name.clone(), T::from_node(&field.node)?))).collect()
    }
}

impl FromNode for SecretRef {
    fn from_node(node: &Node) -> Option<Self> {
        let (name, field) = node.table()?.iter().next()?;
        match name.as_str() {
            "env" => String::from_node(&field.node).map(Self::Env),
            "file" => String::from_node(&field.node).map(PathBuf::from).map(Self::File),
            "command" => Vec::from_node(&field.node).map(Self::Command),
            _ => None,
        }
    }
}

impl FromNode for Setting {
    fn from_node(node: &Node) -> Option<Self> {
        match &node.raw {
            Raw::Text(text) => Some(Self::Text(text.clone())),
            _ => SecretRef::from_node(node).map(Self::Secret),
        }
    }
}

impl FromNode for Value {
    fn from_node(node: &Node) -> Option<Self> {
        Some(match &node.raw {
            Raw::Text(text) => Self::Text(text.clone()),
            Raw::Integer(number) => Self::Int(*number),
            Raw::Float(number) => Self::Float(*number),
            Raw::Bool(flag) => Self::Bool(*flag),
            Raw::Date(_) => return None,
            Raw::List(_) => Self::List(Vec::from_node(node)?),
            Raw::Table(_) => Self::Table(BTreeMap::from_node(node)?),
        })
    }
}
