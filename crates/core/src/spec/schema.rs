//! The shape of the file as a JSON schema, so that editors complete and check it while one types.

use serde_json::{Map, Value, json};

use super::origin::Origin;
use super::quantity::{DURATION_PATTERN, SEEDS_PATTERN, SIZE_PATTERN};
use super::read::FromNode as _;
use super::shape::{Bond, FILE, Key, Kind, Names, Need, SECRET, Shape, TableShape};
use super::target::TargetSpec;
use super::tree::parse_value;

/// Draft 2020-12. Looser than [`super::load`], which also sees contradictions; stricter only towards a file that leaves
/// required keys to another layer.
pub fn json_schema() -> Value {
    let mut schema = table(&FILE);
    if let Value::Object(members) = &mut schema {
        members.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        members.insert("title".into(), "trainyard.toml".into());
    }
    schema
}

fn shape(shape: &Shape) -> Value {
    match shape {
        Shape::Text | Shape::Pattern => json!({ "type": "string" }),
        Shape::Line => json!({ "type": "string", "pattern": r"^[^\n\r]*[^\s][^\n\r]*$" }),
        Shape::Host => json!({ "type": "string", "pattern": r"^[^-\s]\S*$" }),
        Shape::Url => json!({ "type": "string", "pattern": r"^https?://." }),
        Shape::Inside | Shape::Output => json!({ "type": "string", "pattern": r"^[^/~]" }),
        Shape::Bool => json!({ "type": "boolean" }),
        Shape::Yes => json!({ "const": true }),
        Shape::Integer { least, most } => integer(*least, *most),
        Shape::Number => json!({ "type": "number" }),
        Shape::Size => json!({ "type": "string", "pattern": SIZE_PATTERN }),
        Shape::Duration { .. } => json!({ "type": "string", "pattern": DURATION_PATTERN }),
        Shape::Gpus => json!({ "type": "number", "minimum": 0 }),
        Shape::Seeds => json!({ "anyOf": [
            { "type": "array", "items": { "type": "integer", "minimum": 0 }, "uniqueItems": true },
            { "type": "string", "pattern": SEEDS_PATTERN },
        ] }),
        Shape::Secret => table(&SECRET),
        Shape::Any => json!(true),
        Shape::Choice(choices) => json!({ "enum": choices }),
        Shape::List { of, least } => {
            json!({ "type": "array", "items": self::shape(of), "minItems": least })
        }
        Shape::Tuple { of, names } => {
            let count = names.len();
            json!({ "type": "array", "items": self::shape(of), "minItems": count, "maxItems": count })
        }
        Shape::Map { of, names } => map(of, *names),
        Shape::Table(shape) => table(shape),
        Shape::Kinds(kinds) => json!({ "oneOf": kinds.iter().map(kind).collect::<Vec<_>>() }),
        Shape::Either(shapes) => {
            json!({ "anyOf": shapes.iter().map(self::shape).collect::<Vec<_>>() })
        }
    }
}

fn integer(least: i64, most: i64) -> Value {
    let mut schema = json!({ "type": "integer" });
    // Editors compute in floats, which cannot tell the ends of 64 bits from their neighbours.
    if least > i64::MIN {
        schema["minimum"] = least.into();
    }
    if most < i64::MAX {
        schema["maximum"] = most.into();
    }
    schema
}

fn map(of: &Shape, names: Names) -> Value {
    let pattern = match names {
        Names::Plain => r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$",
        Names::Variable => r"^[A-Za-z_][A-Za-z0-9_]*$",
        Names::Any => r"^[\s\S]+$",
    };
    let mut schema = json!({
        "type": "object",
        "propertyNames": { "pattern": pattern },
        "additionalProperties": shape(of),
    });
    if let Shape::Kinds(kinds) = of {
        schema["properties"] = always_there(kinds);
    }
    schema
}

/// The target `local` exists without being written, so its `kind` need not be written either.
fn always_there(kinds: &[Kind]) -> Value {
    let local = kinds.iter().find(|kind| kind.name == TargetSpec::LOCAL).map(|local| {
        let mut schema = kind(local);
        schema["required"] = json!([]);
        schema
    });
    json!({ TargetSpec::LOCAL: local })
}

fn kind(kind: &Kind) -> Value {
    let mut schema = table(&kind.table);
    schema["description"] = kind.doc.into();
    schema["properties"]["kind"] = json!({ "const": kind.name });
    if let Value::Array(required) = &mut schema["required"] {
        required.insert(0, "kind".into());
    }
    schema
}

fn table(shape: &TableShape) -> Value {
    let required: Vec<&str> =
        shape.keys.iter().filter(|key| matches!(key.need, Need::Required)).map(|key| key.name).collect();
    let properties: Map<String, Value> = shape.keys.iter().map(|key| (key.name.to_owned(), property(key))).collect();
    let mut schema = json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    });
    for bond in shape.bonds {
        add_bond(&mut schema, bond);
    }
    schema
}

fn property(key: &Key) -> Value {
    let mut schema = match shape(&key.shape) {
        Value::Object(members) => members,
        // `true`, a schema that allows everything.
        _ => Map::new(),
    };
    schema.insert("description".into(), key.doc.into());
    if let Need::Default(text) = key.need
        && let Some(node) = parse_value(text, &Origin::Default)
        && let Some(value) = crate::value::Value::from_node(&node)
    {
        schema.insert("default".into(), json!(value));
    }
    Value::Object(schema)
}

fn add_bond(schema: &mut Value, bond: &Bond) {
    let each = |keys: &[&str]| keys.iter().map(|key| json!({ "required": [key] })).collect::<Value>();
    match bond {
        Bond::OneOf(keys) => schema["oneOf"] = each(keys),
        Bond::AnyOf(keys) => schema["anyOf"] = each(keys),
        Bond::Needs(key, other) => {
            let needs = &mut schema["dependentRequired"][key];
            match needs {
                Value::Array(others) => others.push((*other).into()),
                _ => *needs = json!([other]),
            }
        }
    }
}
