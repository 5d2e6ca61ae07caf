//! The shape of the whole file, described once as data. Checking, defaults, merging, `yard schema` and the help
//! in error messages all come from it; a new key is one line here and its typed reading in `decode`.

mod file;
mod groups;
mod images;
mod jobs;
mod sweeps;
mod targets;
mod words;

pub(super) use file::FILE;
pub(super) use words::names;

/// What may stand at one place of the file.
#[derive(Debug)]
pub(super) enum Shape {
    Text,
    /// Text of one line that is not empty.
    Line,
    /// A name that `ssh` understands; never something `ssh` would take for a flag.
    Host,
    Url,
    /// A path or glob inside the working folder.
    Inside,
    /// As `Inside`, and no glob.
    Output,
    /// A regular expression with at least one named group.
    Pattern,
    Bool,
    /// Only `true`: the key itself says it all.
    Yes,
    Integer {
        least: i64,
        most: i64,
    },
    Number,
    Size,
    Duration {
        least: u64,
    },
    Gpus,
    Seeds,
    /// A reference to a secret, never the secret.
    Secret,
    /// Anything a parameter can hold.
    Any,
    Choice(&'static [&'static str]),
    List {
        of: &'static Shape,
        least: usize,
    },
    /// A list of fixed length whose items have names.
    Tuple {
        of: &'static Shape,
        names: &'static [&'static str],
    },
    Map {
        of: &'static Shape,
        names: Names,
    },
    Table(&'static TableShape),
    /// A table whose other keys depend on its `kind`.
    Kinds(&'static [Kind]),
    /// The first one that takes this type of value.
    Either(&'static [Shape]),
}

/// What the keys of a map may be called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Names {
    /// Of jobs, sweeps, images and targets: fit for file names, labels and command lines.
    Plain,
    /// Of environment variables.
    Variable,
    /// Any but the empty one.
    Any,
}

#[derive(Debug)]
pub(super) struct TableShape {
    pub(super) keys: &'static [Key],
    pub(super) bonds: &'static [Bond],
}

#[derive(Debug)]
pub(super) struct Kind {
    pub(super) name: &'static str,
    pub(super) doc: &'static str,
    pub(super) table: TableShape,
}

#[derive(Debug)]
pub(super) struct Key {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    /// One sentence.
    pub(super) doc: &'static str,
    pub(super) need: Need,
}

#[derive(Debug)]
pub(super) enum Need {
    Required,
    Optional,
    /// Taken where the table is there and the key is not; TOML text.
    Default(&'static str),
}

/// What keys of one table mean to each other.
#[derive(Debug)]
pub(super) enum Bond {
    OneOf(&'static [&'static str]),
    AnyOf(&'static [&'static str]),
    /// The first key says nothing without the second.
    Needs(&'static str, &'static str),
}

const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, shape, doc, need: Need::Required }
}

const fn optional(name: &'static str, shape: Shape, doc: &'static str) -> Key {
    Key { name, shape, doc, need: Need::Optional }
}

const fn default(name: &'static str, shape: Shape, value: &'static str, doc: &'static str) -> Key {
    Key { name, shape, doc, need: Need::Default(value) }
}

const fn table(keys: &'static [Key]) -> TableShape {
    TableShape { keys, bonds: &[] }
}

const LINES: Shape = Shape::List { of: &Shape::Line, least: 0 };
const COUNT: Shape = Shape::Integer { least: 1, most: u32::MAX as i64 };

/// Where a secret is found.
pub(super) static SECRET: TableShape = TableShape {
    keys: &[
        optional("env", Shape::Line, "The environment variable that holds the secret."),
        optional("file", Shape::Line, "The file that holds the secret."),
        optional(
            "command",
            Shape::List { of: &Shape::Text, least: 1 },
            "The command that prints the secret, as a list of arguments.",
        ),
    ],
    bonds: &[Bond::OneOf(&["env", "file", "command"])],
};

impl TableShape {
    pub(super) fn key(&self, name: &str) -> Option<&'static Key> {
        self.keys.iter().find(|key| key.name == name)
    }
}

impl Shape {
    /// The shape of `name` in a table of this shape; for kinds, that of the first kind that has such a key.
    pub(super) fn child(&self, name: &str) -> Option<&'static Shape> {
        match self {
            Self::Table(table) => table.key(name).map(|key| &key.shape),
            Self::Secret => SECRET.key(name).map(|key| &key.shape),
            Self::Map { of, .. } => Some(of),
            Self::Kinds(kinds) => kinds.iter().find_map(|kind| kind.table.key(name)).map(|key| &key.shape),
            Self::Either(shapes) => shapes.iter().find_map(|shape| shape.child(name)),
            _ => None,
        }
    }

    /// The bonds between the keys of a table of this shape.
    pub(super) fn bonds(&self) -> &'static [Bond] {
        match self {
            Self::Table(table) => table.bonds,
            Self::Secret => SECRET.bonds,
            Self::Either(shapes) => shapes.iter().map(Self::bonds).find(|bonds| !bonds.is_empty()).unwrap_or_default(),
            _ => &[],
        }
    }
}
