//! One value of the right type: whether its content is right too.

use std::collections::BTreeSet;

use super::emit::found;
use super::nearest::did_you_mean;
use super::path::KeyPath;
use super::problem::Problem;
use super::quantity::{DurationError, MOST_SEEDS, SizeError, parse_duration, parse_gpus, parse_seeds, parse_size};
use super::shape::{Names, Shape};
use super::tree::{Node, Raw};

pub(super) const NO_UNIT: &str = "write it with a unit";

pub(super) fn check(node: &Node, shape: &Shape, path: &KeyPath, problems: &mut Vec<Problem>) {
    let refuse = |message: String| Problem::new(path, &node.origin, message);
    let refused = match (shape, &node.raw) {
        (Shape::Integer { least, most }, Raw::Integer(number)) => {
            (!(*least..=*most).contains(number)).then(|| refuse(unexpected(shape, node)))
        }
        (Shape::Number, Raw::Float(number)) => (!number.is_finite()).then(|| refuse(unexpected(shape, node))),
        (Shape::Yes, Raw::Bool(false)) => Some(refuse(unexpected(shape, node))),
        (Shape::Gpus, raw) => gpus(raw).map(refuse),
        (Shape::Choice(choices), Raw::Text(text)) => (!choices.contains(&text.as_str()))
            .then(|| refuse(unexpected(shape, node)).hint(did_you_mean(text, choices.iter().copied()))),
        (Shape::Seeds, Raw::List(items)) => return seed_list(items, node, path, problems),
        (Shape::Any, _) => return any(node, path, problems),
        (shape, Raw::Text(text)) => check_text(text, shape).map(|reason| {
            refuse(match reason {
                Reason::Unexpected => unexpected(shape, node),
                Reason::Because(reason) => format!("{}: {reason}", unexpected(shape, node)),
                Reason::Only(message) => message,
            })
        }),
        _ => None,
    };
    problems.extend(refused);
}

fn unexpected(shape: &Shape, node: &Node) -> String {
    format!("expected {}, found {}", shape.expected(), found(&node.raw))
}

enum Reason {
    Unexpected,
    Because(String),
    /// A sentence of its own.
    Only(String),
}

fn check_text(text: &str, shape: &Shape) -> Option<Reason> {
    let is_line = !text.trim().is_empty() && !text.contains(['\n', '\r']);
    let unless = |is_right: bool| (!is_right).then_some(Reason::Unexpected);
    if text.contains('\0') {
        return Some(Reason::Because("no program can be given a NUL character".to_owned()));
    }
    match shape {
        Shape::Line => unless(is_line),
        Shape::Host => unless(is_line && !text.starts_with('-') && !text.contains(char::is_whitespace)),
        Shape::Url => {
            let rest = text.strip_prefix("https://").or(text.strip_prefix("http://"));
            unless(is_line && rest.is_some_and(|rest| !rest.is_empty()))
        }
        Shape::Size => match parse_size(text) {
            Ok(0) => Some(Reason::Because("it must be more than nothing".to_owned())),
            Ok(_) => None,
            Err(SizeError::NotASize) => Some(Reason::Unexpected),
            Err(SizeError::NoUnit(_)) => Some(Reason::Because(NO_UNIT.to_owned())),
            Err(error) => Some(Reason::Because(error.to_string())),
        },
        Shape::Duration { least } => match parse_duration(text) {
            Ok(span) if span.0 < *least => Some(Reason::Because("it must be longer than nothing".to_owned())),
            Ok(_) => None,
            Err(DurationError::NotADuration) => Some(Reason::Unexpected),
            Err(DurationError::NoUnit(_)) => Some(Reason::Because(NO_UNIT.to_owned())),
            Err(error) => Some(Reason::Because(error.to_string())),
        },
        Shape::Seeds => parse_seeds(text).err().map(|error| Reason::Only(error.to_string())),
        Shape::Inside | Shape::Output => inside(text, shape).map(|why| Reason::Because(why.to_owned())),
        Shape::Pattern => (!has_named_group(text)).then(|| {
            Reason::Only("expected a regular expression with a named group such as `(?<reward>\\S+)`".to_owned())
        }),
        _ => None,
    }
}

fn inside(text: &str, shape: &Shape) -> Option<&'static str> {
    if text.trim().is_empty() || text.contains(['\n', '\r']) {
        Some("it is no path")
    } else if text.starts_with('/') || text.starts_with('~') {
        Some("it is absolute")
    } else if text.split('/').any(|part| part == "..") {
        Some("`..` leads out of it")
    } else if text.contains('\\') {
        Some("folders are separated by `/`")
    } else if matches!(shape, Shape::Output) && text.contains(['*', '?']) {
        Some("name the folder instead of a pattern")
    } else {
        None
    }
}

/// `(?<name>` or `(?P<name>`, not behind a backslash; the expression itself is compiled where it is used.
fn has_named_group(pattern: &str) -> bool {
    let mut rest = pattern;
    while let Some(at) = rest.find(['\\', '(']) {
        let (_, here) = rest.split_at(at);
        if let Some(escaped) = here.strip_prefix('\\') {
            rest = escaped.get(escaped.chars().next().map_or(0, char::len_utf8)..).unwrap_or_default();
            continue;
        }
        let group = here.strip_prefix("(?<").or(here.strip_prefix("(?P<"));
        if let Some((name, _)) = group.and_then(|group| group.split_once('>'))
            && name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        {
            return true;
        }
        rest = here.get(1..).unwrap_or_default();
    }
    false
}

fn gpus(raw: &Raw) -> Option<String> {
    let number = match raw {
        Raw::Integer(number) => *number as f64,
        Raw::Float(number) => *number,
        _ => return None,
    };
    parse_gpus(number).err().map(|error| error.to_string())
}

fn seed_list(items: &[Node], list: &Node, path: &KeyPath, problems: &mut Vec<Problem>) {
    if items.len() > MOST_SEEDS {
        problems.push(Problem::new(path, &list.origin, format!("more than {MOST_SEEDS} seeds")));
        return;
    }
    let mut known = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let message = match item.raw {
            Raw::Integer(seed) if seed >= 0 && known.insert(seed) => continue,
            Raw::Integer(seed) if seed >= 0 => format!("seed {seed} is given twice"),
            _ => format!("expected a whole number of at least 0, found {}", found(&item.raw)),
        };
        problems.push(Problem::new(&path.item(index), &item.origin, message));
    }
}

/// A parameter's value, all the way down.
fn any(node: &Node, path: &KeyPath, problems: &mut Vec<Problem>) {
    match &node.raw {
        Raw::Date(date) => {
            let problem = Problem::new(path, &node.origin, "a parameter cannot be a date");
            problems.push(problem.hint(format!("put it in quotes: `\"{date}\"`")));
        }
        Raw::Float(number) if !number.is_finite() => {
            let problem = Problem::new(path, &node.origin, "a parameter is a finite number");
            problems.push(problem.hint(format!("put it in quotes: `\"{number}\"`")));
        }
        Raw::List(items) => {
            for (index, item) in items.iter().enumerate() {
                any(item, &path.item(index), problems);
            }
        }
        Raw::Table(table) => {
            for (name, field) in table {
                any(&field.node, &path.key(name), problems);
            }
        }
        _ => {}
    }
}

/// What is wrong with the name of a map's entry.
pub(super) fn check_name(name: &str, kind: Names) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    let is_variable = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let is_right = match kind {
        Names::Plain => {
            name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(is_plain) && name.len() <= 64
        }
        Names::Variable => {
            !name.is_empty() && !name.starts_with(|c: char| c.is_ascii_digit()) && name.chars().all(is_variable)
        }
        Names::Any => !name.is_empty(),
    };
    let rule = match kind {
        Names::Plain => {
            "a name starts with a letter or digit, goes on with letters, digits, `_`, `.` or `-`, and has at most 64 characters"
        }
        Names::Variable => "the name of a variable has letters, digits and `_`, and does not start with a digit",
        Names::Any => "a name is not empty",
    };
    (!is_right).then(|| rule.to_owned())
}
