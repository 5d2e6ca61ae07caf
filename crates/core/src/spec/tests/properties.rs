//! For any text at all: an answer, never a panic, and places that exist.

use proptest::prelude::*;

use super::example::EXAMPLE;
use crate::spec::emit::text_of;
use crate::spec::tree::{Raw, parse_value};
use crate::spec::{Layer, Origin, SpecError, json_schema, load};

fn problems_of(text: &str, sets: &[String]) -> Option<SpecError> {
    let layer = Layer { name: "f".to_owned(), text: text.to_owned() };
    load(&[layer], sets, "folder").err()
}

fn assert_places_exist(text: &str, error: &SpecError) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines: Vec<&str> = text.split('\n').collect();
    assert!(!error.problems.is_empty());
    for problem in &error.problems {
        if let Origin::File { line, column, .. } = &problem.origin {
            let length = lines.get(line - 1).map(|line| line.chars().count());
            assert!(length.is_some_and(|length| *column <= length + 1), "{problem}");
            assert!(*column >= 1);
        }
        assert!(!problem.message.ends_with('.') && !problem.message.is_empty(), "{problem}");
    }
}

/// A piece of the example in the place of another: mostly TOML, mostly wrong.
fn mangled() -> impl Strategy<Value = String> {
    let length = EXAMPLE.len();
    (0..length, 0..length, 0..length, 0_usize..40, "\\PC{0,3}").prop_map(|(from, to, at, size, noise)| {
        let cut = |at: usize| EXAMPLE.char_indices().map(|(start, _)| start).find(|start| *start >= at);
        let cut = |at: usize| cut(at).unwrap_or(EXAMPLE.len());
        let (from, to) = (cut(from.min(to)), cut(from.min(to) + size));
        let piece = &EXAMPLE[cut(at)..cut(at + size)];
        format!("{}{piece}{noise}{}", &EXAMPLE[..from], &EXAMPLE[to..])
    })
}

/// Every key of the file with a value of some type.
fn wrong_types() -> impl Strategy<Value = String> {
    let mut paths = Vec::new();
    collect(&json_schema(), "", &mut paths);
    let value = prop::sample::select(vec![
        "1",
        "-1",
        "0.5",
        "nan",
        "true",
        "'x'",
        "''",
        "[]",
        "['x']",
        "[1, 1]",
        "{}",
        "{ a = 1 }",
        "1979-05-27",
        "{ env = 'x' }",
    ]);
    (prop::sample::select(paths), value).prop_map(|(path, value)| format!("{path} = {value}"))
}

fn collect(schema: &serde_json::Value, path: &str, paths: &mut Vec<String>) {
    let dotted = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    for (key, inner) in schema["properties"].as_object().into_iter().flatten() {
        paths.push(dotted(key));
        collect(inner, &dotted(key), paths);
    }
    if schema["additionalProperties"].is_object() {
        paths.push(dotted("n"));
        collect(&schema["additionalProperties"], &dotted("n"), paths);
    }
    for inner in ["oneOf", "anyOf"].iter().filter_map(|key| schema[key].as_array()).flatten() {
        collect(inner, path, paths);
    }
}

fn any_raw() -> impl Strategy<Value = Raw> {
    let leaf = prop_oneof![
        ".*".prop_map(Raw::Text),
        any::<i64>().prop_map(Raw::Integer),
        any::<f64>().prop_map(Raw::Float),
        any::<bool>().prop_map(Raw::Bool),
    ];
    leaf.prop_recursive(3, 20, 5, |inner| {
        prop::collection::vec((".*", inner), 0..5).prop_flat_map(|pairs| {
            let node = |raw: &Raw| crate::spec::tree::Node::default(raw.clone());
            let field = |raw: &Raw| crate::spec::tree::Field { key: Origin::Default, node: node(raw) };
            let list = Raw::List(pairs.iter().map(|(_, raw)| node(raw)).collect());
            let table = Raw::Table(pairs.iter().map(|(name, raw)| (name.clone(), field(raw))).collect());
            prop_oneof![Just(list), Just(table)]
        })
    })
}

proptest! {
    #[test]
    fn any_text(text in "\\PC*|[\\x00-\\x7f\u{feff}ä\n]{0,40}") {
        if let Some(error) = problems_of(&text, &[]) {
            assert_places_exist(&text, &error);
        }
    }

    #[test]
    fn a_mangled_file(text in mangled()) {
        if let Some(error) = problems_of(&text, &[]) {
            assert_places_exist(&text, &error);
        }
    }

    #[test]
    fn any_value_for_any_key(first in wrong_types(), second in wrong_types(), set in wrong_types()) {
        let text = format!("{first}\n{second}");
        if let Some(error) = problems_of(&text, &[]) {
            assert_places_exist(&text, &error);
        }
        _ = problems_of(EXAMPLE, &[set.replacen(" = ", "=", 1)]);
    }

    #[test]
    fn values_come_back_from_their_text(raw in any_raw()) {
        let text = text_of(&raw);
        let back = parse_value(&text, &Origin::Default).map(|node| text_of(&node.raw));
        prop_assert_eq!(back, Some(text));
    }
}
