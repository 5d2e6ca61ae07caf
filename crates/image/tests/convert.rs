//! The same image gives the same bytes, however it comes; what changed little is sent little; nothing is left by a failure.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::Path;

use serde_json::json;
use support::look::inside;
use support::{Item, Made, file, folder, gzip, hardlink, noise, open_layout, plain, symlink, to, zstd};
use trainyard_image::{
    Archive, Blob, Codec, Config, Converted, Error, Folder, Format, Image, Options, Platform, Source, chunks, convert,
    digest, index_path,
};

/// Files of all sizes, in some layers.
fn mixed() -> Made {
    let mut base: Vec<Item> =
        (0..300).map(|n| file(format!("lib/{}/{n}", n % 7), noise(n, (n as usize * 977) % 40_000))).collect();
    base.push(file("large", [noise(1, 500_000), vec![0; 600_000], noise(2, 100)].concat()));
    base.push(file("large-twin", [noise(1, 500_000), vec![0; 600_000], noise(2, 100)].concat()));
    base.push(file("text", "words and words ".repeat(30_000)));
    let top = [
        file("lib/.wh.3", ""),
        file("lib/4/new", "new"),
        hardlink("linked", "large"),
        symlink("link", "large"),
        folder("empty").owner(5, 6),
        file("lib/5/5", "replaced"),
    ];
    let mut made = Made::new(&[&base, &top, &[file("top", noise(9, 200_000))]]);
    made.run = json!({ "Env": ["A=b"], "Cmd": ["/bin/true"], "Labels": null });
    made
}

fn bytes(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

/// A source that can be read once from beginning to end, as a registry's is.
struct Streamed<S>(S, usize);

impl<S: Source> Source for Streamed<S> {
    fn image(&mut self) -> trainyard_image::Result<Image> {
        self.0.image()
    }

    fn layer(&mut self, index: usize) -> trainyard_image::Result<Blob> {
        self.1 += 1;
        Ok(match self.0.layer(index)? {
            Blob::Range(range) => Blob::Stream(Box::new(range)),
            other => other,
        })
    }
}

#[test]
fn the_kind_of_source_and_the_threads_make_no_difference() {
    let made = mixed();
    for format in [Format::Sif, Format::Sqsh] {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let options = Options { format, threads: 1, ..Options::default() };
        let (first, converted) = made.convert(place, &options).unwrap();
        let first = bytes(&first);
        let many = Options { threads: 7, ..options.clone() };
        let archive = || Archive::open(made.packed_layout(place, zstd), None, Platform::here()).unwrap();
        let mut sources: Vec<Box<dyn Source>> = vec![
            Box::new(Archive::open(made.archive(place), Some("made".to_owned()), Platform::here()).unwrap()),
            Box::new(open_layout(&made.layout(place, gzip))),
            Box::new(open_layout(&made.layout(place, zstd))),
            Box::new(open_layout(&made.layout(place, plain))),
            Box::new(archive()),
            Box::new(Streamed(open_layout(&made.layout(place, gzip)), 0)),
            Box::new(Streamed(open_layout(&made.layout(place, plain)), 0)),
        ];
        for (number, source) in sources.iter_mut().enumerate() {
            let (other, again) = to(source.as_mut(), place, &many).unwrap();
            assert_eq!(again.digest, converted.digest, "{number}");
            assert!(bytes(&other) == first, "source {number} gave other bytes");
        }
    }
}

#[test]
fn every_codec_is_read_back() {
    let made = mixed();
    let place = tempfile::tempdir().unwrap();
    let trees: Vec<_> = [Codec::Zstd, Codec::Gzip, Codec::None]
        .into_iter()
        .map(|codec| inside(&made.convert(place.path(), &Options { codec, ..Options::default() }).unwrap().0))
        .collect();
    let large = &trees[0][&b"large"[..]];
    let expected = blake3::hash(&[noise(1, 500_000), vec![0; 600_000], noise(2, 100)].concat());
    assert_eq!(large.content, format!("1100100 {expected}"));
    assert!(!trees[0].contains_key(&b"lib/3/3"[..]) && trees[0].contains_key(&b"lib/4/new"[..]));
    assert_eq!(trees[0], trees[1]);
    assert_eq!(trees[0], trees[2]);
}

#[test]
fn chunks_are_the_image() {
    let place = tempfile::tempdir().unwrap();
    let (output, converted) = mixed().convert(place.path(), &Options::default()).unwrap();
    let image = bytes(&output);
    let found = chunks(&output).unwrap();
    assert_eq!(found, converted.chunks);
    assert_eq!(digest(&found), converted.digest);
    let mut at = 0;
    for chunk in &found {
        assert_eq!(chunk.offset, at);
        at += u64::from(chunk.length);
        let part = &image[usize::try_from(chunk.offset).unwrap()..usize::try_from(at).unwrap()];
        assert_eq!(*blake3::hash(part).as_bytes(), chunk.hash);
    }
    assert_eq!(at, converted.size);
    assert_eq!(at, image.len() as u64);
}

/// 60 MB in 6,000 files, as packages have them; the middle layer is what changes.
fn packages(change: &[Item]) -> Made {
    let package = |layer: u64, count: u64| -> Vec<Item> {
        let name = |n: u64| format!("layer{layer}/package{}/module{n}.py", n / 40);
        let size = |n: u64| usize::try_from((n * 7919) % 20_000).unwrap();
        (0..count).map(|n| file(name(n), noise(layer << 32 | n, size(n)))).collect()
    };
    let mut middle = package(2, 3000);
    for item in change {
        match middle.iter_mut().find(|old| old.name == item.name) {
            Some(old) => *old = item.clone(),
            None => middle.push(item.clone()),
        }
    }
    Made::new(&[&package(1, 1500), &middle, &package(3, 1500)])
}

fn new_bytes(old: &Converted, new: &Converted) -> u64 {
    let there: HashSet<[u8; 32]> = old.chunks.iter().map(|chunk| chunk.hash).collect();
    let mut sent = HashSet::new();
    let missing = new.chunks.iter().filter(|chunk| !there.contains(&chunk.hash) && sent.insert(chunk.hash));
    missing.map(|chunk| u64::from(chunk.length)).sum()
}

#[test]
fn a_small_change_is_small_and_compressed_blocks_are_taken_again() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let options = Options::default();
    let (old_path, old) = packages(&[]).convert(place, &options).unwrap();
    let one = vec![file("layer2/package10/module400.py", noise(77, 5000))];
    let package: Vec<Item> =
        (400..440).map(|n| file(format!("layer2/package10/module{n}.py"), noise(n << 40, 8000))).collect();
    let added = vec![file("layer2/package10/zzz.py", "new")];
    for (change, percent) in [(one, 2.0), (package, 4.0), (added, 2.0)] {
        let made = packages(&change);
        let (plain_path, new) = made.convert(place, &options).unwrap();
        let share = 100.0 * new_bytes(&old, &new) as f64 / new.size as f64;
        assert!(share < percent, "{share} % of {} bytes are new", new.size);
        let reuse = Options { reuse: vec![old_path.clone()], ..options.clone() };
        let (reused_path, reused) = made.convert(place, &reuse).unwrap();
        assert_eq!(reused.digest, new.digest);
        assert!(bytes(&reused_path) == bytes(&plain_path));
        assert!(reused.reused * 10 > reused.blocks * 9, "{} of {}", reused.reused, reused.blocks);
        assert_eq!(new.reused, 0);
    }
}

#[test]
fn a_damaged_earlier_image_does_no_harm() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let (old, _) = mixed().convert(place, &Options::default()).unwrap();
    let good = bytes(&old);
    let reuse = Options { reuse: vec![old.clone(), place.join("none")], ..Options::default() };
    let damaged: Vec<u8> = good.iter().enumerate().map(|(at, byte)| if at > 70_000 { !byte } else { *byte }).collect();
    std::fs::write(&old, damaged).unwrap();
    let (new, converted) = mixed().convert(place, &reuse).unwrap();
    assert!(bytes(&new) == good);
    assert!(converted.reused < converted.blocks);
    std::fs::write(index_path(&old), "nonsense").unwrap();
    let (new, converted) = mixed().convert(place, &reuse).unwrap();
    assert!(bytes(&new) == good);
    assert_eq!(converted.reused, 0);
}

/// There is a key in it, and who knows it could make an image that passes for another.
#[test]
fn an_index_is_for_its_owner_alone() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let (output, _) = mixed().convert(place.path(), &Options::default()).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&output), mode(&index_path(&output))), (0o644, 0o600));
}

#[test]
fn a_folder_is_an_image() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path().join("root");
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    std::fs::write(root.join("a/b/file"), noise(1, 200_000)).unwrap();
    std::fs::hard_link(root.join("a/b/file"), root.join("a/again")).unwrap();
    std::os::unix::fs::symlink("../b", root.join("a/b/link")).unwrap();
    let config = Config { architecture: "amd64".to_owned(), ..Config::default() };
    let (output, converted) = to(&mut Folder::new(&root, config), place.path(), &Options::default()).unwrap();
    let tree = inside(&output);
    assert_eq!(tree[&b"a/b/file"[..]].content, format!("200000 {}", blake3::hash(&noise(1, 200_000))));
    assert_eq!(tree[&b"a/b/file"[..]].content, tree[&b"a/again"[..]].content);
    assert_eq!(tree[&b"a/b/link"[..]].content, "\"../b\"");
    assert_eq!(tree[&b"a"[..]].owner, (0, 0));
    assert!(converted.bytes >= 200_000 && converted.bytes < 400_000, "{}", converted.bytes);
}

#[test]
fn enroot_finds_what_it_needs() {
    let place = tempfile::tempdir().unwrap();
    let mut made = Made::new(&[&[
        file("bin/tool", "x").mode(0o011).owner(5, 6),
        folder("closed").mode(0),
        file("dev/null", "x"),
        folder("etc"),
    ]]);
    made.run = json!({ "Env": ["A=b c"], "Entrypoint": ["/bin/it's"], "Cmd": ["x y"], "WorkingDir": "/work/here", "Volumes": { "/data": {} } });
    let (output, _) = made.convert(place.path(), &Options { format: Format::Sqsh, ..Options::default() }).unwrap();
    assert_eq!(&bytes(&output)[..4], b"hsqs");
    let tree = inside(&output);
    assert!(tree.values().all(|seen| seen.owner == (0, 0)));
    assert_eq!(tree[&b"bin/tool"[..]].mode & 0o7777, 0o511);
    assert_eq!(tree[&b"closed"[..]].mode & 0o7777, 0o700);
    assert!(tree.contains_key(&b"work/here"[..]) && !tree.contains_key(&b"dev/null"[..]));
    let content = |text: &str| format!("{} {}", text.len(), blake3::hash(text.as_bytes()));
    assert_eq!(tree[&b"etc/environment"[..]].content, content("A=b c\n"));
    let mount = "${ENROOT_ROOTFS}/data /data none x-create=dir,bind,rw,nosuid,nodev\n";
    assert_eq!(tree[&b"etc/fstab"[..]].content, content(mount));
}

#[test]
fn a_failure_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let outputs = place.path().join("outputs");
    std::fs::create_dir(&outputs).unwrap();
    let made = mixed();
    let mut source = Archive::open(made.archive(place.path()), None, Platform::here()).unwrap();
    let mut asked = 0;
    let cancelled = convert(&mut source, &Options::default(), &outputs.join("out.sif"), &mut |progress| {
        assert!(progress.done <= progress.total.unwrap());
        asked += 1;
        if asked == 50 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(cancelled, Err(Error::Cancelled)), "{cancelled:?}");
    assert_eq!(std::fs::read_dir(&outputs).unwrap().count(), 0);
    let nowhere =
        convert(&mut source, &Options::default(), &outputs.join("no/out.sif"), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(nowhere, Err(Error::Write { .. })), "{nowhere:?}");
}

#[test]
fn the_key_names_what_will_be_made() {
    let place = tempfile::tempdir().unwrap();
    let made = mixed();
    let one = open_layout(&made.layout(place.path(), gzip)).image().unwrap();
    let other = Archive::open(made.archive(place.path()), None, Platform::here()).unwrap().image().unwrap();
    let options = Options::default();
    assert_eq!(options.key(&one), options.key(&other));
    assert_ne!(options.key(&one), Options { codec: Codec::Gzip, ..options.clone() }.key(&one));
    assert_ne!(options.key(&one), Options { format: Format::Sqsh, ..options.clone() }.key(&one));
    assert_eq!(options.key(&one), Options { threads: 99, ..options }.key(&one));
}

#[test]
fn blocks_that_came_before_are_found_again_wherever_they_stand() {
    const BLOCK: usize = 128 << 10;
    // Of a word each letter is a block, and a dot a short end; `0` is a hole.
    let contents = |word: &str| -> Vec<u8> {
        let block = |letter: char| match letter {
            '0' => vec![0; BLOCK],
            '.' => noise(999, 1000),
            letter if letter.is_lowercase() => format!("{letter} and more ").repeat(BLOCK).as_bytes()[..BLOCK].to_vec(),
            letter => noise(u64::from(letter), BLOCK),
        };
        word.chars().flat_map(block).collect()
    };
    let words = [
        "AB", "AB", "ABC", "BA", "AAAA", "AAAA.", "A0B", "0AB0", "A0B", "C.", "xyABx.", "xyABx.", "xyABCx.", "yxD",
        "DCBA", "D", "ABAB0.", "E", "ABAB0.",
    ];
    let items: Vec<Item> = words.iter().enumerate().map(|(at, word)| file(format!("{at}"), contents(word))).collect();
    let place = tempfile::tempdir().unwrap();
    for codec in [Codec::Zstd, Codec::None] {
        let made = Made::new(&[&items[..9], &items[9..]]);
        let with = |threads| made.convert(place.path(), &Options { codec, threads, ..Options::default() }).unwrap();
        let (image, converted) = with(1);
        let seen = inside(&image);
        for (at, word) in words.iter().enumerate() {
            let bytes = contents(word);
            let expected = format!("{} {}", bytes.len(), blake3::hash(&bytes));
            assert_eq!(seen[at.to_string().as_bytes()].content, expected, "{word}");
        }
        let once: HashSet<_> = words.iter().collect();
        let stored: usize = once.iter().map(|word| word.replace('0', "").len()).sum();
        assert_eq!(converted.blocks, stored as u64 + 1, "each file once, and one block of small files");
        let image = bytes(&image);
        for threads in [2, 3, 8] {
            let (other, again) = with(threads);
            assert_eq!(again.digest, converted.digest);
            assert!(bytes(&other) == image, "{threads} threads");
        }
    }
}
