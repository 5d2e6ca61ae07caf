//! Every rule of the placeholders, with texts that break it if it bends.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

fn params() -> Params {
    BTreeMap::from([
        ("lr".to_owned(), Value::Float(1e-5)),
        ("+env.a/b@pkg".to_owned(), Value::Text("x y".to_owned())),
        ("sizes".to_owned(), Value::List(vec![Value::Int(1), Value::Text("\"".to_owned())])),
    ])
}

fn values(params: &Params) -> Values<'_> {
    Values {
        seed: Some(7),
        run: "0199".to_owned(),
        name: "brisk-otter".to_owned(),
        job: "train".to_owned(),
        attempt: 2,
        checkpoint: Some("logs/model_9.pt".to_owned()),
        size: Size {
            gpus: "0.25".to_owned(),
            nodes: "1".to_owned(),
            total_gpus: "0.25".to_owned(),
            tasks: "1".to_owned(),
        },
        params,
    }
}

fn filled(text: &str) -> String {
    fill(text, &values(&params())).unwrap()
}

#[test]
fn every_placeholder_has_its_value() {
    assert_eq!(
        filled("{seed} {run} {name} {job} {attempt} {checkpoint} {gpus} {param.lr}"),
        "7 0199 brisk-otter train 2 logs/model_9.pt 0.25 1e-5"
    );
    assert_eq!(filled("{seed}{seed}"), "77");
    assert_eq!(filled("{param.sizes}"), r#"[1,"\""]"#);
    assert_eq!(filled("{param.+env.a/b@pkg}"), "x y");
    for name in KNOWN {
        check(&format!("{{{name}}}"), &[]).unwrap();
        fill(&format!("{{{name}}}"), &values(&params())).unwrap();
    }
}

#[test]
fn the_size_of_a_run() {
    let params = params();
    let mut values = values(&params);
    values.size =
        Size { gpus: "4".to_owned(), nodes: "2".to_owned(), total_gpus: "8".to_owned(), tasks: "2".to_owned() };
    let filled = fill("{gpus} {nodes} {total_gpus} {tasks} {world_size}", &values).unwrap();
    assert_eq!(filled, "4 2 8 2 2");
    let text = |text: &str| Value::Text(text.to_owned());
    assert_eq!(values.size.fill_in("{total_gpus}"), Value::Int(8));
    assert_eq!(values.size.fill_in("n{nodes}x{gpus}"), text("n2x4"));
    for other in ["${gpus}", "{{gpus}}", "{seed}", "{gpus", "k={name:default}", "", "{", "größe {", "{gpus }"] {
        assert_eq!(values.size.fill_in(other), text(other));
    }
    values.size.gpus = "0.25".to_owned();
    assert_eq!(values.size.fill_in("{gpus}"), Value::Float(0.25));
}

#[test]
fn other_braces_are_literal() {
    let untouched = [
        "",
        "{",
        "}",
        "{}",
        "}{",
        "a}}",
        "{ seed }",
        "{seed",
        "seed}",
        "k={name:default,x:1}",
        "a={b:{c:1}}",
        "${HOME}",
        "{Seed}",
        "{1}",
        "{.a}",
        "{seed,run}",
        "{seed:1}",
        "{param.a:1}",
        "awk '{print $1}'",
        "{größe}",
        "{a:{b:{c:{}}}}",
        "{seed run}",
        "{a/b}",
    ];
    for text in untouched {
        assert_eq!(filled(text), text);
        check(text, &[]).unwrap();
    }
}

#[test]
fn doubled_braces_write_one() {
    let cases = [
        ("{{name}}", "{name}"),
        ("{{{seed}}}", "{7}"),
        ("{{", "{"),
        ("{{}}", "{}"),
        ("{{ {seed} }}", "{ 7 }"),
        ("{{{{seed}}}}", "{{seed}}"),
        ("${{agent.lr}}", "${agent.lr}"),
        ("{{seed}", "{seed}"),
        ("a}} {{b}} c}}", "a}} {b} c}}"),
        // Inner single braces keep their own ends.
        ("{{a:{b:{c:1}},d:1}}", "{a:{b:{c:1}},d:1}"),
        ("{a:{{seed}},b:{c:1}}", "{a:{seed},b:{c:1}}"),
    ];
    for (text, expected) in cases {
        assert_eq!(filled(text), expected, "{text}");
    }
}

#[test]
fn values_are_not_read_again() {
    let params = BTreeMap::from([("x".to_owned(), Value::Text("{seed} {{a}} {nope}".to_owned()))]);
    assert_eq!(fill("{param.x}", &values(&params)).unwrap(), "{seed} {{a}} {nope}");
}

#[test]
fn unknown_names_the_nearest() {
    let cases = [
        ("{sed}", "seed"),
        ("{check-point}", "checkpoint"),
        ("{lr}", "param.lr"),
        ("{gama}", "param.gamma"),
        ("{param.lrr}", "param.lr"),
        ("{agent.lr}", "param.lr"),
        ("{seed.x}", "seed"),
    ];
    for (text, nearest) in cases {
        let found = check(text, &["gamma", "lr"]).unwrap_err();
        assert!(matches!(&found, TemplateError::Unknown { nearest: n, .. } if n == nearest), "{text}: {found}");
        let params = ["gamma", "lr"].map(|name| (name.to_owned(), Value::Null)).into();
        assert_eq!(fill(text, &values(&params)).unwrap_err(), found);
    }
    assert_eq!(
        check("a {sed}", &[]).unwrap_err().to_string(),
        "unknown placeholder `{sed}`, the nearest is `{seed}`; \
         to write the braces themselves, double them: `{{sed}}`"
    );
    assert!(check("{param.lr}", &["lr"]).is_ok());
    assert!(check("{param.lr}", &["gamma"]).is_err());
    assert!(check("{param.seed}", &[]).is_err());
    assert!(check("{param}", &["param"]).is_err());
}

#[test]
fn a_missing_seed_is_an_error_and_a_missing_checkpoint_is_not() {
    let params = params();
    let bare = Values { seed: None, checkpoint: None, ..values(&params) };
    let error = fill("--seed {seed}", &bare).unwrap_err();
    assert_eq!(error, TemplateError::NoSeed);
    assert!(error.to_string().contains("`--seeds 1`") && error.to_string().contains("`seeds = [1]`"));
    assert_eq!(fill("no {{seed}}", &bare).unwrap(), "no {seed}");
    assert_eq!(fill("[{checkpoint}]", &bare).unwrap(), "[]");
    check("{seed}", &[]).unwrap();
}

#[test]
fn a_shell_gets_plain_words_only() {
    let params = params();
    assert_eq!(fill_shell("a '{seed}' {checkpoint}", &values(&params)).unwrap(), "a '7' logs/model_9.pt");
    for hostile in ["a b", "$(touch x)", "'", "a;b", "~", "*", "a\nb"] {
        let values = Values { checkpoint: Some(hostile.to_owned()), ..values(&params) };
        let error = fill_shell("x {checkpoint}", &values).unwrap_err();
        assert!(matches!(error, TemplateError::NotAWord { .. }));
        assert!(error.to_string().contains("`env = { VALUE = \"{checkpoint}\" }`"), "{error}");
        assert_eq!(fill("x {checkpoint}", &values).unwrap(), format!("x {hostile}"));
    }
    let none = Values { checkpoint: None, ..values(&params) };
    assert_eq!(fill_shell("x {checkpoint}", &none).unwrap(), "x ");
}

#[test]
fn names_are_listed_in_order() {
    assert_eq!(names("{b} {{c}} {x:1} {param.lr}{b}"), ["b", "param.lr", "b"]);
}

#[test]
fn plain_forms() {
    let text = |text: &str| Value::Text(text.to_owned());
    let float = Value::Float;
    let cases = [
        (Value::Null, "null"),
        (Value::Bool(true), "true"),
        (Value::Int(i64::MIN), "-9223372036854775808"),
        (float(0.1), "0.1"),
        (float(1.0), "1.0"),
        (float(-0.0), "-0.0"),
        (float(1e-5), "1e-5"),
        (float(1e300), "1e300"),
        (float(f64::NAN), "nan"),
        (float(f64::NEG_INFINITY), "-inf"),
        (text("it's \"so\"\n"), "it's \"so\"\n"),
        (
            Value::List(vec![float(f64::NAN), float(f64::INFINITY), float(f64::NEG_INFINITY), text("a\n\"é")]),
            r#"[NaN,Infinity,-Infinity,"a\n\"é"]"#,
        ),
        (
            Value::Table(BTreeMap::from([
                ("b".to_owned(), Value::List(vec![Value::Null, Value::Bool(false), Value::Int(-3)])),
                ("a\"".to_owned(), Value::Table(BTreeMap::new())),
                ("c".to_owned(), float(1e-7)),
            ])),
            r#"{"a\"":{},"b":[null,false,-3],"c":1e-7}"#,
        ),
    ];
    for (value, expected) in cases {
        assert_eq!(plain(&value), expected);
    }
}

proptest! {
    #[test]
    fn floats_read_back_the_same(number in any::<f64>().prop_filter("a number", |n| !n.is_nan())) {
        prop_assert_eq!(plain(&Value::Float(number)).parse::<f64>().unwrap().to_bits(), number.to_bits());
    }

    /// What people write when they double every brace they mean.
    #[test]
    fn doubling_all_balanced_braces_gives_the_text(text in "[a-z:, ]{0,4}(\\{[a-z:, ]{0,4}(\\{[a-z1:]{0,3}\\}){0,3}\\})*") {
        let doubled = text.replace('{', "{{").replace('}', "}}");
        prop_assert_eq!(filled(&doubled), text);
    }

    #[test]
    fn any_text_is_read_without_panic(text in "[{}a-z.:é ]{0,40}") {
        let _ = fill(&text, &values(&params()));
    }
}
