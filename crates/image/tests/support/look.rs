//! A tree on disk, as something that can be compared.

use std::collections::BTreeMap;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Kind and permissions.
    pub mode: u32,
    pub owner: (u32, u32),
    pub mtime: i64,
    pub device: u64,
    /// Of a file its BLAKE3 and length, of a link its target.
    pub content: String,
    /// The first of the names that the same file has.
    pub first: Vec<u8>,
    pub xattrs: Vec<(String, Vec<u8>)>,
}

pub type Tree = BTreeMap<Vec<u8>, Seen>;

pub fn look(root: &Path) -> Tree {
    let mut tree = Tree::new();
    let mut firsts = BTreeMap::new();
    let mut ahead = vec![root.to_owned()];
    while let Some(path) = ahead.pop() {
        let found = path.symlink_metadata().unwrap();
        let name = path.strip_prefix(root).unwrap().as_os_str().as_bytes().to_vec();
        let content = if found.is_dir() {
            let mut below: Vec<_> = path.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
            below.sort_unstable_by(|a, b| b.cmp(a));
            ahead.extend(below);
            String::new()
        } else if found.is_symlink() {
            format!("{:?}", std::fs::read_link(&path).unwrap())
        } else if found.is_file() {
            let mut hasher = blake3::Hasher::new();
            std::io::copy(&mut std::fs::File::open(&path).unwrap(), &mut hasher).unwrap();
            format!("{} {}", found.len(), hasher.finalize())
        } else {
            String::new()
        };
        let first = firsts.entry(found.ino()).or_insert_with(|| name.clone()).clone();
        let owner = (found.uid(), found.gid());
        let (mode, mtime, device) = (found.mode(), found.mtime(), found.rdev());
        tree.insert(name, Seen { mode, owner, mtime, device, content, first, xattrs: xattrs(&path) });
    }
    tree
}

fn xattrs(path: &Path) -> Vec<(String, Vec<u8>)> {
    let mut list = vec![0; 4096];
    let length = rustix::fs::llistxattr(path, list.as_mut_slice()).unwrap_or(0);
    let names = list[..length].split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let mut found: Vec<_> = names
        .map(|name| {
            let mut value = vec![0; 4096];
            let length = rustix::fs::lgetxattr(path, name, value.as_mut_slice()).unwrap();
            (String::from_utf8_lossy(name).into_owned(), value[..length].to_vec())
        })
        .collect();
    found.sort_unstable();
    found
}

/// What the two differ in, a line for each, at most twenty.
pub fn differences(ours: &Tree, theirs: &Tree) -> Vec<String> {
    let mut lines = Vec::new();
    for name in ours.keys().chain(theirs.keys().filter(|name| !ours.contains_key(*name))) {
        let (one, other) = (ours.get(name), theirs.get(name));
        if one != other {
            lines.push(format!("{}: ours {one:?}, theirs {other:?}", String::from_utf8_lossy(name)));
        }
    }
    lines.truncate(20);
    lines
}

/// The same out of the image itself, by another reader than squashfs-tools; it sees neither hard links nor attributes.
pub fn inside(image: &Path) -> Tree {
    let file = std::io::BufReader::new(std::fs::File::open(image).unwrap());
    let start = super::engine::partition(image);
    let reader = backhand::FilesystemReader::from_reader_with_offset(file, start).unwrap();
    let mut tree = Tree::new();
    for node in reader.files() {
        let name = node.fullpath.as_os_str().as_bytes().trim_start_with(b'/');
        let header = node.header;
        let (kind, content, device) = match &node.inner {
            backhand::InnerNode::File(file) => {
                let mut hasher = blake3::Hasher::new();
                let length = std::io::copy(&mut reader.file(file).reader(), &mut hasher).unwrap();
                (0o100_000, format!("{length} {}", hasher.finalize()), 0)
            }
            backhand::InnerNode::Symlink(link) => (0o120_000, format!("{:?}", link.link), 0),
            backhand::InnerNode::Dir(_) => (0o040_000, String::new(), 0),
            backhand::InnerNode::CharacterDevice(device) => (0o020_000, String::new(), device.device_number),
            backhand::InnerNode::BlockDevice(device) => (0o060_000, String::new(), device.device_number),
            backhand::InnerNode::NamedPipe => (0o010_000, String::new(), 0),
            backhand::InnerNode::Socket => (0o140_000, String::new(), 0),
        };
        let seen = Seen {
            mode: kind | u32::from(header.permissions),
            owner: (header.uid, header.gid),
            mtime: i64::from(header.mtime),
            device: u64::from(device),
            content,
            first: name.clone(),
            xattrs: Vec::new(),
        };
        tree.insert(name, seen);
    }
    tree
}

trait Trimmed {
    fn trim_start_with(&self, letter: u8) -> Vec<u8>;
}

impl Trimmed for [u8] {
    fn trim_start_with(&self, letter: u8) -> Vec<u8> {
        self.iter().copied().skip_while(|byte| *byte == letter).collect()
    }
}
