//! Our images beside apptainer's own builds of the same archives: the same tree, entry by entry; and apptainer runs ours.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::json;
use support::engine::{apptainer, build, busybox, run, unpack};
use support::look::{Seen, Tree, differences, inside, look};
use support::{BLOCK, CHAR, FIFO, Item, Made, file, folder, hardlink, item, noise, symlink};
use trainyard_image::{Codec, Format, Options};

/// Of what apptainer writes or touches itself, only names, modes and owners can be the same.
fn without_dress(mut tree: Tree) -> Tree {
    for (name, seen) in &mut tree {
        let is_folder = seen.mode & 0o170_000 == 0o040_000;
        let is_dressed =
            name.starts_with(b".singularity.d") || [&b"etc/hosts"[..], b"etc/resolv.conf"].contains(&name.as_slice());
        if is_dressed {
            seen.content.clear();
        }
        // A folder that something was added to has the time of that.
        if is_dressed || is_folder || seen.mtime == 0 || seen.mtime > 1_700_000_000 {
            seen.mtime = 0;
        }
        // mksquashfs keeps a link with two names as two links.
        if is_dressed || seen.mode & 0o170_000 == 0o120_000 {
            seen.first.clear();
        }
    }
    tree
}

/// How a tree is read out of an image.
type Reader = fn(&Path, &Path) -> Tree;

fn unpacked(image: &Path, place: &Path) -> Tree {
    look(&unpack(image, place))
}

fn compare(made: &Made) {
    compare_by(made, unpacked);
}

fn compare_by(made: &Made, read: Reader) {
    let place = tempfile::Builder::new().prefix("image-").tempdir_in(scratch()).unwrap();
    let place = place.path();
    let (ours, _) = made.convert(place, &Options::default()).unwrap();
    let theirs = build(&place.join("made.tar"), place);
    let (ours, theirs) = (without_dress(read(&ours, place)), without_dress(read(&theirs, place)));
    assert!(ours.len() > 20, "{}", ours.len());
    assert_eq!(differences(&ours, &theirs), Vec::<String>::new());
}

/// On a disk: `/tmp` may be memory, and some of these images are large.
fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

#[test]
fn whiteouts_in_every_form() {
    let base = [
        folder("a"),
        file("a/gone", "1"),
        file("a/kept", "2"),
        folder("a/sub"),
        file("a/sub/x", "3"),
        folder("opaque"),
        file("opaque/old", "4"),
        folder("opaque/deep"),
        file("opaque/deep/old", "5"),
        folder("late"),
        file("late/old", "6"),
        folder("both"),
        file("both/old", "7"),
        folder("again"),
        file("again/x", "8"),
        symlink("alias", "a"),
        file("plain", "9"),
        folder("replaced"),
        file("replaced/x", "10"),
        file("cut", "11"),
    ];
    let middle = [
        file("a/.wh.gone", ""),
        file("a/.wh.sub", ""),
        file("a/.wh.never-there", ""),
        // The mark before its layer's files, and after them.
        file("opaque/.wh..wh..opq", ""),
        file("opaque/new", "new"),
        file("late/new", "new"),
        file("late/.wh..wh..opq", ""),
        // A whiteout beside the same name in one layer: only what was below goes.
        file("both/.wh.old", ""),
        folder("both"),
        file("both/new", "new"),
        file(".wh.again", ""),
        file(".wh..wh.plnk", ""),
        folder("replaced"),
        file("replaced/.wh..wh..opq", ""),
        file("missing/.wh.x", ""),
    ];
    let top = [
        folder("again"),
        file("again/y", "back"),
        file(".wh.plain", ""),
        // Through a link.
        file("alias/.wh.kept", ""),
        file("alias/new", "new"),
        file(".wh.cut", ""),
        file("opaque/.wh.new", ""),
    ];
    compare(&Made::new(&[&base, &middle, &top]));
}

#[test]
fn hard_links_across_layers() {
    let base = [
        folder("d"),
        file("d/one", "one"),
        hardlink("d/two", "d/one"),
        hardlink("three", "./d/one"),
        file("changed", "old"),
        hardlink("still-old", "changed"),
        file("big", noise(1, 300_000)),
        symlink("link", "d/one"),
        folder("real"),
        symlink("way", "real"),
        file("real/file", "real"),
    ];
    let top = [
        // To a file of the layer below, whose own name goes afterwards.
        hardlink("four", "d/one"),
        file("d/.wh.one", ""),
        file("changed", "new"),
        hardlink("big-too", "big"),
        hardlink("link-too", "link"),
        hardlink("through", "way/file"),
        hardlink("d/self", "d/self-first"),
    ];
    let top = [&[file("d/self-first", "self")], &top[..]].concat();
    compare(&Made::new(&[&base, &top]));
}

#[test]
fn modes_owners_devices_and_attributes() {
    // Version 2, one permitted capability.
    let capability = [1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let base = [
        folder("bin"),
        file("bin/setuid", "x").mode(0o4755),
        file("bin/setgid", "x").mode(0o2755).owner(0, 42),
        folder("sticky").mode(0o1777),
        folder("shared").mode(0o2770).owner(1000, 1001),
        file("shared/secret", "s").mode(0o600).owner(1000, 1001),
        file("shared/none", "s").mode(0),
        file("ping", "p").mode(0o755).xattr("security.capability", capability),
        file("noted", "n").xattr("user.note", "hello").xattr("user.empty", "").xattr("security.selinux", "label"),
        folder("noted-folder").xattr("user.note", "hello"),
        file("far", "f").owner(2_000_000, 70_000),
        Item { device: (1, 3), ..item(CHAR, "null") }.mode(0o666),
        Item { device: (259, 70_000), ..item(BLOCK, "disk") }.mode(0o660).owner(0, 6),
        item(FIFO, "fifo").mode(0o620),
        Item { mtime: 1, ..file("old", "o") },
        file("exact", noise(2, 131_072)),
        file("exact-two", noise(3, 262_144)),
        file("one-more", noise(4, 131_073)),
        file("twin", noise(4, 131_073)),
        file("small-twin", "x"),
        file("empty", ""),
        file("zeros", vec![0; 400_000]),
    ];
    let top = [folder("sticky").mode(0o700).owner(7, 8), file("etc/hosts", "mine").mode(0o600).owner(5, 6)];
    compare(&Made::new(&[&base, &top]));
}

#[test]
fn names_of_all_kinds() {
    let long = "n".repeat(255);
    let deep = vec!["folder"; 60].join("/");
    let base = [
        file("grüße/日本語.txt", "x"),
        file(b"latin-\xe9\xff", "x"),
        file("with space and 'quotes' \"$x`", "x"),
        file("line\nbreak", "x"),
        file(".hidden", "x"),
        file("-dash", "x"),
        file(&long, "x"),
        file(format!("{deep}/{long}"), "x"),
        symlink("to-long", format!("{deep}/{long}")),
        symlink("to-ünï", "grüße/日本語.txt"),
        file("./dotted", "x"),
        file("/absolute", "x"),
        file("a//b///c", "x"),
        file(".whale", "x"),
        file("x.wh.y", "x"),
    ];
    compare(&Made::new(&[&base]));
}

#[test]
fn links_on_the_way_and_replacements() {
    let base = [
        folder("usr/bin"),
        symlink("bin", "usr/bin"),
        symlink("absolute", "/usr/bin"),
        symlink("up", "usr/../usr/bin"),
        symlink("above", "../../../usr"),
        symlink("dangling", "made/later"),
        file("file", "old"),
        folder("folder"),
        file("folder/x", "x"),
        symlink("link", "folder"),
        folder("var"),
        symlink("var/tmp", "/tmp"),
        folder("tmp").mode(0o1777),
    ];
    let top = [
        file("bin/tool", "1"),
        file("absolute/two", "2"),
        file("up/three", "3"),
        file("above/four", "4"),
        file("dangling/five", "5"),
        folder("file"),
        file("file/inside", "6"),
        file("folder", "now a file"),
        folder("link").mode(0o700),
        file("link/own", "7"),
        file("twice", "first"),
        file("twice", "second"),
    ];
    compare(&Made::new(&[&base, &top]));
}

#[test]
fn a_hundred_thousand_small_files() {
    let mut items = Vec::new();
    for number in 0..100_000 {
        let name = if number < 30_000 {
            format!("flat/{number:x}-name")
        } else {
            format!("tree/{}/{}/{number}", number % 40, number % 7)
        };
        items.push(file(name, format!("contents of {}", number / 2)));
    }
    // Out of the image: a disk needs minutes for two hundred thousand files.
    compare_by(&Made::new(&[&items]), |image, _| inside(image));
}

#[test]
fn five_gigabytes_with_holes() {
    let size = 5_000_000_123u64;
    let (start, end) = (noise(5, 200_000), noise(6, 1000));
    let middle = 4_294_967_296u64 + 17;
    let map = format!("3\n0\n{}\n{middle}\n{}\n{size}\n0\n", start.len(), end.len());
    let mut content = map.into_bytes();
    content.resize(512, 0);
    content.extend(&start);
    content.extend(&end);
    let sparse = file("GNUSparseFile.0/sparse", content)
        .pax("GNU.sparse.major", "1")
        .pax("GNU.sparse.minor", "0")
        .pax("GNU.sparse.name", "sparse")
        .pax("GNU.sparse.realsize", size.to_string());
    compare(&Made::new(&[&[sparse, file("after", "x")]]));
}

/// Busybox as all there is, and more.
fn runnable(more: &[Item]) -> Made {
    let mut base = vec![
        folder("bin"),
        file("bin/busybox", busybox()).mode(0o755),
        folder("etc"),
        file("etc/passwd", ""),
        file("etc/group", ""),
    ];
    base.extend(
        ["sh", "echo", "env", "id", "touch", "printf", "ls", "stat", "cat"]
            .map(|name| symlink(format!("bin/{name}"), "busybox")),
    );
    base.extend_from_slice(more);
    let mut made = Made::new(&[&base]);
    made.run = json!({
        "Env": ["PATH=/bin", "PLAIN=value", "HARD=a \"b\" $c `d` 'e' \\f", "EMPTY=", "1BAD=x"],
        "Entrypoint": ["/bin/printf", "[%s]"],
        "Cmd": ["it's", "a \"b\" $c `d`"],
        "Labels": { "maker": "test" },
        "WorkingDir": "/bin",
    });
    made
}

/// `apptainer WORDS`, as whoever is told, in an empty environment.
fn answer(user: u32, home: &Path, words: &[&str]) -> String {
    let mut command = Command::new("setpriv");
    let id = user.to_string();
    command.args([
        "--reuid",
        &id,
        "--regid",
        &id,
        "--clear-groups",
        "env",
        "-i",
        "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
        "PROMPTED=outside",
    ]);
    command.arg(format!("HOME={}", home.display()));
    if user != 0 {
        // Not every machine lets its users mount.
        command.arg("APPTAINER_UNSQUASH=1");
    }
    command
        .arg(support::engine::programs().join("apptainer"))
        .args(["--quiet", "--silent"])
        .args(words)
        .current_dir(home);
    String::from_utf8(run(&mut command).stdout).unwrap()
}

fn runs_as(user: u32) {
    let place = tempfile::Builder::new().prefix("image-").tempdir_in("/var/tmp").unwrap();
    let home = place.path();
    let secret = file("secret", "s").mode(0o644).owner(1234, 1234);
    let (image, _) = runnable(&[secret]).convert(home, &Options::default()).unwrap();
    std::os::unix::fs::chown(home, Some(user), Some(user)).unwrap();
    let image = image.to_str().unwrap();
    // A root without all capabilities cannot ask for all of them.
    let more: &[&str] = if user == 0 { &["--drop-caps", "CAP_SYS_RESOURCE"] } else { &[] };
    let all = |first: &str, rest: &[&str]| answer(user, home, &[&[first], more, rest].concat());
    assert_eq!(all("run", &[image]), "[it's][a \"b\" $c `d`]");
    assert_eq!(all("run", &[image, "one", "two three"]), "[one][two three]");
    let env = all("exec", &["--env", "GIVEN=x", image, "env"]);
    for line in [
        "PLAIN=value",
        "HARD=a \"b\" $c `d` 'e' \\f",
        "EMPTY=",
        "GIVEN=x",
        "PROMPTED=outside",
        "LD_LIBRARY_PATH=/.singularity.d/libs",
    ] {
        assert!(env.lines().any(|found| found == line), "{line} is not in\n{env}");
    }
    assert_eq!(all("exec", &["--writable-tmpfs", image, "sh", "-c", "echo new >/written && cat /written"]), "new\n");
    assert_eq!(all("exec", &[image, "stat", "-c", "%a", "/secret"]), "644\n");
    assert!(answer(user, home, &["inspect", image]).contains("maker: test"));
    assert!(answer(user, home, &["inspect", "--runscript", image]).contains("printf"));
}

#[test]
fn root_runs_it() {
    runs_as(0);
}

#[test]
fn anybody_runs_it() {
    runs_as(65534);
}

/// As root inside: root's files are one's own, and so are new ones. Without a range of users of one's own (`/etc/subuid`) there is
/// nobody else, so it holds no others' files; and the machine's `fakeroot` would want an image with its C library.
#[test]
fn anybody_is_root_in_it() {
    let place = tempfile::Builder::new().prefix("image-").tempdir_in("/var/tmp").unwrap();
    let home = place.path();
    let (image, _) = runnable(&[]).convert(home, &Options::default()).unwrap();
    std::os::unix::fs::chown(home, Some(65534), Some(65534)).unwrap();
    let look = "id -u; touch /etc/new; stat -c '%u %g %a' /bin/busybox /etc/passwd /etc/new";
    let words = ["exec", "--fakeroot", "--ignore-fakeroot-command", "--writable-tmpfs", image.to_str().unwrap()];
    let said = answer(65534, home, &[&words[..], &["sh", "-c", look]].concat());
    assert_eq!(said, "0\n0 0 755\n0 0 644\n0 0 644\n");
}

#[test]
fn apptainer_is_content_with_the_file() {
    let place = tempfile::tempdir().unwrap();
    let (image, _) = runnable(&[]).convert(place.path(), &Options::default()).unwrap();
    let listed = run(apptainer().args(["sif", "list"]).arg(&image));
    let listed = String::from_utf8(listed.stdout).unwrap();
    for what in ["Def.FILE", "JSON.Generic", "FS (Squashfs/*System/amd64)"] {
        assert!(listed.contains(what), "{listed}");
    }
}

/// Arguments: where in the image, the image, and a folder to mount it at.
const BY_THE_KERNEL: &str = r#"mount -t squashfs -o "loop,ro,offset=$1" "$2" "$3""#;
const BY_SQUASHFUSE: &str = r#"squashfuse -o "offset=$1" "$2" "$3""#;

/// What is seen of an image that is mounted where nobody else sees it.
fn mounted(how: &str, image: &Path, place: &Path) -> Tree {
    let script = format!("set -e; {how} </dev/null; echo up; cat >/dev/null; umount \"$3\"");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, "sh", &support::engine::partition(image).to_string()]);
    command.arg(image).arg(place).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut mount = command.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(mount.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "up\n", "{how}");
    let tree = look(Path::new(&format!("/proc/{}/root{}", mount.id(), place.display())));
    drop(mount.stdin.take());
    assert!(mount.wait().unwrap().success(), "{how}");
    tree
}

/// It knows no second names, and 0.1.105 takes `security.` for `trusted.`.
fn as_squashfuse(seen: &mut Seen) {
    seen.first.clear();
    seen.xattrs.iter_mut().for_each(|(name, _)| *name = name.replace("security.", "trusted."));
}

#[test]
fn what_mounts_images_sees_what_unpacks_them() {
    let mut items = vec![
        file("setuid", "x").mode(0o4755),
        folder("shared").mode(0o2770).owner(1000, 1001),
        file("shared/secret", "s").mode(0o600).owner(70_000, 2_000_000),
        file("noted", "n")
            .xattr("user.note", "hello")
            .xattr("security.capability", [1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
        Item { device: (259, 70_000), ..item(BLOCK, "disk") }.mode(0o660),
        item(FIFO, "fifo"),
        file("large", noise(1, 1_000_000)),
        hardlink("again", "large"),
        file("holes", [vec![1; 131_072], vec![0; 400_000], vec![2; 5]].concat()),
        symlink("grüße", "to nowhere"),
    ];
    // So many that their folder has an index.
    items.extend((0..2000).map(|number| file(format!("many/{number:x}-name"), format!("contents of {number}"))));
    let made = Made::new(&[&items]);
    for codec in [Codec::Zstd, Codec::Gzip] {
        let place = tempfile::Builder::new().prefix("image-").tempdir_in(scratch()).unwrap();
        let (image, _) = made.convert(place.path(), &Options { codec, ..Options::default() }).unwrap();
        let unpacked = look(&unpack(&image, place.path()));
        assert!(unpacked.len() > 2000, "{}", unpacked.len());
        let at = place.path().join("mounted");
        std::fs::create_dir(&at).unwrap();
        for how in [BY_THE_KERNEL, BY_SQUASHFUSE] {
            let (mut seen, mut expected) = (mounted(how, &image, &at), unpacked.clone());
            if how == BY_SQUASHFUSE {
                [&mut seen, &mut expected].into_iter().flat_map(Tree::values_mut).for_each(as_squashfuse);
            }
            assert_eq!(differences(&seen, &expected), Vec::<String>::new(), "{codec:?}: {how}");
        }
    }
}

#[test]
fn what_pyxis_gets_is_read_by_others() {
    let place = tempfile::Builder::new().prefix("image-").tempdir_in(scratch()).unwrap();
    let mut made =
        Made::new(&[&[file("bin/tool", noise(1, 300_000)), file("etc/version", "1"), symlink("t", "bin/tool")]]);
    made.run = json!({ "Env": ["A=b c"], "Entrypoint": ["/bin/tool"], "WorkingDir": "/work" });
    let options = Options { format: Format::Sqsh, ..Options::default() };
    let (output, _) = made.convert(place.path(), &options).unwrap();
    let root = unpack(&output, place.path());
    assert_eq!(std::fs::read(root.join("bin/tool")).unwrap(), noise(1, 300_000));
    assert_eq!(std::fs::read_to_string(root.join("etc/environment")).unwrap(), "A=b c\n");
    assert_eq!(std::fs::read_link(root.join("t")).unwrap(), Path::new("bin/tool"));
    let listed = run(Command::new("unsquashfs").args(["-lls", "-quiet"]).arg(&output));
    let listed = String::from_utf8(listed.stdout).unwrap();
    let shown: Vec<&str> = listed.lines().filter(|line| line.contains("squashfs-root")).collect();
    assert!(shown.len() > 8 && shown.iter().all(|line| line.contains("root/root")), "{listed}");
    let rc = std::fs::read_to_string(root.join("etc/rc")).unwrap();
    assert!(rc.contains("cd '/work'") && rc.contains("/bin/tool"), "{rc}");
}
