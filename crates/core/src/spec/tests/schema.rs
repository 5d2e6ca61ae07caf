//! What `yard schema` gives to editors, and the shape it comes from.

use serde_json::Value;

use crate::spec::json_schema;
use crate::spec::origin::Origin;
use crate::spec::shape::{FILE, Key, Need, Shape, TableShape};
use crate::spec::tree::parse_value;

/// Every key there is, with its path.
fn keys() -> Vec<(String, &'static Key)> {
    let mut found = Vec::new();
    collect_table(&FILE, "", &mut found);
    found
}

fn collect_table(table: &TableShape, path: &str, found: &mut Vec<(String, &'static Key)>) {
    for key in table.keys {
        let path = if path.is_empty() { key.name.to_owned() } else { format!("{path}.{}", key.name) };
        collect(&key.shape, &path, found);
        found.push((path, key));
    }
}

fn collect(shape: &Shape, path: &str, found: &mut Vec<(String, &'static Key)>) {
    match shape {
        Shape::Table(table) => collect_table(table, path, found),
        Shape::Map { of, .. } => collect(of, &format!("{path}.NAME"), found),
        Shape::Kinds(kinds) => {
            for kind in *kinds {
                collect_table(&kind.table, &format!("{path}({})", kind.name), found);
            }
        }
        Shape::List { of, .. } => collect(of, path, found),
        Shape::Either(shapes) => shapes.iter().for_each(|shape| collect(shape, path, found)),
        _ => {}
    }
}

#[test]
fn every_key_is_documented_in_one_sentence() {
    for (path, key) in keys() {
        assert!(key.doc.ends_with('.') && !key.doc.contains(". "), "{path}: {}", key.doc);
        assert!(key.doc.starts_with(|c: char| c.is_uppercase() || c == '`'), "{path}: {}", key.doc);
        assert!(key.name.chars().all(|c| c.is_ascii_lowercase() || c == '-'), "{path}");
    }
}

#[test]
fn every_default_is_toml_of_the_right_type() {
    let mut count = 0;
    for (path, key) in keys() {
        if let Need::Default(text) = key.need {
            let node = parse_value(text, &Origin::Default);
            assert!(node.is_some_and(|node| key.shape.takes(&node.raw)), "{path}: {text}");
            count += 1;
        }
    }
    assert!(count > 10);
}

#[test]
fn keys_are_unique_and_bonds_name_keys() {
    fn check(table: &TableShape) {
        use crate::spec::shape::Bond;
        let names: std::collections::BTreeSet<_> = table.keys.iter().map(|key| key.name).collect();
        assert_eq!(names.len(), table.keys.len());
        for bond in table.bonds {
            let named = match bond {
                Bond::OneOf(keys) | Bond::AnyOf(keys) => keys.to_vec(),
                Bond::Needs(key, other) => vec![*key, *other],
            };
            assert!(named.iter().all(|name| names.contains(name)), "{named:?}");
        }
    }
    check(&FILE);
    for (_, key) in keys() {
        match &key.shape {
            Shape::Table(table) | Shape::Map { of: Shape::Table(table), .. } => check(table),
            Shape::Map { of: Shape::Kinds(kinds), .. } => kinds.iter().for_each(|kind| check(&kind.table)),
            _ => {}
        }
    }
}

#[test]
fn the_schema_is_closed_and_described() {
    let schema = json_schema();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["additionalProperties"], false);
    let job = &schema["properties"]["jobs"]["additionalProperties"];
    assert_eq!(job["additionalProperties"], false);
    insta::assert_snapshot!(job["properties"]["memory"], @r#"{"description":"Memory of one run, such as `\"32GB\"`, on each of its nodes.","pattern":"^\\s*[0-9]+(\\.[0-9]{1,9})?\\s*([kKmMgGtT]([iI]?[bB]?)|[pP]?[bB])\\s*$","type":"string"}"#);
    insta::assert_snapshot!(job["properties"]["params-style"], @r#"{"default":"flags","description":"How parameters reach the program: `--lr=0.1`, `agent.lr=0.1`, as environment variables, or in `params-file`.","enum":["flags","hydra","env","file"]}"#);
    insta::assert_snapshot!(job["properties"]["cpus"], @r#"{"default":1,"description":"Processor cores of one run, on each of its nodes.","maximum":4294967295,"minimum":1,"type":"integer"}"#);
    insta::assert_snapshot!(job["properties"]["resume"]["properties"]["on"], @r#"{"default":["time-limit","preempted","node-failure"],"description":"What a run is resumed after.","items":{"enum":["time-limit","preempted","node-failure","failed"]},"minItems":1,"type":"array"}"#);
    insta::assert_snapshot!(job["oneOf"], @r#"[{"required":["command"]},{"required":["shell"]}]"#);
    insta::assert_snapshot!(schema["properties"]["image"]["dependentRequired"], @r#"{"build-args":["dockerfile"],"context":["dockerfile"],"password":["registry","username"],"username":["registry","password"]}"#);
    let targets = &schema["properties"]["targets"];
    insta::assert_snapshot!(targets["properties"]["local"]["required"], @"[]");
    let kinds = targets["additionalProperties"]["oneOf"].as_array().into_iter().flatten();
    let kinds: Vec<&Value> = kinds.map(|kind| &kind["properties"]["kind"]["const"]).collect();
    assert_eq!(kinds, ["local", "ssh", "slurm", "kubernetes", "runai", "ray"]);
}
