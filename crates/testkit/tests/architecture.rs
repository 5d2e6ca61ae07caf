//! The house is as ARCHITECTURE.md draws it: every edge between crates and between the rooms of a crate is in its
//! list, every edge in the list exists, and there is no way round in a circle.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

type Edges = BTreeMap<String, BTreeSet<String>>;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

/// The blocks of ARCHITECTURE.md that begin with ```` ```edges NAME ````.
fn drawn(name: &str) -> Edges {
    let text = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let start = format!("```edges {name}\n");
    let block = text.split_once(&start).unwrap_or_else(|| panic!("no edges of {name}")).1.split_once("```").unwrap().0;
    let line = |line: &str| {
        let (from, to) = line.split_once("->").unwrap_or_else(|| panic!("{name}: {line}"));
        (from.trim().to_owned(), to.split_whitespace().map(str::to_owned).collect())
    };
    block.lines().map(line).collect()
}

/// The `trainyard-…` dependencies in a manifest's section.
fn crate_edges(section: &str) -> Edges {
    let mut edges = Edges::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let body = manifest.split_once(&format!("\n[{section}]\n")).map_or("", |(_, rest)| rest);
        let lines = body.lines().take_while(|line| !line.starts_with('['));
        let found =
            lines.filter_map(|line| line.strip_prefix("trainyard-")?.split_once('.').map(|(name, _)| name.to_owned()));
        edges.insert(name, found.collect());
    }
    edges
}

/// Uses of `crate::ROOM` outside tests and comments.
fn room_edges(name: &str) -> Edges {
    let source = root().join("crates").join(name).join("src");
    let mut edges = Edges::new();
    for entry in std::fs::read_dir(&source).unwrap() {
        let path = entry.unwrap().path();
        let room = path.file_stem().unwrap().to_string_lossy().into_owned();
        if ["lib", "main"].contains(&room.as_str()) {
            continue;
        }
        let mut files = Vec::new();
        collect(&path, &mut files);
        let found = edges.entry(room.clone()).or_default();
        for file in files {
            found.extend(rooms_used(&std::fs::read_to_string(file).unwrap()));
        }
        found.remove(&room);
    }
    edges
}

fn collect(path: &Path, files: &mut Vec<PathBuf>) {
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| collect(&entry.unwrap().path(), files));
    } else if path.extension().is_some_and(|extension| extension == "rs") && path.file_stem().unwrap() != "tests" {
        files.push(path.to_owned());
    }
}

fn rooms_used(text: &str) -> BTreeSet<String> {
    let product = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let code = product.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut found = BTreeSet::new();
    for line in code {
        for part in line.split("crate::").skip(1) {
            let name: String =
                part.chars().take_while(|letter| letter.is_ascii_lowercase() || *letter == '_').collect();
            if !name.is_empty() {
                found.insert(name);
            }
        }
        if let Some((_, list)) = line.split_once("use crate::{") {
            let names =
                list.trim_end_matches("};").split(',').map(|name| name.trim().split("::").next().unwrap().to_owned());
            found.extend(names.filter(|name| !name.is_empty()));
        }
    }
    found
}

fn compare(what: &str, drawn: &Edges, found: &Edges) {
    let flat = |edges: &Edges| -> BTreeSet<String> {
        edges.iter().flat_map(|(from, to)| to.iter().map(move |to| format!("{from} -> {to}"))).collect()
    };
    let (drawn_flat, found_flat) = (flat(drawn), flat(found));
    let forbidden: Vec<&String> = found_flat.difference(&drawn_flat).collect();
    let stale: Vec<&String> = drawn_flat.difference(&found_flat).collect();
    assert!(forbidden.is_empty(), "{what}: edges that ARCHITECTURE.md does not allow: {forbidden:?}");
    assert!(stale.is_empty(), "{what}: edges that ARCHITECTURE.md draws but nobody uses: {stale:?}");
    let names = |edges: &Edges| edges.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(drawn), names(found), "{what}: rooms drawn and rooms there");
    assert_eq!(circle(found), None, "{what}: a way round in a circle");
}

/// Rooms that can be left again and again: take away what leads nowhere until nothing changes.
fn circle(edges: &Edges) -> Option<Vec<String>> {
    let mut left: BTreeSet<&String> = edges.keys().collect();
    loop {
        let before = left.len();
        let kept = left.clone();
        left.retain(|name| edges.get(*name).is_some_and(|to| to.iter().any(|to| kept.contains(to))));
        if left.is_empty() {
            return None;
        }
        if left.len() == before {
            return Some(left.into_iter().cloned().collect());
        }
    }
}

#[test]
fn crates_depend_as_drawn() {
    compare("crates", &drawn("crates"), &crate_edges("dependencies"));
}

#[test]
fn rooms_use_each_other_as_drawn() {
    for name in ["core", "agent", "image", "engine", "cli"] {
        compare(name, &drawn(name), &room_edges(name));
    }
}

#[test]
fn circles_are_seen() {
    let edge = |from: &str, to: &str| (from.to_owned(), BTreeSet::from([to.to_owned()]));
    assert!(circle(&Edges::from([edge("a", "b"), edge("b", "a")])).is_some());
    assert!(circle(&Edges::from([edge("a", "b"), ("b".to_owned(), BTreeSet::new())])).is_none());
}

#[test]
fn uses_are_seen() {
    let text = "use crate::a::B;\n// crate::c\nfn f() { crate::d::g() }\nuse crate::{e, f::G};\n#[cfg(test)]\nmod tests {\nuse crate::h;";
    assert_eq!(rooms_used(text).into_iter().collect::<Vec<_>>(), ["a", "d", "e", "f"]);
}

/// What `core` promises: nothing that could make it depend on anything but its arguments.
#[test]
fn core_has_no_files_no_network_no_clock() {
    let mut files = Vec::new();
    collect(&root().join("crates/core/src"), &mut files);
    let banned = [
        "std::fs",
        "std::net",
        "std::process",
        "std::env",
        "SystemTime",
        "time::Instant::now",
        "fs_err",
        "tokio",
        "now_v7",
    ];
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let product = text.split("#[cfg(test)]").next().unwrap();
        for word in banned {
            assert!(!product.contains(word), "{} uses {word}", file.display());
        }
    }
}

#[test]
fn only_one_module_is_unsafe_and_only_one_prints() {
    for name in ["core", "agent", "engine", "cli", "tfevents", "image"] {
        let mut files = Vec::new();
        collect(&root().join("crates").join(name).join("src"), &mut files);
        for file in files {
            let text = std::fs::read_to_string(&file).unwrap();
            let place = file.strip_prefix(root()).unwrap().display().to_string();
            assert!(!text.contains("unsafe {") || place.starts_with("crates/agent/src/sys"), "{place} is unsafe");
            let prints = ["println!(", "print!(", "stdout().lock()"].iter().any(|word| text.contains(word));
            assert!(!prints || place == "crates/cli/src/report/printer.rs", "{place} prints");
        }
    }
}

/// A test program that no part of `./test` runs would be green for ever.
#[test]
fn every_test_program_is_run() {
    let script = std::fs::read_to_string(root().join("test")).unwrap();
    let mut forgotten = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let package = if name == "cli" { "trainyard".to_owned() } else { format!("trainyard-{name}") };
        let call = format!("-p {package}");
        // What stands behind the package in each call, up to the call's end.
        let calls: Vec<&str> =
            script.split(&call).skip(1).map(|rest| rest.split([';', '\n']).next().unwrap().trim()).collect();
        let is_run = |program: &str| {
            calls.iter().any(|call| {
                call.is_empty() || call.split("--test ").any(|word| word.split(' ').next() == Some(program))
            })
        };
        let programs = std::fs::read_dir(folder.join("tests")).into_iter().flatten().map(|entry| entry.unwrap().path());
        let programs =
            programs.filter(|path| path.extension().is_some_and(|it| it == "rs") || path.join("main.rs").exists());
        let programs = programs.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned());
        forgotten.extend(programs.filter(|program| !is_run(program)).map(|program| format!("{package} {program}")));
    }
    assert!(forgotten.is_empty(), "no part of ./test runs {forgotten:?}");
}
