//! Any tree comes out of the image as it went in, for two readers that have nothing in common with the writer.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use support::engine::unpack;
use support::look::{inside, look};
use support::{Item, Made, file, folder, noise, symlink};
use trainyard_image::{Codec, Format, Options};

#[derive(Debug, Clone)]
enum Node {
    File { seed: u64, size: usize, mode: u32 },
    Zeros { size: usize },
    Link(String),
    Folder { mode: u32, below: BTreeMap<String, Node> },
}

/// Around what decides: nothing, a little, one block, some blocks.
fn size() -> impl Strategy<Value = usize> {
    let near = |size: usize| (size.saturating_sub(2)..size + 3).boxed();
    prop_oneof![Just(0), 1..2000usize, near(131_072), near(262_144), 1..500_000usize]
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-zA-Z0-9_. -]{1,20}".prop_filter("a name", |name| !matches!(name.as_str(), "." | "..")),
        "[äöü日本語\u{301}]{1,40}",
        "[a-z]{200,255}",
    ]
    .prop_filter("no whiteout", |name| !name.starts_with(".wh."))
}

fn node() -> impl Strategy<Value = Node> {
    let leaf = prop_oneof![
        4 => (0..50u64, size(), 0..0o10000u32).prop_map(|(seed, size, mode)| Node::File { seed, size, mode }),
        1 => size().prop_map(|size| Node::Zeros { size }),
        1 => "[a-z/.]{1,60}".prop_map(Node::Link),
    ];
    leaf.prop_recursive(4, 40, 8, |inner| {
        (prop::collection::btree_map(name(), inner, 0..8), 0..8u32)
            .prop_map(|(below, mode)| Node::Folder { mode: 0o700 | mode, below })
    })
}

/// What should be seen: mode with kind, and contents.
type Expected = BTreeMap<Vec<u8>, (u32, String)>;

fn lay_out(path: &str, node: &Node, items: &mut Vec<Item>, expected: &mut Expected) {
    let mut add = |item: Item, mode: u32, content: String| {
        expected.insert(path.as_bytes().to_vec(), (mode, content));
        items.push(item);
    };
    let content = |bytes: &[u8]| format!("{} {}", bytes.len(), blake3::hash(bytes));
    match node {
        Node::File { seed, size, mode } => {
            let bytes = noise(*seed, *size);
            add(file(path, &bytes).mode(*mode), 0o100_000 | mode, content(&bytes));
        }
        Node::Zeros { size } => add(file(path, vec![0; *size]), 0o100_644, content(&vec![0; *size])),
        Node::Link(target) => add(symlink(path, target), 0o120_777, format!("{target:?}")),
        Node::Folder { mode, below } => {
            add(folder(path).mode(*mode), 0o040_000 | mode, String::new());
            for (name, node) in below {
                lay_out(&format!("{path}/{name}"), node, items, expected);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]
    #[test]
    fn trees_come_back(
        below in prop::collection::btree_map(name(), node(), 0..8),
        codec in prop_oneof![Just(Codec::Zstd), Just(Codec::Gzip), Just(Codec::None)],
        threads in 1..4usize,
    ) {
        let (mut items, mut expected) = (Vec::new(), Expected::new());
        lay_out("tree", &Node::Folder { mode: 0o755, below }, &mut items, &mut expected);
        let place = tempfile::tempdir().unwrap();
        let options = Options { codec, threads, format: Format::Sif, ..Options::default() };
        let (image, _) = Made::new(&[&items]).convert(place.path(), &options).unwrap();
        for tree in [inside(&image), look(&unpack(&image, place.path()))] {
            let seen: Expected = tree
                .into_iter()
                .filter(|(name, _)| name == b"tree" || name.starts_with(b"tree/"))
                .map(|(name, seen)| (name, (seen.mode, seen.content)))
                .collect();
            prop_assert_eq!(&seen, &expected);
        }
    }
}
