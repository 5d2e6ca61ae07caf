//! `--set path=value`: one value of the file, given on the command line.

use toml::de::DeTable;

use super::emit::text_of;
use super::origin::Origin;
use super::path::KeyPath;
use super::problem::{Problem, printable};
use super::tree::{Field, Node, Raw, Table, parse_value};
use crate::value::Value;

/// What gives a job this parameter, for `--set`; `None` for a null, which the file cannot say.
pub fn set_param(job: &str, name: &str, value: &Value) -> Option<String> {
    let path = KeyPath::default().key("jobs").key(job).key("params").key(name);
    Some(format!("{path}={}", text_of(&raw(value)?)))
}

fn raw(value: &Value) -> Option<Raw> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => Raw::Bool(*flag),
        Value::Int(number) => Raw::Integer(*number),
        Value::Float(number) => Raw::Float(*number),
        Value::Text(text) => Raw::Text(text.clone()),
        Value::List(items) => Raw::List(items.iter().filter_map(raw).map(Node::default).collect()),
        Value::Table(table) => {
            let field = |node| Field { key: Origin::Default, node };
            let entry = |(name, value): (&String, &Value)| Some((name.clone(), field(Node::default(raw(value)?))));
            Raw::Table(table.iter().filter_map(entry).collect())
        }
    })
}

/// Reads `jobs.train.gpus=2` as a file that holds only this. The value is TOML, or else plain text:
/// `--set jobs.train.time=24h` needs no quotes.
pub(super) fn parse(set: &str) -> Result<Node, Problem> {
    let refuse = |shown: &str, message: &str| {
        let origin = Origin::Flag(format!("--set {}", printable(shown)));
        Problem::new(&KeyPath::default(), &origin, message).hint("write `--set jobs.train.gpus=2`".to_owned())
    };
    let Some((path, value)) = split(set) else {
        return Err(refuse(set, "expected `path=value`"));
    };
    let path = path.trim();
    let steps = read_path(path)
        .ok_or_else(|| refuse(path, "expected a path of keys with dots between, such as `jobs.train.gpus`"))?;
    let origin = Origin::Flag(format!("--set {}", printable(path)));
    let leaf = read_value(value, &origin);
    Ok(steps.into_iter().rev().fold(leaf, |node, step| {
        let field = Field { key: origin.clone(), node };
        Node { raw: Raw::Table(Table::from([(step, field)])), origin: origin.clone() }
    }))
}

/// At the first `=` outside quotes.
fn split(set: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    let mut is_escaped = false;
    for (at, c) in set.char_indices() {
        match quote {
            _ if is_escaped => is_escaped = false,
            Some('"') if c == '\\' => is_escaped = true,
            Some(open) if c == open => quote = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quote = Some(c),
            None if c == '=' => return Some((&set[..at], &set[at + 1..])),
            None => {}
        }
    }
    None
}

/// Lets TOML itself read the path, so that its quoting rules are the file's.
fn read_path(path: &str) -> Option<Vec<String>> {
    if path.contains(['\n', '\r']) {
        return None;
    }
    let line = format!("{path} = 0");
    let document = DeTable::parse(&line).ok()?;
    let mut table = document.get_ref();
    let mut steps = Vec::new();
    while let Some((key, value)) = table.iter().next() {
        steps.push(key.get_ref().to_string());
        match value.get_ref().as_table() {
            Some(inner) => table = inner,
            None => return Some(steps),
        }
    }
    None
}

fn read_value(text: &str, origin: &Origin) -> Node {
    let plain = || Node { raw: Raw::Text(text.to_owned()), origin: origin.clone() };
    match parse_value(text.trim(), origin) {
        // No key takes a date, but `12:00:00` is a duration to SLURM and a time of day to TOML.
        Some(Node { raw: Raw::Date(_), .. }) | None => plain(),
        Some(node) => node,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::spec::emit::entries;

    fn read(set: &str) -> String {
        match parse(set) {
            Ok(node) => {
                let lines = entries(&node).into_iter();
                lines.map(|entry| format!("{} = {}", entry.path, entry.value)).collect()
            }
            Err(problem) => problem.to_string(),
        }
    }

    #[test]
    fn values_are_toml_or_else_text() {
        assert_eq!(read("jobs.train.gpus=2"), "jobs.train.gpus = 2");
        assert_eq!(read("a=0.25"), "a = 0.25");
        assert_eq!(read("a=true"), "a = true");
        assert_eq!(read("a=[1, 'x']"), r#"a = [1, "x"]"#);
        assert_eq!(read("a={ b = 1 }"), "a.b = 1");
        assert_eq!(read("a=24h"), r#"a = "24h""#);
        assert_eq!(read("a=12:00:00"), r#"a = "12:00:00""#);
        assert_eq!(read("a=\"2\""), r#"a = "2""#);
        assert_eq!(read("a="), r#"a = """#);
        assert_eq!(read("a=b=c"), r#"a = "b=c""#);
        assert_eq!(read("a=two words"), r#"a = "two words""#);
        assert_eq!(read("a=99999999999999999999"), r#"a = "99999999999999999999""#);
    }

    #[test]
    fn parameters_are_written_as_they_are_read() {
        let text = |text: &str| Value::Text(text.to_owned());
        let list = Value::List(vec![Value::Int(1), text("a")]);
        let table = Value::Table([("k".to_owned(), Value::Bool(true))].into());
        let written = |value: &Value| read(&set_param("train", "agent.lr", value).expect("not null"));
        assert_eq!(written(&Value::Float(1e-5)), r#"jobs.train.params."agent.lr" = 1e-5"#);
        assert_eq!(written(&Value::Float(1.0)), r#"jobs.train.params."agent.lr" = 1.0"#);
        assert_eq!(written(&text("0.1")), r#"jobs.train.params."agent.lr" = "0.1""#);
        assert_eq!(written(&list), r#"jobs.train.params."agent.lr" = [1, "a"]"#);
        assert_eq!(written(&table), r#"jobs.train.params."agent.lr".k = true"#);
        assert_eq!(set_param("train", "lr", &Value::Null), None);
    }

    #[test]
    fn paths_are_quoted_as_in_toml() {
        assert_eq!(read(r#"space."agent.lr"=1"#), r#"space."agent.lr" = 1"#);
        assert_eq!(read(r"space.'a=b'=1"), r#"space."a=b" = 1"#);
        assert_eq!(read(r#""\"=" . x = 1"#), r#""\"=".x = 1"#);
    }

    #[test]
    fn refusals() {
        insta::assert_snapshot!(
            ["", "jobs.train", "=2", "a..b=1", "a b=1", "[a]=1", "a # b=1", "a\nb=1", "\"a=1"].map(read).join("\n"),
            @r#"
        --set : expected `path=value`
        --set jobs.train: expected `path=value`
        --set : expected a path of keys with dots between, such as `jobs.train.gpus`
        --set a..b: expected a path of keys with dots between, such as `jobs.train.gpus`
        --set a b: expected a path of keys with dots between, such as `jobs.train.gpus`
        --set [a]: expected a path of keys with dots between, such as `jobs.train.gpus`
        --set a # b: expected a path of keys with dots between, such as `jobs.train.gpus`
        --set a\nb: expected a path of keys with dots between, such as `jobs.train.gpus`
        --set "a=1: expected `path=value`
        "#
        );
    }

    #[test]
    fn a_path_that_is_too_deep_is_refused() {
        assert!(parse(&format!("{}=1", ["a"; 10_000].join("."))).is_err());
    }

    #[test]
    fn the_origin_does_not_repeat_the_value() {
        let shown = parse("targets.x.token=hunter2").map(|node| format!("{:?}", node.origin));
        assert_eq!(shown.as_deref(), Ok("Flag(\"--set targets.x.token\")"));
    }

    proptest! {
        #[test]
        fn never_panics(set in ".*", near in "[a-c.'\"=\\\\ \\[{]{0,12}") {
            _ = parse(&set);
            _ = parse(&near);
        }

        #[test]
        fn any_key_can_be_quoted(key in ".*", number: i64) {
            let path = KeyPath::default().key("a").key(&key);
            prop_assert_eq!(read(&format!("{path}={number}")), format!("{path} = {number}"));
        }
    }
}
