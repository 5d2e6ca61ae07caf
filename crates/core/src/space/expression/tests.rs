use proptest::prelude::*;

use super::*;

fn eval(text: &str) -> Result<Value, Fault> {
    let x = Value::Int(12);
    let optimizer = Value::Text("sgd".to_owned());
    let expression = Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let names = expression.names().to_vec();
    expression.evaluate(&|number| match names[number].as_str() {
        "x" | "agent.x" | "num-envs" => Some(&x),
        "optimizer" => Some(&optimizer),
        _ => None,
    })
}

fn int(text: &str) -> i64 {
    match eval(text) {
        Ok(Value::Int(int)) => int,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn precedence_is_that_of_python() {
    assert_eq!(int("1 + 2 * 3"), 7);
    assert_eq!(int("(1 + 2) * 3"), 9);
    assert_eq!(int("-2 ** 2"), -4);
    assert_eq!(int("2 ** 3 ** 2"), 512);
    assert_eq!(int("10 - 3 - 2"), 5);
    assert_eq!(int("-7 % 3"), 2);
    assert_eq!(eval("not 1 == 2 and true or false"), Ok(Value::Bool(true)));
}

#[test]
fn integers_stay_integers_when_exact() {
    assert_eq!(int("x / 4"), 3);
    assert_eq!(eval("x / 5"), Ok(Value::Float(2.4)));
    assert_eq!(int("log2(4096)"), 12);
    assert_eq!(int("sqrt(144)"), 12);
    assert_eq!(int("floor(2.7) + ceil(2.1) + round(2.5)"), 8);
    assert_eq!(eval("2 ** -1"), Ok(Value::Float(0.5)));
    assert!(matches!(eval("9223372036854775807 + 1"), Ok(Value::Float(_))));
    assert_eq!(eval("1e-3"), Ok(Value::Float(0.001)));
}

#[test]
fn names_texts_and_functions() {
    assert_eq!(eval("optimizer == 'sgd'"), Ok(Value::Bool(true)));
    assert_eq!(int("agent.x + `num-envs`"), 24);
    assert_eq!(int("max(1, x, 3) + min(x, 5) + abs(-2)"), 19);
    assert_eq!(int("smallest_divisor(4096, 100)"), 128);
    assert_eq!(int("nearest_divisor(96, 30)"), 32);
    assert_eq!(int("if(optimizer == 'sgd', x, gone)"), 12);
    assert_eq!(eval("gone > 1"), Err(Fault::Missing("gone".to_owned())));
    assert_eq!(eval("optimizer == 'sgd' or gone"), Ok(Value::Bool(true)));
}

#[test]
fn errors_say_where() {
    let at = |text: &str| Expression::parse(text).expect_err(text).at;
    assert_eq!(at("1 + "), 4);
    assert_eq!(at("1 + $"), 4);
    assert_eq!(at("foo(1)"), 0);
    assert_eq!(at("1 2"), 2);
    assert_eq!(at("(1"), 2);
    assert_eq!(at("1 < 2 < 3"), 6);
    assert_eq!(at("'open"), 0);
    assert_eq!(eval("1 + 1 / 0"), Err(Fault::Wrong { what: "division by zero".to_owned(), at: 6 }));
    assert!(eval("optimizer + 1").is_err());
    assert!(eval("0.0 / 0").is_err());
}

#[test]
fn depth_and_length_are_bounded() {
    let nested = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(Expression::parse(&nested(20)).is_ok());
    assert!(Expression::parse(&nested(400)).is_err());
    assert!(Expression::parse(&"-".repeat(500)).is_err());
    assert!(eval(&format!("1{}", "+1".repeat(499))).is_ok());
    assert!(Expression::parse(&format!("1{}", "+1".repeat(600))).is_err());
}

proptest! {
    #[test]
    fn no_text_panics(text in r"[-x0-9.+*/%<>=!()', a-e]{0,40}|\PC{0,40}") {
        if let Ok(expression) = Expression::parse(&text) {
            let value = Value::Int(i64::MIN);
            let _ = expression.evaluate(&|_| Some(&value));
        }
    }

    #[test]
    fn integer_arithmetic_agrees_with_rust(a in -1000i64..1000, b in 1i64..1000) {
        prop_assert_eq!(int(&format!("({a}) * {b} + {b} - ({a})")), a * b + b - a);
        prop_assert_eq!(int(&format!("({a}) % {b}")), a.rem_euclid(b));
    }
}
