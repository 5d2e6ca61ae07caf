//! Layers into one tree: defaults, then the user's file, then the project's, then `--set`. Tables are merged key
//! by key, everything else is replaced.

use super::origin::Origin;
use super::shape::{Bond, FILE, Shape};
use super::tree::{Field, Node, Raw, Table};

/// What holds when nothing is written.
pub(super) fn base(folder_name: &str) -> Node {
    let text = |text: &str| Node::default(Raw::Text(text.to_owned()));
    let table = |name: &str, node: Node| {
        let field = Field { key: Origin::Default, node };
        Node::default(Raw::Table(Table::from([(name.to_owned(), field)])))
    };
    let name = if folder_name.is_empty() { "project" } else { folder_name };
    let mut tree = table("project", table("name", text(name)));
    put_over(&mut tree, table("targets", table("local", table("kind", text("local")))));
    put_over(&mut tree, table("defaults", table("target", text("local"))));
    tree
}

/// Puts a whole file, or one `--set` as a file, over the tree.
pub(super) fn put_over(tree: &mut Node, layer: Node) {
    merge(tree, layer, Some(&Shape::Table(&FILE)));
}

fn merge(under: &mut Node, over: Node, shape: Option<&Shape>) {
    let Node { raw: Raw::Table(over_table), origin } = over else {
        *under = over;
        return;
    };
    let Raw::Table(under_table) = &mut under.raw else {
        *under = Node { raw: Raw::Table(over_table), origin };
        return;
    };
    move_to(&mut under.origin, origin);
    if let Some(shape) = shape {
        give_way(under_table, &over_table, shape.bonds());
    }
    for (name, field) in over_table {
        match under_table.get_mut(&name) {
            Some(old) => {
                move_to(&mut old.key, field.key);
                merge(&mut old.node, field.node, shape.and_then(|shape| shape.child(&name)));
            }
            None => _ = under_table.insert(name, field),
        }
    }
}

/// A table stays where it was written when a flag changes one key of it.
fn move_to(origin: &mut Origin, new: Origin) {
    if !matches!(new, Origin::Flag(_)) || *origin == Origin::Default {
        *origin = new;
    }
}

/// Of keys that exclude each other the upper layer's choice wins, so that `--set jobs.train.shell=…` replaces a
/// `command`. What only made sense with the loser goes with it.
fn give_way(under: &mut Table, over: &Table, bonds: &[Bond]) {
    for bond in bonds {
        let Bond::OneOf(names) = bond else { continue };
        if !names.iter().any(|name| over.contains_key(*name)) {
            continue;
        }
        for loser in names.iter().filter(|name| !over.contains_key(**name)) {
            if under.remove(*loser).is_none() {
                continue;
            }
            for bond in bonds {
                if let Bond::Needs(key, other) = bond
                    && other == loser
                {
                    under.remove(*key);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use crate::spec::emit::entries;
    use crate::spec::{Layer, set, tree};

    fn merged(layers: &[&str], sets: &[&str]) -> Vec<String> {
        let mut node = base("folder");
        for (number, text) in layers.iter().enumerate() {
            let layer = Layer { name: format!("{number}.toml"), text: (*text).to_owned() };
            put_over(&mut node, tree::parse(&layer).unwrap());
        }
        for text in sets {
            put_over(&mut node, set::parse(text).unwrap());
        }
        let lines = entries(&node).into_iter();
        lines.map(|entry| format!("{} = {} ({})", entry.path, entry.value, entry.origin)).collect()
    }

    #[test]
    fn later_layers_win_key_by_key() {
        let user = "[jobs.a]\ncpus = 2\noutputs = ['x', 'y']\n[targets.local]\ngpus = 1";
        let project = "project.name = 'p'\n[jobs.a]\noutputs = ['z']\ngpus = 1";
        insta::assert_debug_snapshot!(merged(&[user, project], &["jobs.a.gpus=2"]), @r#"
        [
            "defaults.target = \"local\" (default)",
            "jobs.a.cpus = 2 (0.toml:2:8)",
            "jobs.a.gpus = 2 (--set jobs.a.gpus)",
            "jobs.a.outputs = [\"z\"] (1.toml:3:11)",
            "project.name = \"p\" (1.toml:1:16)",
            "targets.local.gpus = 1 (0.toml:5:8)",
            "targets.local.kind = \"local\" (default)",
        ]
        "#);
    }

    #[test]
    fn of_keys_that_exclude_each_other_the_later_one_stays() {
        let project = "[image]\ndockerfile = 'D'\ncontext = '.'\n[jobs.a]\ncommand = ['a']\nenv.T = { env = 'T' }
            [sweeps.s.space]\nx.uniform = [0, 1]\nx.when = 'y'";
        let sets =
            ["image.sif=a.sif", "jobs.a.shell=b", "jobs.a.env.T={ file = '/t' }", "sweeps.s.space.x={ int = [1, 2] }"];
        insta::assert_debug_snapshot!(merged(&[project], &sets), @r#"
        [
            "defaults.target = \"local\" (default)",
            "image.sif = \"a.sif\" (--set image.sif)",
            "jobs.a.env.T.file = \"/t\" (--set jobs.a.env.T)",
            "jobs.a.shell = \"b\" (--set jobs.a.shell)",
            "project.name = \"folder\" (default)",
            "sweeps.s.space.x.int = [1, 2] (--set sweeps.s.space.x)",
            "sweeps.s.space.x.when = \"y\" (0.toml:9:10)",
            "targets.local.kind = \"local\" (default)",
        ]
        "#);
    }

    #[test]
    fn other_types_are_replaced() {
        insta::assert_debug_snapshot!(
            merged(&["jobs = 1\nsweeps.a = 1", "jobs.a.cpus = 1\nsweeps = 2"], &["sweeps.b=3"]),
            @r#"
        [
            "defaults.target = \"local\" (default)",
            "jobs.a.cpus = 1 (1.toml:1:15)",
            "project.name = \"folder\" (default)",
            "sweeps.b = 3 (--set sweeps.b)",
            "targets.local.kind = \"local\" (default)",
        ]
        "#
        );
    }
}
