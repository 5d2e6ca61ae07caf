//! `docs/file.md` is made from the same description that checks the file. `YARD_UPDATE=1 cargo test` writes it anew.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use serde_json::Value;
use trainyard_core::spec::json_schema;

const HEAD: &str = "# The file, key by key

Made from the description that `yard` checks files against (`yard schema` prints the same as a JSON schema); a test
compares them. `NAME` stands for a name you choose. Keys marked * must be there.

";

fn render(path: &str, schema: &Value, needed: bool, lines: &mut BTreeSet<(Vec<String>, String)>) {
    if let Some(text) = schema["description"].as_str() {
        let mark = if needed { " *" } else { "" };
        let default = schema.get("default").map(|value| format!(" Default: `{value}`.")).unwrap_or_default();
        let key = path.split('.').map(str::to_owned).collect();
        lines.insert((key, format!("| `{path}`{mark} | {}{default} |", text.replace('|', "\\|"))));
    }
    let required: Vec<&str> = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    for (name, below) in schema["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        render(&path, below, required.contains(&name.as_str()), lines);
    }
    if schema["additionalProperties"].is_object() {
        render(&format!("{path}.NAME"), &schema["additionalProperties"], false, lines);
    }
    for form in ["oneOf", "anyOf", "allOf"] {
        for (index, part) in schema[form].as_array().into_iter().flatten().enumerate() {
            // Forms of the same key; their own keys are what is of interest.
            if part["properties"].is_object() || index == 0 {
                let mut part = part.clone();
                part["description"] = Value::Null;
                render(path, &part, false, lines);
            }
        }
    }
}

fn reference() -> String {
    let mut lines = BTreeSet::new();
    render("", &json_schema(), false, &mut lines);
    let mut text = HEAD.to_owned();
    let mut section = String::new();
    for (key, line) in lines {
        if key[0] != section {
            section.clone_from(&key[0]);
            text.push_str(&format!("\n## `{section}`\n\n| key | meaning |\n|---|---|\n"));
        }
        text.push_str(&line);
        text.push('\n');
    }
    text
}

#[test]
fn the_reference_is_up_to_date() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/file.md");
    let made = reference();
    assert!(made.contains("`jobs.NAME.resume.checkpoint`") && made.contains("`targets.NAME.partition`"), "{made}");
    if std::env::var_os("YARD_UPDATE").is_some() {
        std::fs::write(path, &made).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == made,
        "docs/file.md is not what the schema says: run `YARD_UPDATE=1 cargo test -p trainyard-core --test reference`"
    );
}
