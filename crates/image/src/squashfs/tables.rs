//! Everything after the contents of files, for a tree whose contents are written.

use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};
use crate::squashfs::codec::{Codec, Compressor};
use crate::squashfs::contents::ContentId;
use crate::squashfs::directory::{self, Listing, Name};
use crate::squashfs::inode::{Head, Inode};
use crate::squashfs::metadata::{Metadata, Reference};
use crate::squashfs::superblock::Superblock;
use crate::squashfs::writer::Written;
use crate::squashfs::xattr;
use crate::tree::{Body, Children, NodeId, ROOT, Tree};

/// Readers map the file in pages.
const PADDED_TO: u64 = 4096;

/// Writes the tables after the contents, and the superblock before them, and tells the length of all. `content` tells where a
/// file's contents are.
pub(crate) fn write_tables(
    tree: &Tree,
    written: &Written,
    base: u64,
    codec: Codec,
    content: &dyn Fn(NodeId) -> ContentId,
) -> Result<io::Result<u64>> {
    let mut compressor = codec.compressor();
    let numbered = Numbered::new(tree);
    let ids = Ids::new(tree, &numbered)?;
    let mut inodes = Inodes::new(tree, &numbered, &ids, written, content);
    let (inode_table, directory_table) = inodes.write(&mut compressor, &mut codec.compressor())?;
    let mut out = Out { bytes: Vec::new(), start: written.end - base };
    let inode_start = out.table(&inode_table);
    let directory_start = out.table(&directory_table);
    let fragments = written
        .fragments
        .iter()
        .flat_map(|(start, length)| [start.to_le_bytes().as_slice(), &length.to_le_bytes(), &[0; 4]].concat());
    let fragment_start = out.looked_up(&fragments.collect::<Vec<u8>>(), &mut compressor);
    let exports: Vec<u8> = inodes.places.iter().flat_map(|place| place.number().to_le_bytes()).collect();
    let export_start = out.looked_up(&exports, &mut compressor);
    let list: Vec<u8> = ids.list.iter().flat_map(|id| id.to_le_bytes()).collect();
    let id_start = out.looked_up(&list, &mut compressor);
    let xattrs = xattr::table(tree.xattrs(), out.end(), &mut compressor);
    let xattr_start = xattrs.map(|(bytes, head)| {
        out.bytes.extend(bytes);
        head
    });
    let superblock = Superblock {
        codec,
        inodes: number(inodes.places.len()),
        fragments: number(written.fragments.len()),
        ids: u16::try_from(ids.list.len()).unwrap_or_default(),
        root: inodes.places[inodes.places.len() - 1].number(),
        end: out.end(),
        id_table: id_start,
        xattr_table: xattr_start,
        inode_table: inode_start,
        directory_table: directory_start,
        fragment_table: fragment_start,
        export_table: export_start,
    };
    Ok(out.save(written, base, &superblock))
}

/// The tables' bytes, which begin at `start` of the squashfs.
struct Out {
    bytes: Vec<u8>,
    start: u64,
}

impl Out {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// A table that is found by references.
    fn table(&mut self, table: &[u8]) -> u64 {
        let start = self.end();
        self.bytes.extend(table);
        start
    }

    /// A table with a list of where its blocks begin, which is what the superblock points at.
    fn looked_up(&mut self, plain: &[u8], compressor: &mut Compressor) -> u64 {
        let mut metadata = Metadata::new(compressor);
        metadata.write(plain);
        let (bytes, starts) = metadata.finish();
        let start = self.end();
        self.bytes.extend(bytes);
        let list = self.end();
        starts.iter().for_each(|place| self.bytes.extend((start + place).to_le_bytes()));
        list
    }

    fn save(mut self, written: &Written, base: u64, superblock: &Superblock) -> io::Result<u64> {
        let size = self.end().next_multiple_of(PADDED_TO);
        self.bytes.resize(usize::try_from(size - self.start).unwrap_or_default(), 0);
        written.file.write_all_at(&self.bytes, base + self.start)?;
        // Behind it may be blocks of a file that turned out to be there already.
        written.file.set_len(base + size)?;
        written.file.write_all_at(&superblock.encode(), base)?;
        Ok(size)
    }
}

/// Inodes in the order in which they are written, which is that of their numbers: the children of a folder together, after all
/// that is below them. The root is the last.
struct Numbered {
    /// Folders, each after those below it.
    folders: Vec<NodeId>,
    /// By node; 0 where a node is no longer in the tree.
    numbers: Vec<u32>,
    links: Vec<u32>,
    count: u32,
}

impl Numbered {
    fn new(tree: &Tree) -> Self {
        let mut folders = vec![ROOT];
        let mut at = 0;
        while let Some(folder) = folders.get(at).copied() {
            let below = children(tree, folder).filter(|(_, id)| tree.children(*id).is_some()).map(|(_, id)| id);
            folders.extend(below);
            at += 1;
        }
        folders.reverse();
        let mut numbered =
            Self { folders, numbers: vec![0; tree.capacity()], links: vec![0; tree.capacity()], count: 0 };
        for folder in numbered.folders.clone() {
            numbered.number_children(tree, folder);
        }
        numbered.count += 1;
        numbered.numbers[Tree::index(ROOT)] = numbered.count;
        numbered.links[Tree::index(ROOT)] += 2;
        numbered
    }

    fn number_children(&mut self, tree: &Tree, folder: NodeId) {
        for (_, child) in children(tree, folder) {
            let at = Tree::index(child);
            if self.numbers[at] == 0 {
                self.count += 1;
                self.numbers[at] = self.count;
            }
            self.links[at] += 1;
            if tree.children(child).is_some() {
                // Its own `.`, and its `..` in the parent.
                self.links[at] += 1;
                self.links[Tree::index(folder)] += 1;
            }
        }
    }

    fn number(&self, id: NodeId) -> u32 {
        self.numbers[Tree::index(id)]
    }
}

fn children(tree: &Tree, folder: NodeId) -> impl Iterator<Item = (&[u8], NodeId)> {
    tree.children(folder).into_iter().flat_map(Children::iter).map(|(name, child)| (&**name, child.id))
}

/// Every owner and group, once.
struct Ids {
    list: Vec<u32>,
    places: BTreeMap<u32, u16>,
}

impl Ids {
    fn new(tree: &Tree, numbered: &Numbered) -> Result<Self> {
        let mut ids = Self { list: Vec::new(), places: BTreeMap::new() };
        for folder in numbered.folders.iter().rev() {
            ids.add(tree, *folder, b"/")?;
            for (name, child) in children(tree, *folder) {
                ids.add(tree, child, name)?;
            }
        }
        Ok(ids)
    }

    fn add(&mut self, tree: &Tree, node: NodeId, name: &[u8]) -> Result<()> {
        let node = tree.node(node);
        for id in [node.uid, node.gid] {
            if self.places.contains_key(&id) {
                continue;
            }
            let place = u16::try_from(self.list.len()).ok().filter(|place| *place < u16::MAX);
            let place = place
                .ok_or_else(|| Error::entry("the image", name, "has one owner too many: 65,535 can be told apart"))?;
            self.places.insert(id, place);
            self.list.push(id);
        }
        Ok(())
    }

    fn place(&self, id: u32) -> u16 {
        self.places.get(&id).copied().unwrap_or_default()
    }
}

struct Inodes<'a> {
    tree: &'a Tree,
    numbered: &'a Numbered,
    ids: &'a Ids,
    written: &'a Written,
    content: &'a dyn Fn(NodeId) -> ContentId,
    /// By number, from 1.
    places: Vec<Reference>,
    listings: Vec<Option<Listing>>,
    parents: Vec<u32>,
}

impl<'a> Inodes<'a> {
    fn new(
        tree: &'a Tree,
        numbered: &'a Numbered,
        ids: &'a Ids,
        written: &'a Written,
        content: &'a dyn Fn(NodeId) -> ContentId,
    ) -> Self {
        let count = numbered.count as usize;
        let mut listings = Vec::new();
        listings.resize_with(tree.capacity(), || None);
        let mut parents = vec![0; tree.capacity()];
        // The root's parent is a number that no inode has.
        parents[Tree::index(ROOT)] = numbered.count + 1;
        for folder in &numbered.folders {
            for (_, child) in children(tree, *folder) {
                parents[Tree::index(child)] = numbered.number(*folder);
            }
        }
        Self { tree, numbered, ids, written, content, places: Vec::with_capacity(count), listings, parents }
    }

    fn write(&mut self, one: &mut Compressor, other: &mut Compressor) -> Result<(Vec<u8>, Vec<u8>)> {
        let (mut inodes, mut directories) = (Metadata::new(one), Metadata::new(other));
        for folder in &self.numbered.folders {
            let mut names = Vec::new();
            for (name, child) in children(self.tree, *folder) {
                let kind = self.inode(child, &mut inodes);
                let number = self.numbered.number(child);
                names.push(Name { name, inode: self.places[number as usize - 1], number, kind });
            }
            let listing = directory::write(&names, &mut directories);
            if listing.marks.len() > usize::from(u16::MAX) {
                return Err(Error::malformed("the image", "has a folder with more names than squashfs can hold"));
            }
            self.listings[Tree::index(*folder)] = Some(listing);
        }
        self.inode(ROOT, &mut inodes);
        Ok((inodes.finish().0, directories.finish().0))
    }

    /// Writes the inode, unless it is there under another name, and tells its kind.
    fn inode(&mut self, id: NodeId, table: &mut Metadata<'_>) -> u16 {
        let node = self.tree.node(id);
        let at = Tree::index(id);
        let nothing = Listing { start: Reference::default(), size: 0, marks: Vec::new() };
        let inode = match &node.body {
            Body::Folder(_) => {
                let listing = self.listings[at].as_ref().unwrap_or(&nothing);
                Inode::Folder { listing, parent: self.parents[at] }
            }
            Body::File { .. } => match (self.content)(id) {
                ContentId::Empty => Inode::Empty,
                ContentId::Small { fragment, offset, size } => Inode::Small { fragment, offset, size },
                ContentId::Large(large) => Inode::Large(&self.written.large[large as usize]),
            },
            Body::Symlink(target) => Inode::Symlink(target),
            Body::Block(device) => Inode::Block(*device),
            Body::Char(device) => Inode::Char(*device),
            Body::Fifo => Inode::Fifo,
            Body::Socket => Inode::Socket,
        };
        let number = self.numbered.number(id);
        if self.places.len() < number as usize {
            let (uid, gid) = (self.ids.place(node.uid), self.ids.place(node.gid));
            let links = self.numbered.links[at];
            let head = Head { mode: node.mode, uid, gid, mtime: node.mtime, number, links, xattrs: node.xattrs };
            self.places.push(table.reference());
            table.write(&inode.encode(&head));
        }
        inode.kind()
    }
}

fn number(value: usize) -> u32 {
    u32::try_from(value).unwrap_or(u32::MAX)
}
