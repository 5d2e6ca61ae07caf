//! The merged tree of an image: names and attributes, and for each file where its contents are to be found. All in
//! memory, within a budget; contents never are.

mod merge;
mod path;

use std::collections::{BTreeMap, HashMap};

use crate::entry::{Device, Meta, Xattrs};
use crate::error::Result;

pub(crate) use merge::Whiteout;
pub(crate) use path::components;

/// For names and attributes of all layers. An image of a million entries needs a quarter of it.
const MOST_MEMORY: u64 = 384 << 20;
/// What an entry costs beside its name.
const ENTRY_COST: u64 = 160;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct NodeId(u32);

pub(crate) const ROOT: NodeId = NodeId(0);

/// Which entry of which layer brings a file's contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Origin {
    pub(crate) layer: u32,
    pub(crate) entry: u32,
}

pub(crate) type Children = BTreeMap<Box<[u8]>, Child>;

/// A name in a folder.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Child {
    pub(crate) id: NodeId,
    /// The layer that brought the name.
    layer: u32,
}

#[derive(Debug)]
pub(crate) enum Body {
    Folder(Children),
    File { origin: Origin, size: u64 },
    Symlink(Box<[u8]>),
    Block(Device),
    Char(Device),
    Fifo,
    Socket,
}

#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) body: Body,
    pub(crate) mode: u16,
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) mtime: u32,
    /// Into [`Tree::xattrs`].
    pub(crate) xattrs: Option<u32>,
    /// Of a folder: the highest layer that has it or something below it.
    layer: u32,
    /// Of a folder: the layer that removed all from lower ones, and need not do so again.
    cleared: Option<u32>,
}

#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    xattrs: Vec<Xattrs>,
    known_xattrs: HashMap<Xattrs, u32>,
    spent: u64,
    last: Option<merge::Last>,
}

impl Tree {
    /// With nothing but the root.
    pub(crate) fn new() -> Self {
        let mut tree =
            Self { nodes: Vec::new(), xattrs: Vec::new(), known_xattrs: HashMap::new(), spent: 0, last: None };
        tree.add(Body::Folder(Children::new()), Meta::plain(0o755), 0);
        tree
    }

    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn node_mut(&mut self, id: NodeId) -> &mut Node {
        &mut self.nodes[id.0 as usize]
    }

    /// More than there are ids of nodes.
    pub(crate) fn capacity(&self) -> usize {
        self.nodes.len()
    }

    pub(crate) fn index(id: NodeId) -> usize {
        id.0 as usize
    }

    pub(crate) fn xattrs(&self) -> &[Xattrs] {
        &self.xattrs
    }

    /// Of what is a folder; nothing below anything else.
    pub(crate) fn children(&self, id: NodeId) -> Option<&Children> {
        match &self.node(id).body {
            Body::Folder(children) => Some(children),
            _ => None,
        }
    }

    pub(crate) fn child(&self, id: NodeId, name: &[u8]) -> Option<NodeId> {
        self.children(id)?.get(name).map(|child| child.id)
    }

    fn add(&mut self, body: Body, meta: Meta, layer: u32) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).unwrap_or(u32::MAX));
        let Meta { mode, uid, gid, mtime, .. } = meta;
        let xattrs = self.intern(meta.xattrs);
        self.nodes.push(Node { body, mode, uid, gid, mtime, xattrs, layer, cleared: None });
        id
    }

    fn set_meta(&mut self, id: NodeId, meta: Meta) {
        let xattrs = self.intern(meta.xattrs);
        let node = self.node_mut(id);
        (node.mode, node.uid, node.gid, node.mtime, node.xattrs) = (meta.mode, meta.uid, meta.gid, meta.mtime, xattrs);
    }

    fn intern(&mut self, mut xattrs: Xattrs) -> Option<u32> {
        // Others cannot be written down in squashfs; and a label of the machine that made the layer is none of the image's.
        xattrs.retain(|(name, _)| {
            let kept = [&b"user."[..], b"trusted.", b"security."].iter().any(|prefix| name.starts_with(prefix));
            kept && name.as_slice() != b"security.selinux" && !name.starts_with(b"trusted.overlay.")
        });
        if xattrs.is_empty() {
            return None;
        }
        if let Some(known) = self.known_xattrs.get(&xattrs) {
            return Some(*known);
        }
        let id = u32::try_from(self.xattrs.len()).unwrap_or(u32::MAX);
        self.xattrs.push(xattrs.clone());
        self.known_xattrs.insert(xattrs, id);
        Some(id)
    }

    fn put(&mut self, folder: NodeId, name: &[u8], id: NodeId, layer: u32) {
        if let Body::Folder(children) = &mut self.node_mut(folder).body {
            children.insert(name.into(), Child { id, layer });
        }
    }

    fn remove(&mut self, folder: NodeId, name: &[u8]) {
        if let Body::Folder(children) = &mut self.node_mut(folder).body {
            children.remove(name);
        }
    }

    /// Takes note of memory that an entry needs, and refuses the one that is too many.
    fn spend(&mut self, bytes: usize) -> Result<(), String> {
        self.spent += bytes as u64 + ENTRY_COST;
        if self.spent > MOST_MEMORY {
            return Err("is too many: names and attributes of the image's entries need more than 384 MiB".to_owned());
        }
        Ok(())
    }

    /// Every file's contents that are still to be seen, with their lengths, without repetition.
    pub(crate) fn origins(&self) -> Vec<(Origin, u64)> {
        let mut found = Vec::with_capacity(self.nodes.len());
        let mut folders = vec![ROOT];
        while let Some(folder) = folders.pop() {
            for child in self.children(folder).into_iter().flat_map(Children::values) {
                match &self.node(child.id).body {
                    Body::Folder(_) => folders.push(child.id),
                    Body::File { origin, size } => found.push((*origin, *size)),
                    _ => {}
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// How many files there are and their bytes together, each counted once.
    pub(crate) fn files(&self) -> (u64, u64) {
        let origins = self.origins();
        (origins.len() as u64, origins.iter().map(|(_, size)| size).sum())
    }
}
