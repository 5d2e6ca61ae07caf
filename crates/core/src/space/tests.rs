use std::collections::BTreeMap;

use super::*;

fn dimension(domain: Domain, when: Option<&str>) -> Dimension {
    Dimension { domain, when: when.map(str::to_owned) }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn conditional() -> BTreeMap<String, Dimension> {
    let optimizer = Domain::Choice(vec![text("adam"), text("sgd")]);
    BTreeMap::from([
        ("optimizer".to_owned(), dimension(optimizer, None)),
        (
            "momentum".to_owned(),
            dimension(Domain::Ordinal(vec![Value::Int(1), Value::Int(2)]), Some("optimizer == 'sgd'")),
        ),
        ("nesterov".to_owned(), dimension(Domain::Boolean, Some("momentum > 1"))),
        ("envs".to_owned(), dimension(Domain::PowerOfTwo { low: 4, high: 8 }, None)),
        ("horizon".to_owned(), dimension(Domain::Fixed(Value::Int(6)), None)),
        ("minibatch".to_owned(), dimension(Domain::Derived("smallest_divisor(envs * horizon, 5)".to_owned()), None)),
    ])
}

fn params(pairs: &[(&str, Value)]) -> Params {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

#[test]
fn completes_with_fixed_and_derived_and_without_inactive() {
    let space = Space::new(&conditional(), &[]).expect("space");
    let sampled = params(&[("optimizer", text("adam")), ("momentum", Value::Int(2)), ("envs", Value::Int(4))]);
    let complete = space.complete(&sampled).expect("complete");
    assert_eq!(complete.get("minibatch"), Some(&Value::Int(6)));
    assert_eq!(complete.get("momentum"), None);
    assert_eq!(complete.len(), 4);
    assert!(matches!(space.check(&sampled), Err(Unfit::Surplus { parameter }) if parameter == "momentum"));
    assert!(matches!(space.complete(&Params::new()), Err(Unfit::Absent { .. })));
}

#[test]
fn grid_counts_only_active_axes() {
    let space = Space::new(&conditional(), &[]).expect("space");
    let all: Vec<Params> = space.grid(5).collect();
    // Per number of environments: adam, sgd with momentum 1, sgd with momentum 2 times nesterov.
    assert_eq!(all.len(), 2 * (1 + 1 + 2));
    assert!(all.iter().all(|params| space.contains(params)));
    assert!(all.iter().enumerate().all(|(i, params)| !all[..i].contains(params)));
}

#[test]
fn constraints_hold_in_the_grid() {
    let dimensions = BTreeMap::from([
        ("a".to_owned(), dimension(Domain::Int { low: 1, high: 6 }, None)),
        ("b".to_owned(), dimension(Domain::Int { low: 1, high: 6 }, None)),
    ]);
    let space = Space::new(&dimensions, &["a * b <= 6".to_owned(), "a % b == 0".to_owned()]).expect("space");
    let all: Vec<Params> = space.grid(1).collect();
    assert_eq!(all.len(), 7);
}

#[test]
fn errors_name_the_parameter() {
    let broken = |domain, when| {
        let mut dimensions = conditional();
        dimensions.insert("x".to_owned(), dimension(domain, when));
        Space::new(&dimensions, &[]).expect_err("broken")
    };
    let unknown = broken(Domain::Boolean, Some("nothing > 1"));
    assert_eq!(unknown, SpaceError::Unknown { parameter: "x".to_owned(), name: "nothing".to_owned() });
    assert!(matches!(broken(Domain::Derived("x + 1".to_owned()), None), SpaceError::Circular { .. }));
    assert!(matches!(broken(Domain::Derived("1 +".to_owned()), None), SpaceError::Expression { .. }));
    assert!(matches!(broken(Domain::Choice(Vec::new()), None), SpaceError::Empty { .. }));
    assert!(Space::new(&conditional(), &["gone > 1".to_owned()]).is_err());
}

#[test]
fn coordinates_and_values_agree() {
    let domains = [
        Domain::Uniform { low: -2.0, high: 3.0 },
        Domain::LogUniform { low: 1e-5, high: 1e-1 },
        Domain::Quantized { low: 0.1, high: 0.9, step: 0.1 },
        Domain::Int { low: -3, high: 9 },
        Domain::LogInt { low: 1, high: 500 },
        Domain::PowerOfTwo { low: 1, high: 1024 },
        Domain::Ordinal(vec![text("s"), text("m"), text("l")]),
        Domain::Boolean,
    ];
    for domain in domains {
        let axis = Axis::new(&domain).expect("axis");
        for step in 0..=200 {
            let value = axis.decode(f64::from(step) / 200.0);
            let at = axis.encode(&value).unwrap_or_else(|| panic!("{domain:?} {value:?}"));
            let same = axis.decode(at);
            match (&value, &same) {
                (Value::Float(a), Value::Float(b)) => assert!((a - b).abs() <= 1e-12 * a.abs().max(1.0)),
                _ => assert_eq!(value, same, "{domain:?}"),
            }
            if let Some((low, high)) = axis.cell(at) {
                assert!(low < at && at < high && low > -1e-9 && high < 1.0 + 1e-9, "{domain:?} {value:?}");
            }
        }
    }
    let steps = Axis::new(&Domain::Quantized { low: 0.1, high: 0.9, step: 0.1 }).expect("axis");
    assert_eq!(steps.count(), Some(9));
    assert_eq!(steps.value(2), Value::Float(0.3));
}
