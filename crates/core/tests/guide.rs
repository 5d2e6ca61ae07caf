//! The vision cart-pole of docs/isaac-lab.md, as people would copy it.
#![expect(clippy::unwrap_used, reason = "tests")]

use trainyard_core::search::rng;
use trainyard_core::space::Space;
use trainyard_core::spec::{Layer, load};
use trainyard_core::value::Value;

#[test]
fn the_vision_cart_pole_of_the_guide_is_a_file() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/isaac-lab.md")).unwrap();
    let blocks: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    let [whole, minibatch] = blocks[..] else { panic!("{} blocks", blocks.len()) };
    let space = |text: &str| {
        let layers = [Layer { name: "trainyard.toml".to_owned(), text: text.to_owned() }];
        let mut config = load(&layers, &[], "any").unwrap_or_else(|problems| panic!("{problems:?}")).config;
        let sweep = config.sweeps.remove("cnn").unwrap();
        (Space::new(&sweep.space, &sweep.constraints).unwrap(), sweep)
    };
    let (searched, sweep) = space(whole);
    assert_eq!(searched.axes().count(), 6);
    assert_eq!((sweep.trials, sweep.metric.as_str()), (Some(100), "rewards/iter"));
    let key = minibatch.split(" = ").next().unwrap();
    let derived = whole.lines().map(|line| if line.starts_with(key) { minibatch.trim_end() } else { line });
    let (searched, _) = space(&derived.collect::<Vec<_>>().join("\n"));
    let drawn = searched.complete(&searched.draw(&mut rng(1, 0))).unwrap();
    assert_eq!(drawn["agent.params.config.minibatch_size"], Value::Int(128), "of powers of two");
}
