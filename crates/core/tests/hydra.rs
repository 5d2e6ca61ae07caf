//! What we write in Hydra's grammar is what the real Hydra reads. Needs a Python with `hydra-core` 1.3, named by
//! `YARD_TEST_PYTHON` (an absolute path); the project's `./test` sets it.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::process::{Command, Stdio};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::json;
use trainyard_core::plan::hydra;
use trainyard_core::value::Value;

const GENERATED: usize = 500;

/// Words that the grammar knows, and characters it treats in its own way.
#[rustfmt::skip]
const NASTY: &[&str] = &[
    "", " ", "  ", "\t", "\n", "\r\n", "a", " a", "a ", "\ta\t", "a\nb", "\na", "null", "Null", "NULL", "true",
    "True", "FALSE", "inf", "-inf", "+Inf", "nan", "NaN", "infinity", "0", "1", "-1", "+1", "01", "1_000", "1__0",
    "1.", ".5", "1e5", "1E-5", "1.5.2", "0x10", "1,2", ",", ":", "=", "a=b", "a:b", "[", "]", "[1,2]", "{", "}",
    "{a:1}", "(", ")", "f(x)", "choice(a,b)", "range(1,3)", "glob(*)", "int(3)", "${a.b}", "${oc.env:HOME}", "${",
    "$", "'", "''", "\"", "\"\"", "'a'", "\"a\"", "it's", "'\"'", "\\", "\\\\", "\\\\\\", "\\'", "\\\\'", "a\\",
    "a\\\\", "a\\'b\\\\'c\\", "\\\"", "\\n", "\\ ", "#", "~", "???", "größe 🤖", "/data/x.y/z-1", "a/b@c", "/", ".",
];

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(NASTY).prop_map(str::to_owned),
        r#"[\\'"]{0,6}"#,
        r#"[-a-z0-9 \\'"${}\[\](),:=+~.\n\t]{0,12}"#,
        "[a-zA-Z0-9_./-]{0,8}",
        "[^\0]{0,12}",
    ]
}

/// Keys of dicts, without those that the grammar has no way to write; see `refused_keys_are_not_readable`.
fn key() -> impl Strategy<Value = String> {
    r"[a-zA-Z0-9_/+.$%*@?|\\(){}\[\]:=, \t-]{1,8}".prop_filter("writable", |key| dict_of(key).is_ok())
}

fn dict_of(key: &str) -> Result<String, hydra::HydraError> {
    hydra::element(&Value::Table([(key.to_owned(), Value::Null)].into()))
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        any::<f64>().prop_map(Value::Float),
        (-1e3..1e3).prop_map(Value::Float),
        text().prop_map(Value::Text),
        text().prop_map(Value::Text),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::List),
            prop::collection::btree_map(key(), inner, 0..4).prop_map(Value::Table),
        ]
    })
}

/// As `tagged` in `hydra_check.py`.
fn tagged(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => json!(null),
        Value::Bool(flag) => json!(flag),
        Value::Int(number) => json!({ "int": number.to_string() }),
        Value::Float(number) if number.is_nan() => json!({ "float": "nan" }),
        Value::Float(number) => json!({ "float": format!("{:016x}", number.to_bits()) }),
        Value::Text(text) => json!({ "text": text }),
        Value::List(items) => items.iter().map(tagged).collect(),
        Value::Table(entries) => {
            let pair = |(key, value)| json!([{ "text": key }, tagged(value)]);
            json!({ "table": entries.iter().map(pair).collect::<Vec<_>>() })
        }
    }
}

/// The interpreter, or `None` after saying why the test is skipped.
fn python() -> Option<OsString> {
    let python = std::env::var_os("YARD_TEST_PYTHON");
    if python.is_none() {
        let reason = "`YARD_TEST_PYTHON` names no Python with hydra-core 1.3; `./test` sets it up";
        assert!(std::env::var_os("CI").is_none(), "not skipped in CI: {reason}");
        // Past the harness, which hides what a passing test prints.
        let line = format!("skipped: {reason}\n");
        std::io::stderr().write_all(line.as_bytes()).unwrap();
    }
    python
}

/// What Hydra makes of each override.
fn read_by_hydra(python: &OsStr, overrides: &[String]) -> Vec<serde_json::Value> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/hydra_check.py");
    let mut command = Command::new(python);
    command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped());
    let started = command.spawn();
    let mut child = started.unwrap_or_else(|error| panic!("cannot start {python:?}: {error}"));
    let mut stdin = child.stdin.take().unwrap();
    let lines: String = overrides.iter().map(|text| json!(text).to_string() + "\n").collect();
    // Both pipes fill up: one thread writes while this one reads.
    let writer = std::thread::spawn(move || stdin.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    writer.join().unwrap().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    let answers: Vec<_> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers.len(), overrides.len());
    answers
}

#[track_caller]
fn assert_read_back(cases: &[(&str, Value)]) {
    let Some(python) = python() else { return };
    let write = |(key, value): &(&str, Value)| hydra::assignment(key, value).unwrap();
    let overrides: Vec<_> = cases.iter().map(write).collect();
    let answers = read_by_hydra(&python, &overrides);
    for (((key, value), text), answer) in cases.iter().zip(&overrides).zip(answers) {
        assert_eq!(answer, json!({ "key": key, "value": tagged(value) }), "{text}");
    }
}

#[test]
fn nasty_values_are_read_back() {
    let text = |text: &str| Value::Text(text.to_owned());
    let mut cases = Vec::new();
    for nasty in NASTY {
        let list = Value::List(vec![text(nasty), Value::Int(1), text(nasty)]);
        let table = Value::Table([("a".to_owned(), text(nasty)), ("b".to_owned(), list.clone())].into());
        cases.extend([("key", text(nasty)), ("a.b", list), ("+a", table)]);
        if dict_of(nasty).is_ok() {
            cases.push(("key", Value::Table([((*nasty).to_owned(), text(nasty))].into())));
        }
    }
    let floats = [0.0, -0.0, 1.0, 1e-5, 0.1, 1e15, 1e16, 1e17, 5e-324, f64::MAX, f64::MIN_POSITIVE];
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY];
    cases.extend(floats.into_iter().chain(odd).map(|number| ("key", Value::Float(number))));
    cases.extend([i64::MIN, -1, 0, i64::MAX].map(|number| ("key", Value::Int(number))));
    cases.extend([Value::Null, Value::Bool(true), Value::Bool(false)].map(|value| ("key", value)));
    cases.extend([Value::List(vec![]), Value::Table([].into())].map(|value| ("key", value)));
    cases.push(("key", text(&"long 'text' \\ ".repeat(700))));
    assert_read_back(&cases);
}

#[test]
fn generated_values_are_read_back() {
    let mut runner = TestRunner::deterministic();
    let values = value();
    let mut draw = || values.new_tree(&mut runner).unwrap().current();
    let cases: Vec<_> = (0..GENERATED).map(|_| ("a.b", draw())).collect();
    assert_read_back(&cases);
}

#[test]
fn keys_are_read_back() {
    let keys = ["x", "a.b.c", "a.0.b", "+env.x", "++env.x", "~x", "hydra/launcher", "+env/a@pkg.b", "$x"];
    assert_read_back(&keys.map(|key| (key, Value::Int(1))));
    assert_read_back(&[("~a.b", Value::Null)]);
}

/// Else the refusal would be ours, not the grammar's.
#[test]
fn refused_keys_are_not_readable() {
    let Some(python) = python() else { return };
    let refused: Vec<_> = NASTY.iter().filter(|key| dict_of(key).is_err()).collect();
    assert!(refused.contains(&&"1") && refused.contains(&&""));
    for wrap in ["", "'", "\""] {
        let dict = |key: &&&str| format!("k={{{wrap}{key}{wrap}:1}}");
        let overrides: Vec<_> = refused.iter().map(dict).collect();
        for (key, answer) in refused.iter().zip(read_by_hydra(&python, &overrides)) {
            let meant = json!({ "table": [[{ "text": key }, { "int": "1" }]] });
            assert_ne!(answer.get("value"), Some(&meant), "{key:?} can be written after all");
        }
    }
}
