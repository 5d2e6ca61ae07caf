//! One layer is laid over those below it.
//!
//! The rules, as apptainer and Docker apply them: a folder over a folder takes its attributes and keeps its children; anything
//! else replaces what was there. `.wh.NAME` removes NAME of lower layers, `.wh..wh..opq` all children from lower
//! layers; neither touches what the same layer brings, wherever it stands in the tar. Links among the parents of an entry are
//! followed, inside of the root. A hard link is another name of what its target is at that moment.

use std::borrow::Cow;

use crate::entry::{Entry, Kind, Meta};
use crate::error::{Error, Result, shown};
use crate::tree::path::components;
use crate::tree::{Body, Child, Children, NodeId, Origin, ROOT, Tree};

/// As the kernel does.
const MOST_LINKS: usize = 40;
/// No path reaches further, unless it leads through links.
const DEEPEST: usize = 2048;
/// Of folders that no layer describes: apptainer makes them under a umask of 002.
const MADE: u16 = 0o775;
/// A page, which is what the kernel reads.
const LONGEST_TARGET: usize = 4095;

/// What a name says about lower layers.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Whiteout<'a> {
    Name(&'a [u8]),
    Opaque,
    /// Book-keeping of an old file system, of no meaning here.
    Ignored,
}

impl<'a> Whiteout<'a> {
    pub(crate) fn of(name: &'a [u8]) -> Option<Self> {
        match name.strip_prefix(b".wh.")? {
            b".wh..opq" => Some(Self::Opaque),
            rest if rest.starts_with(b".wh.") => Some(Self::Ignored),
            rest => Some(Self::Name(rest)),
        }
    }
}

/// Whether folders on the way are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Make,
    Stop,
}

/// Where the last entry went, when no link led there: nothing that is put into a folder changes the way to it.
#[derive(Debug)]
pub(super) struct Last {
    layer: u32,
    /// The path before the name, as it was written.
    written: Vec<u8>,
    folder: NodeId,
}

impl Tree {
    /// Lays one entry over the tree. Entries of lower layers come first, those of one layer in their order.
    pub(crate) fn apply(&mut self, place: &str, origin: Origin, entry: Entry) -> Result<()> {
        let Entry { path, kind, meta } = entry;
        self.applied(origin, &path, kind, meta).map_err(|why| Error::entry(place, &path, why))
    }

    /// What has that path; links on the way are followed, the last is not.
    pub(crate) fn find(&mut self, path: &[u8]) -> Option<NodeId> {
        let parts = components(path).ok()?;
        let (name, folders) = parts.split_last()?;
        let way = self.walk(folders, 0, Missing::Stop).ok()??;
        self.child(way.last().copied().unwrap_or(ROOT), name)
    }

    fn applied(&mut self, origin: Origin, path: &[u8], kind: Kind, meta: Meta) -> Result<(), String> {
        let target = if let Kind::Symlink(target) = &kind { target.len() } else { 0 };
        let xattrs: usize = meta.xattrs.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
        self.spend(path.len() + target + xattrs)?;
        let parts = components(path)?;
        let Some((name, folders)) = parts.split_last() else {
            return self.apply_root(&kind, meta);
        };
        if parts.iter().any(|part| Whiteout::of(part) == Some(Whiteout::Ignored)) {
            return Ok(());
        }
        if let Some(whiteout) = Whiteout::of(name) {
            self.last = None;
            return self.white_out(folders, &whiteout, origin.layer);
        }
        let linked = match &kind {
            Kind::Hardlink(target) => Some(self.linked(target, origin.layer)?),
            _ => None,
        };
        let written = path.strip_suffix(b"/").unwrap_or(path).strip_suffix(*name);
        let folder = self.folder(folders, written, origin.layer)?;
        self.place((folder, name), linked, origin, kind, meta)
    }

    /// Where an entry goes: most often where the last one went.
    fn folder(&mut self, folders: &[&[u8]], written: Option<&[u8]>, layer: u32) -> Result<NodeId, String> {
        let is_there = |last: &&Last| last.layer == layer && Some(last.written.as_slice()) == written;
        if let Some(last) = self.last.as_ref().filter(is_there) {
            return Ok(last.folder);
        }
        self.last = None;
        let straight = self.straight(folders);
        let is_straight = straight.is_some();
        let way = match straight {
            Some(way) => way,
            None => self.walk(folders, layer, Missing::Make)?.unwrap_or_default(),
        };
        for passed in &way {
            self.node_mut(*passed).layer = layer;
        }
        let folder = way.last().copied().unwrap_or(ROOT);
        let written = written.filter(|_| is_straight);
        self.last = written.map(|written| Last { layer, written: written.to_vec(), folder });
        Ok(folder)
    }

    /// The folders on the way, if all of them are there and no link is among them.
    fn straight(&self, folders: &[&[u8]]) -> Option<Vec<NodeId>> {
        let mut way = Vec::with_capacity(folders.len());
        for name in folders {
            let child = self.child(way.last().copied().unwrap_or(ROOT), name)?;
            self.children(child)?;
            way.push(child);
        }
        Some(way)
    }

    fn apply_root(&mut self, kind: &Kind, meta: Meta) -> Result<(), String> {
        if *kind != Kind::Folder {
            return Err("would replace the root".to_owned());
        }
        self.set_meta(ROOT, meta);
        Ok(())
    }

    fn place(
        &mut self,
        (folder, name): (NodeId, &[u8]),
        linked: Option<NodeId>,
        origin: Origin,
        kind: Kind,
        meta: Meta,
    ) -> Result<(), String> {
        if let Some(target) = linked {
            self.put(folder, name, target, origin.layer);
            return Ok(());
        }
        let old = self.child(folder, name);
        let body = match kind {
            Kind::Folder => match old.filter(|old| self.children(*old).is_some()) {
                Some(old) => {
                    self.set_meta(old, meta);
                    self.node_mut(old).layer = origin.layer;
                    return Ok(());
                }
                None => Body::Folder(Children::new()),
            },
            Kind::File(size) => Body::File { origin, size },
            Kind::Symlink(target) => Body::Symlink(checked_target(target)?),
            Kind::Block(device) => Body::Block(device),
            Kind::Char(device) => Body::Char(device),
            Kind::Fifo => Body::Fifo,
            Kind::Socket => Body::Socket,
            Kind::Hardlink(_) => return Err("is a hard link to nothing".to_owned()),
        };
        // A link's own mode means nothing; the kernel shows all of it.
        let mode = if matches!(body, Body::Symlink(_)) { 0o777 } else { meta.mode };
        let id = self.add(body, Meta { mode, ..meta }, origin.layer);
        self.put(folder, name, id, origin.layer);
        Ok(())
    }

    fn linked(&mut self, target: &[u8], layer: u32) -> Result<NodeId, String> {
        let target_shown = shown(target);
        let parts = components(target).map_err(|why| format!("is a hard link to `{target_shown}`, which {why}"))?;
        let missing = || format!("is a hard link to `{target_shown}`, which is not there");
        let (name, folders) = parts.split_last().ok_or_else(missing)?;
        let way = self.walk(folders, layer, Missing::Stop)?.ok_or_else(missing)?;
        let found = self.child(way.last().copied().unwrap_or(ROOT), name).ok_or_else(missing)?;
        if self.children(found).is_some() {
            return Err(format!("is a hard link to the folder `{target_shown}`"));
        }
        Ok(found)
    }

    fn white_out(&mut self, folders: &[&[u8]], whiteout: &Whiteout<'_>, layer: u32) -> Result<(), String> {
        if matches!(whiteout, Whiteout::Name(b"" | b"." | b"..")) {
            return Err("removes nothing that has a name".to_owned());
        }
        let Some(way) = self.walk(folders, layer, Missing::Stop)? else { return Ok(()) };
        let folder = way.last().copied().unwrap_or(ROOT);
        match whiteout {
            Whiteout::Name(name) => {
                if let Some(child) = self.children(folder).and_then(|children| children.get(*name)).copied() {
                    if self.is_from(child, layer) {
                        self.remove_lower(child.id, layer);
                    } else {
                        self.remove(folder, name);
                    }
                }
            }
            _ => self.remove_lower(folder, layer),
        }
        Ok(())
    }

    /// Whether the layer has the name, or something below it.
    fn is_from(&self, child: Child, layer: u32) -> bool {
        let node = self.node(child.id);
        child.layer == layer || (node.layer == layer && matches!(node.body, Body::Folder(_)))
    }

    /// Everything below a folder that the layer does not have.
    fn remove_lower(&mut self, folder: NodeId, layer: u32) {
        let mut folders = vec![folder];
        while let Some(folder) = folders.pop() {
            if self.node_mut(folder).cleared.replace(layer) == Some(layer) {
                continue;
            }
            let Some(children) = self.children(folder) else { continue };
            let all = children.iter().map(|(name, child)| (name.clone(), *child));
            let (kept, gone): (Vec<_>, Vec<_>) = all.partition(|(_, child)| self.is_from(*child, layer));
            gone.iter().for_each(|(name, _)| self.remove(folder, name));
            folders.extend(kept.into_iter().map(|(_, child)| child.id));
        }
    }

    /// The folders from the root (which is not among them) to the last of `parts`. Links are followed inside the root.
    /// Nothing if a folder is missing and is not to be made.
    fn walk(&mut self, parts: &[&[u8]], layer: u32, missing: Missing) -> Result<Option<Vec<NodeId>>, String> {
        let mut way: Vec<NodeId> = Vec::new();
        let mut ahead: Vec<Cow<'_, [u8]>> = parts.iter().rev().map(|part| Cow::Borrowed(*part)).collect();
        let mut links = 0;
        while let Some(part) = ahead.pop() {
            let here = way.last().copied().unwrap_or(ROOT);
            if *part == *b".." {
                way.pop();
                continue;
            }
            let Some(child) = self.child(here, &part) else {
                if missing == Missing::Stop {
                    return Ok(None);
                }
                way.push(self.make_folder(here, &part, layer)?);
                continue;
            };
            match &self.node(child).body {
                Body::Folder(_) if way.len() == DEEPEST => return Err("lies more than 2048 folders deep".to_owned()),
                Body::Folder(_) => way.push(child),
                Body::Symlink(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(format!("lies behind `{}`, a link that leads to itself", shown(&part)));
                    }
                    let target = target.clone();
                    if target.first() == Some(&b'/') {
                        way.clear();
                    }
                    let parts = target.split(|byte| *byte == b'/').filter(|part| !matches!(*part, b"" | b"."));
                    ahead.extend(parts.rev().map(|part| Cow::Owned(part.to_vec())));
                }
                _ if missing == Missing::Stop => return Ok(None),
                _ => return Err(format!("lies below `{}`, which is no folder", shown(&part))),
            }
        }
        Ok(Some(way))
    }

    fn make_folder(&mut self, parent: NodeId, name: &[u8], layer: u32) -> Result<NodeId, String> {
        // It may come out of a link's target.
        components(name)?;
        self.spend(name.len())?;
        let id = self.add(Body::Folder(Children::new()), Meta::plain(MADE), layer);
        self.put(parent, name, id, layer);
        Ok(id)
    }
}

fn checked_target(target: Vec<u8>) -> Result<Box<[u8]>, String> {
    if target.is_empty() || target.contains(&0) {
        return Err("is a link to nothing that has a name".to_owned());
    }
    if target.len() > LONGEST_TARGET {
        return Err("is a link with a target longer than 4095 bytes".to_owned());
    }
    Ok(target.into_boxed_slice())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn apply(tree: &mut Tree, layer: u32, path: &str, kind: Kind) -> Result<()> {
        let entry = Entry { path: path.as_bytes().to_vec(), kind, meta: Meta::plain(0o755) };
        tree.apply("a test", Origin { layer, entry: 0 }, entry)
    }

    #[test]
    fn the_way_to_a_folder_is_not_remembered_when_it_may_have_changed() {
        let mut tree = Tree::new();
        apply(&mut tree, 0, "a", Kind::Folder).unwrap();
        apply(&mut tree, 0, "a/x", Kind::Symlink(b"..".to_vec())).unwrap();
        for name in ["f", "g"] {
            apply(&mut tree, 0, &format!("a/x/a/{name}"), Kind::File(1)).unwrap();
        }
        // Into `a` itself, by the way that leads through it.
        apply(&mut tree, 0, "a/x/a/x", Kind::Folder).unwrap();
        apply(&mut tree, 0, "a/x/a/h", Kind::File(1)).unwrap();
        for path in ["a/f", "a/g", "a/x/a/h"] {
            assert!(tree.find(path.as_bytes()).is_some(), "{path}");
        }
        assert!(tree.find(b"a/h").is_none());
    }

    #[test]
    fn a_folder_that_is_gone_is_made_again() {
        let mut tree = Tree::new();
        for path in ["b/c/1", "b/c/2"] {
            apply(&mut tree, 0, path, Kind::File(1)).unwrap();
        }
        apply(&mut tree, 1, "b/.wh.c", Kind::File(0)).unwrap();
        for path in ["b/c/3", "b/c/4"] {
            apply(&mut tree, 1, path, Kind::File(1)).unwrap();
        }
        assert!(tree.find(b"b/c/1").is_none() && tree.find(b"b/c/2").is_none());
        assert!(tree.find(b"b/c/3").is_some() && tree.find(b"b/c/4").is_some());
        apply(&mut tree, 1, "b/c", Kind::File(1)).unwrap();
        assert!(apply(&mut tree, 1, "b/c/5", Kind::File(1)).is_err());
    }
}
