//! Shapes in words, for error messages.

use super::{Key, Shape, TableShape};
use crate::spec::tree::Raw;

impl Shape {
    /// Fits after "expected".
    pub(in crate::spec) fn expected(&self) -> String {
        match self {
            Self::Text | Self::Pattern => "text".to_owned(),
            Self::Line => "a line of text".to_owned(),
            Self::Host => "a host name".to_owned(),
            Self::Url => "an address such as \"https://…\"".to_owned(),
            Self::Inside | Self::Output => "a path inside the working folder".to_owned(),
            Self::Bool => "`true` or `false`".to_owned(),
            Self::Yes => "`true`".to_owned(),
            Self::Integer { least, most } => integer(*least, *most),
            Self::Number => "a number".to_owned(),
            Self::Size => "a size such as \"32GB\"".to_owned(),
            Self::Duration { .. } => "a duration such as \"1h30m\"".to_owned(),
            Self::Gpus => "a number of GPUs such as `1` or `0.25`".to_owned(),
            Self::Seeds => "seeds such as `[1, 2, 3]` or \"1-3\"".to_owned(),
            Self::Secret => "a secret such as `{ env = \"NAME\" }`".to_owned(),
            Self::Any => "a value".to_owned(),
            Self::Choice([only]) => format!("\"{only}\""),
            Self::Choice(choices) => format!("one of {}", names(choices.iter().copied())),
            Self::List { .. } => "a list".to_owned(),
            Self::Tuple { names, .. } => format!("`[{}]`", names.join(", ")),
            Self::Map { .. } | Self::Table(_) | Self::Kinds(_) => "a table".to_owned(),
            Self::Either(shapes) => shapes.iter().map(Self::expected).collect::<Vec<_>>().join(" or "),
        }
    }

    /// Whether this type of value can stand here, whatever its content.
    pub(in crate::spec) fn takes(&self, raw: &Raw) -> bool {
        match self {
            Self::Any => true,
            Self::Either(shapes) => shapes.iter().any(|shape| shape.takes(raw)),
            Self::Bool | Self::Yes => matches!(raw, Raw::Bool(_)),
            Self::Integer { .. } => matches!(raw, Raw::Integer(_)),
            Self::Number | Self::Gpus => matches!(raw, Raw::Integer(_) | Raw::Float(_)),
            Self::List { .. } | Self::Tuple { .. } => matches!(raw, Raw::List(_)),
            Self::Seeds => matches!(raw, Raw::List(_) | Raw::Text(_)),
            Self::Map { .. } | Self::Table(_) | Self::Kinds(_) | Self::Secret => {
                matches!(raw, Raw::Table(_))
            }
            _ => matches!(raw, Raw::Text(_)),
        }
    }
}

impl Key {
    /// For a hint: the name and what it is for.
    pub(in crate::spec) fn explained(&self) -> String {
        let mut letters = self.doc.trim_end_matches('.').chars();
        let first = letters.next().map(|first| first.to_lowercase().to_string()).unwrap_or_default();
        format!("`{}`: {first}{}", self.name, letters.as_str())
    }
}

impl TableShape {
    /// For a hint where no name is near.
    pub(in crate::spec) fn key_names(&self) -> String {
        names(self.keys.iter().map(|key| key.name))
    }
}

fn integer(least: i64, most: i64) -> String {
    match (least, most) {
        (i64::MIN, i64::MAX) => "a whole number".to_owned(),
        // Larger than anyone means; the bound itself would only confuse.
        (least, most) if most >= i64::from(u32::MAX) => format!("a whole number of at least {least}"),
        (least, most) => format!("a whole number from {least} to {most}"),
    }
}

/// `` `a`, `b`, `c` ``
pub(in crate::spec) fn names<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    names.into_iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
