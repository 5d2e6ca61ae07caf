//! A tree against the shape of the file: types, unknown and missing keys, choices. Fills in defaults on the way.
//! What several keys mean together is checked in `rules`.

use super::content::{self, NO_UNIT};
use super::emit::{found, text_of};
use super::nearest::did_you_mean;
use super::origin::Origin;
use super::path::KeyPath;
use super::problem::Problem;
use super::shape::{Bond, FILE, Key, Kind, Names, Need, SECRET, Shape, TableShape, names};
use super::tree::{Field, Node, Raw, Table, parse_value};

/// Every problem of shape in the tree, which gains its defaults.
pub(super) fn check(tree: &mut Node) -> Vec<Problem> {
    let mut checker = Checker { problems: Vec::new() };
    checker.node(tree, &Shape::Table(&FILE), &KeyPath::default());
    checker.problems
}

struct Checker {
    problems: Vec<Problem>,
}

impl Checker {
    fn node(&mut self, node: &mut Node, shape: &Shape, path: &KeyPath) {
        if !shape.takes(&node.raw) {
            self.problems.push(mismatch(node, shape, path));
            return;
        }
        match (shape, &mut node.raw) {
            (Shape::Either(shapes), raw) => {
                if let Some(shape) = shapes.iter().find(|shape| shape.takes(raw)) {
                    self.node(node, shape, path);
                }
            }
            (Shape::Table(shape), Raw::Table(table)) => self.table(table, shape, &node.origin, path),
            (Shape::Secret, Raw::Table(table)) => self.table(table, &SECRET, &node.origin, path),
            (Shape::Kinds(kinds), Raw::Table(table)) => self.kinds(table, kinds, &node.origin, path),
            (Shape::Map { of, names }, Raw::Table(table)) => self.map(table, of, *names, path),
            (Shape::List { of, least }, Raw::List(items)) => {
                if items.len() < *least {
                    let message = format!("expected a list with at least {least} item");
                    self.problems.push(Problem::new(path, &node.origin, message));
                }
                self.items(items, of, path);
            }
            (Shape::Tuple { of, names }, Raw::List(items)) => {
                if items.len() == names.len() {
                    self.items(items, of, path);
                } else {
                    let given = text_of(&node.raw);
                    let message = format!("expected {}, found `{given}`", shape.expected());
                    self.problems.push(Problem::new(path, &node.origin, message));
                }
            }
            (shape, _) => content::check(node, shape, path, &mut self.problems),
        }
    }

    fn items(&mut self, items: &mut [Node], of: &Shape, path: &KeyPath) {
        for (index, item) in items.iter_mut().enumerate() {
            self.node(item, of, &path.item(index));
        }
    }

    fn map(&mut self, table: &mut Table, of: &Shape, kind: Names, path: &KeyPath) {
        let siblings: Vec<String> = table.keys().cloned().collect();
        for (name, field) in table {
            let path = path.key(name);
            if let Some(message) = content::check_name(name, kind) {
                self.problems.push(Problem::new(&path, &field.key, message));
            }
            let before = self.problems.len();
            self.node(&mut field.node, of, &path);
            // `--set jobs.trian.gpus=2` makes a new job that lacks everything else.
            if matches!(field.node.origin, Origin::Flag(_)) {
                let others = siblings.iter().map(String::as_str).filter(|other| other != name);
                let hint = did_you_mean(name, others);
                for problem in self.problems.iter_mut().skip(before) {
                    problem.hint = hint.clone().or(problem.hint.take());
                }
            }
        }
    }

    fn table(&mut self, table: &mut Table, shape: &TableShape, origin: &Origin, path: &KeyPath) {
        for (name, field) in table.iter() {
            if shape.key(name).is_none() {
                self.problems.push(unknown_key(name, field, shape, path));
            }
        }
        self.known_keys(table, shape, origin, path);
    }

    fn known_keys(&mut self, table: &mut Table, shape: &TableShape, origin: &Origin, path: &KeyPath) {
        for bond in shape.bonds {
            self.problems.extend(broken(bond, table, origin, path));
        }
        for key in shape.keys {
            if !table.contains_key(key.name) {
                self.absent(table, key, origin, path);
            }
            if let Some(field) = table.get_mut(key.name) {
                self.node(&mut field.node, &key.shape, &path.key(key.name));
            }
        }
    }

    fn absent(&mut self, table: &mut Table, key: &Key, origin: &Origin, path: &KeyPath) {
        match key.need {
            Need::Optional => {}
            Need::Required => {
                let message = format!("missing key `{}`", key.name);
                self.problems.push(Problem::new(path, origin, message).hint(key.explained()));
            }
            Need::Default(text) => {
                if let Some(node) = parse_value(text, &Origin::Default) {
                    table.insert(key.name.to_owned(), Field { key: Origin::Default, node });
                }
            }
        }
    }

    fn kinds(&mut self, table: &mut Table, kinds: &[Kind], origin: &Origin, path: &KeyPath) {
        let all = || kinds.iter().map(|kind| kind.name);
        let Some(field) = table.get("kind") else {
            let hint = format!("write `kind = \"…\"` with one of {}", names(all()));
            self.problems.push(Problem::new(path, origin, "missing key `kind`").hint(hint));
            return;
        };
        let chosen = match &field.node.raw {
            Raw::Text(name) => kinds.iter().find(|kind| kind.name == name),
            _ => None,
        };
        let Some(kind) = chosen else {
            let given = found(&field.node.raw);
            let message = format!("expected one of {}, found {given}", names(all()));
            let hint = did_you_mean(given.trim_matches('"'), all());
            self.problems.push(Problem::new(&path.key("kind"), &field.node.origin, message).hint(hint));
            return;
        };
        for (name, field) in table.iter() {
            if name != "kind" && kind.table.key(name).is_none() {
                self.problems.push(foreign_key(name, field, kind, kinds, path));
            }
        }
        self.known_keys(table, &kind.table, origin, path);
    }
}

fn mismatch(node: &Node, shape: &Shape, path: &KeyPath) -> Problem {
    let refuse = |message: String| Problem::new(path, &node.origin, message);
    let expected = shape.expected();
    let given = found(&node.raw);
    let is_bare = matches!(node.raw, Raw::Integer(_) | Raw::Float(_) | Raw::Bool(_) | Raw::Date(_));
    match shape {
        // A secret in the wrong place is not repeated on a terminal.
        Shape::Secret => refuse("a secret is not written into the file, only where it is found".to_owned())
            .hint("write `{ env = \"NAME\" }`, `{ file = \"PATH\" }` or `{ command = [\"PROGRAM\", …] }`".to_owned()),
        Shape::Size | Shape::Duration { .. } if is_bare => {
            refuse(format!("expected {expected}, found {given}: {NO_UNIT}"))
        }
        _ => refuse(format!("expected {expected}, found {given}")).hint(as_written(node, shape)),
    }
}

/// How the value that was found would have to be written.
fn as_written(node: &Node, shape: &Shape) -> Option<String> {
    match (&node.raw, shape) {
        (Raw::Integer(seed), Shape::Seeds) => Some(format!("write `[{seed}]`")),
        // The only lists of texts that must not be empty are commands.
        (Raw::Text(text), Shape::List { of: Shape::Text, least: 1 }) if !text.trim().is_empty() => {
            let words: Vec<String> = text.split_whitespace().map(|word| format!("{word:?}")).collect();
            Some(format!("write `[{}]`", words.join(", ")))
        }
        (Raw::Text(_), Shape::List { .. }) => Some(format!("write `[{}]`", found(&node.raw))),
        (Raw::Integer(_) | Raw::Float(_) | Raw::Bool(_) | Raw::Date(_), shape) => {
            let takes_text = shape.takes(&Raw::Text(String::new()));
            takes_text.then(|| format!("put it in quotes: `\"{}\"`", text_of(&node.raw)))
        }
        _ => None,
    }
}

fn unknown_key(name: &str, field: &Field, shape: &TableShape, path: &KeyPath) -> Problem {
    let near = did_you_mean(name, shape.keys.iter().map(|key| key.name));
    let hint = near.unwrap_or_else(|| format!("allowed here: {}", shape.key_names()));
    Problem::new(&path.key(name), &field.key, "unknown key").hint(hint)
}

fn foreign_key(name: &str, field: &Field, kind: &Kind, kinds: &[Kind], path: &KeyPath) -> Problem {
    let owners: Vec<&str> =
        kinds.iter().filter(|other| other.table.key(name).is_some()).map(|other| other.name).collect();
    if owners.is_empty() {
        return unknown_key(name, field, &kind.table, path);
    }
    let owners = names(owners.iter().copied());
    let message = format!("a target of kind `{}` has no such key, only of kind {owners}", kind.name);
    let hint = format!("allowed here: {}", kind.table.key_names());
    Problem::new(&path.key(name), &field.key, message).hint(hint)
}

fn broken(bond: &Bond, table: &Table, origin: &Origin, path: &KeyPath) -> Option<Problem> {
    let given = |keys: &[&'static str]| {
        let given = keys.iter().copied().filter_map(|name| Some((name, table.get(name)?)));
        given.collect::<Vec<_>>()
    };
    match bond {
        Bond::OneOf(keys) => match given(keys)[..] {
            [] => Some(Problem::new(path, origin, format!("needs one of {}", names(keys.iter().copied())))),
            [_] => None,
            [(first, _), .., (last, field)] => {
                let message = format!("excludes `{first}`, which is given too");
                Some(Problem::new(&path.key(last), &field.key, message))
            }
        },
        Bond::AnyOf(keys) => given(keys).is_empty().then(|| {
            let message = format!("needs at least one of {}", names(keys.iter().copied()));
            Problem::new(path, origin, message)
        }),
        Bond::Needs(key, other) => {
            let field = table.get(*key).filter(|_| !table.contains_key(*other))?;
            let message = format!("means nothing without `{other}`");
            Some(Problem::new(&path.key(key), &field.key, message))
        }
    }
}
