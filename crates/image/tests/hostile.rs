//! Archives that mean harm are contained, or refused with the name of the entry.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{Cursor, Read};
use std::path::Path;

use support::look::inside;
use support::{
    BLOCK, FILE, Item, Made, file, folder, gzip, hardlink, item, open_layout, plain, symlink, tar, to, write,
};
use trainyard_image::{Archive, Options, Platform, Source};

/// The error's whole text, after nothing was left in the folder.
fn refused(made: &Made) -> String {
    let place = tempfile::tempdir().unwrap();
    let error = made.convert(place.path(), &Options::default()).expect_err("this should be refused");
    let left: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["made.tar"]);
    text(&error)
}

fn text(error: &dyn std::error::Error) -> String {
    let cause = error.source().map(|cause| format!(": {}", text(cause))).unwrap_or_default();
    format!("{error}{cause}")
}

fn layer(items: &[Item]) -> Made {
    Made::new(&[items])
}

/// Each leads through the one before it twice: whoever follows them to the end follows 2^40.
fn links_that_double() -> Vec<Item> {
    let link = |n: u32| symlink(format!("l{n}"), format!("l{0}/../l{0}", n - 1));
    let links = [folder("d"), symlink("l0", "d")].into_iter().chain((1..=40).map(link));
    links.chain([file("l40/x", "x")]).collect()
}

#[test]
fn entries_are_refused_by_name() {
    let long = "x".repeat(300);
    let deep = "d/".repeat(3000);
    let cases: Vec<(Vec<Item>, &str, &str)> = vec![
        (vec![file("a/../../etc/passwd", "x")], "a/../../etc/passwd", "`..`"),
        (vec![file("..", "x")], "..", "`..`"),
        (vec![file(&long, "x")], "xxxx", "longer than 255"),
        (vec![file(format!("{deep}x"), "x")], "d/d/d", "longer than 4096"),
        (vec![file("zero", "x").pax("path", "a\0b")], "a\\0b", "zero byte"),
        (vec![hardlink("link", "not/there")], "link", "not there"),
        (vec![hardlink("link", "../../etc/shadow")], "link", "`..`"),
        (vec![folder("d"), hardlink("link", "d")], "link", "folder"),
        (vec![hardlink("self", "self")], "self", "not there"),
        (vec![symlink("a", "b"), symlink("b", "a"), file("a/x", "x")], "a/x", "leads to itself"),
        (vec![symlink("a", "a"), folder("a/x/y")], "a/x/y", "leads to itself"),
        (vec![file("file", "x"), file("file/below", "x")], "file/below", "no folder"),
        (vec![symlink("empty", "")], "empty", "nothing that has a name"),
        (vec![symlink("long", "t".repeat(5000))], "long", "longer than 4095"),
        (vec![file(".wh...", "")], ".wh...", "removes nothing"),
        (vec![file(".wh.", "")], ".wh.", "removes nothing"),
        (vec![item(b'Z', "odd")], "odd", "unknown kind `Z`"),
        (vec![Item { device: (5000, 1), ..item(BLOCK, "device") }], "device", "the kernel does not know"),
        (vec![file("who", "x").pax("uid", "99999999999")], "who", "uid"),
        (vec![file("who", "x").pax("gid", "-1")], "who", "gid"),
        (vec![file("when", "x").pax("mtime", "soon")], "when", "time"),
        (vec![file("size", "x").pax("size", "many")], "size", "no number"),
        (vec![Item { size: Some(1 << 40), ..file("short", "x") }], "short", "cut off"),
        (vec![Item { size: Some((1 << 33) - 1), ..item(b'x', "pax") }], "", "names and attributes"),
        (vec![Item { content: b"999 path=x\n".to_vec(), ..item(b'x', "pax") }, file("f", "")], "", "extended header"),
        (vec![file("holes", "").pax("GNU.sparse.map", "5,3,1,1").pax("GNU.sparse.size", "10")], "holes", "holes"),
        (
            vec![file("holes", "x").pax("GNU.sparse.map", "0,18446744073709551615").pax("GNU.sparse.size", "1")],
            "holes",
            "holes",
        ),
        (vec![item(FILE, "holes").pax("GNU.sparse.major", "1").pax("GNU.sparse.realsize", "5")], "holes", "holes"),
        (
            vec![file("bomb", "").pax("GNU.sparse.map", "0,0").pax("GNU.sparse.size", "18446744073709551615")],
            "bomb",
            "too large",
        ),
        (vec![file("bomb", "").xattr("user.x", vec![b'x'; 2 << 20])], "", "names and attributes"),
        (links_that_double(), "l40/x", "leads to itself"),
    ];
    for (items, name, why) in cases {
        let names: Vec<String> = items.iter().map(|item| String::from_utf8_lossy(&item.name).into_owned()).collect();
        let error = refused(&layer(&items));
        assert!(error.contains(name) && error.contains(why), "{names:?}: {error}");
        assert!(!error.contains('\n') && error.len() < 900, "{error}");
    }
}

#[test]
fn what_points_out_of_the_root_stays_in_it() {
    let place = tempfile::tempdir().unwrap();
    let outside = place.path().join("outside");
    std::fs::create_dir(&outside).unwrap();
    let target = outside.to_str().unwrap();
    let items = [
        symlink("away", target),
        file("away/written", "x"),
        symlink("up", "../../../../../.."),
        file("up/etc/up", "x"),
        file("/absolute", "x"),
        file("//double//x", "x"),
        symlink("target", "/etc/passwd"),
        hardlink("target-too", "target"),
    ];
    let (output, _) = layer(&items).convert(place.path(), &Options::default()).unwrap();
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    let tree = inside(&output);
    let written = format!("{}/written", target.trim_start_matches('/'));
    for name in [written.as_str(), "etc/up", "absolute", "double/x"] {
        assert!(tree.contains_key(name.as_bytes()), "{name}");
    }
    assert_eq!(tree[&b"target-too"[..]].content, "\"/etc/passwd\"");
}

#[test]
fn damage_is_seen() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let made = layer(&[file("a", "contents"), file("b", vec![7; 200_000])]);
    let fails = |path: &Path| {
        let source: trainyard_image::Result<Archive> = Archive::open(path, None, Platform::here());
        let converted = source.and_then(|mut source| to(&mut source, place, &Options::default()));
        text(&converted.expect_err("damage"))
    };
    let good = std::fs::read(made.archive(place)).unwrap();
    let at = good.windows(8).position(|window| window == b"contents").unwrap();
    let mut bad = good.clone();
    bad[at] ^= 1;
    let error = fails(&write(place, "bad.tar", &bad));
    assert!(error.contains("layer 1") && error.contains("is damaged"), "{error}");
    let error = fails(&write(place, "cut.tar", &good[..good.len() / 2]));
    assert!(error.contains("cut off"), "{error}");
    let error = fails(&write(place, "text.tar", b"hello"));
    assert!(error.contains("is no tar"), "{error}");
    let error = fails(&write(place, "other.tar", &tar(&[file("x", "y")])));
    assert!(error.contains("index.json") && error.contains("is it an image"), "{error}");
    for (name, json) in [("[]", "[]"), ("{", "{"), ("[{}]", "[{}]"), ("[{\"Config\":\"../../x\"}]", "..")] {
        let error = fails(&write(place, "odd.tar", &tar(&[file("manifest.json", json)])));
        assert!(error.contains("odd.tar"), "{name}: {error}");
    }
}

#[test]
fn a_layout_with_wrong_digests_or_sizes_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let made = layer(&[file("a", vec![1; 300_000])]);
    for pack in [plain as fn(&[u8]) -> Vec<u8>, gzip] {
        let layer_blob = pack(&made.layers[0]);
        let name = format!("blobs/sha256/{}", trainyard_image::Digest::of(&layer_blob).hex());
        let mut longer = layer_blob.clone();
        longer.extend([0; 512]);
        let mut other = layer_blob.clone();
        let last = other.len() - 600.min(other.len() / 2);
        other[last] ^= 0x55;
        for (bad, why) in [(longer, "another size"), (layer_blob[..layer_blob.len() - 1].to_vec(), ""), (other, "")] {
            let layout = made.layout(place.path(), pack);
            std::fs::write(layout.join(&name), bad).unwrap();
            let error = text(&to(&mut open_layout(&layout), place.path(), &Options::default()).expect_err("damage"));
            assert!(error.contains("layer 1") && error.contains(why), "{error}");
        }
        let layout = made.layout(place.path(), pack);
        for entry in std::fs::read_dir(layout.join("blobs/sha256")).unwrap() {
            let path = entry.unwrap().path();
            let good = std::fs::read(&path).unwrap();
            if good.starts_with(b"{") {
                std::fs::write(&path, [&good[..], b" "].concat()).unwrap();
                let error = text(&open_layout(&layout).image().expect_err("damage"));
                assert!(error.contains("is damaged"), "{error}");
                std::fs::write(&path, good).unwrap();
            }
        }
    }
}

/// A layer that never ends: entry after entry, as `make` makes the one of that number.
struct Endless(fn(u64) -> Item);

impl Source for Endless {
    fn image(&mut self) -> trainyard_image::Result<trainyard_image::Image> {
        let place = tempfile::tempdir().unwrap();
        let mut image = open_layout(&layer(&[]).layout(place.path(), plain)).image()?;
        image.layers[0].size = None;
        Ok(image)
    }

    fn layer(&mut self, _: usize) -> trainyard_image::Result<trainyard_image::Blob> {
        Ok(trainyard_image::Blob::Stream(Box::new(Entries { make: self.0, next: 0, now: Cursor::default() })))
    }
}

struct Entries {
    make: fn(u64) -> Item,
    next: u64,
    now: Cursor<Vec<u8>>,
}

impl Read for Entries {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.now.position() == self.now.get_ref().len() as u64 {
            let mut entry = tar(&[(self.make)(self.next)]);
            // Without the end of the tar.
            entry.truncate(entry.len() - 1024);
            (self.now, self.next) = (Cursor::new(entry), self.next + 1);
        }
        self.now.read(buffer)
    }
}

/// Bombs of attributes, of links and of their names are stopped, in bounded memory.
#[test]
fn entries_without_end_are_refused() {
    let bombs: [fn(u64) -> Item; 2] = [
        |number| file(format!("{}{number}", "folder/".repeat(500)), "").xattr("user.note", vec![b'x'; 500_000]),
        |number| match number {
            0 => file("target", "x"),
            number => hardlink(format!("{}{number}", "folder/".repeat(500)), "target"),
        },
    ];
    for bomb in bombs {
        let place = tempfile::tempdir().unwrap();
        let error = text(&to(&mut Endless(bomb), place.path(), &Options::default()).expect_err("an end"));
        assert!(error.contains("is too many") && error.contains("folder/folder"), "{error}");
    }
}

#[test]
fn what_unpacks_to_more_than_allowed_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let made = layer(&[file("small", "x"), file("bomb", vec![0; 3_000_000])]);
    let options = Options { most_bytes: 2_000_000, ..Options::default() };
    let error = to(&mut open_layout(&made.layout(place.path(), gzip)), place.path(), &options).expect_err("too large");
    assert!(text(&error).contains("`bomb` is too large"), "{}", text(&error));
}

/// What comes after the end of a tar is read for the digest, but not for ever.
#[test]
fn a_tail_without_end_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let mut made = layer(&[file("a", "x")]);
    made.layers[0].extend(vec![0; 80 << 20]);
    let error =
        to(&mut open_layout(&made.layout(place.path(), gzip)), place.path(), &Options::default()).expect_err("a tail");
    assert!(text(&error).contains("goes on and on"), "{}", text(&error));
}

/// Contents that were thought to be hidden, and are not: their layer is read again.
#[test]
fn what_only_seemed_hidden_is_there() {
    let place = tempfile::tempdir().unwrap();
    let base = [
        folder("real"),
        symlink("way", "real"),
        // Through the link; the layer above makes a folder of the same name.
        file("way/file", "below"),
        file("linked", "linked contents"),
        file("big", vec![3; 400_000]),
    ];
    let top = [
        hardlink("kept", "linked"),
        file(".wh.linked", ""),
        hardlink("big-kept", "big"),
        file("big", "small now"),
        file(".wh.way", ""),
        folder("way"),
        file("way/file", "above"),
    ];
    let (output, _) = Made::new(&[&base, &top]).convert(place.path(), &Options::default()).unwrap();
    let tree = inside(&output);
    let content = |text: &[u8]| format!("{} {}", text.len(), blake3::hash(text));
    assert_eq!(tree[&b"real/file"[..]].content, content(b"below"));
    assert_eq!(tree[&b"way/file"[..]].content, content(b"above"));
    assert_eq!(tree[&b"kept"[..]].content, content(b"linked contents"));
    assert_eq!(tree[&b"big-kept"[..]].content, content(&[3; 400_000]));
    assert_eq!(tree[&b"big"[..]].content, content(b"small now"));
    assert!(!tree.contains_key(&b"linked"[..]));
}
