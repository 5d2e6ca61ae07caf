//! Contents to hashes: from the cache where a file was not written to since, else by reading it, on all cores.

use std::io::{self, Read};
use std::path::Path;
use std::time::SystemTime;

use trainyard_agent::crew::{hands, share};

use super::cache::{self, Known};
use super::walk::{Found, Kind, Stat};

/// Content as it was read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content {
    pub(super) hash: blake3::Hash,
    pub(super) size: u64,
}

/// Below this a second thread costs more than it brings.
const WORTH_A_THREAD: u64 = 4_000_000;
const BUFFER: usize = 1 << 17;

/// For every file its content, `None` for what is no file or gone; in the order of `found`. What is `known` is kept `at`
/// that path, and so is what is learned.
pub(super) fn hash_all(
    project: &Path,
    found: &[Found],
    known: &[Known<'_>],
    at: &Path,
) -> io::Result<Vec<Option<Content>>> {
    let began = now();
    let mut contents = look_up(found, known);
    let mut unknown: Vec<usize> = (0..found.len()).filter(|i| wants_hash(found, &contents, *i)).collect();
    let unchanged = unknown.is_empty() && known.len() == contents.iter().flatten().count();
    // The largest first, so that no thread is left with one at the end.
    unknown.sort_by_key(|i| std::cmp::Reverse(found.get(*i).map(Found::size)));
    let mut settled: Vec<bool> = contents.iter().map(Option::is_some).collect();
    for (index, read) in read_all(project, found, &unknown)? {
        if let (Some(content), Some(settled)) = (contents.get_mut(index), settled.get_mut(index)) {
            *settled = read.as_ref().is_some_and(|read| is_settled(&read.stat, began));
            *content = read.map(|read| read.content);
        }
    }
    if !unchanged {
        let sure = found.iter().zip(&contents).zip(settled).filter(|(_, settled)| *settled).map(|(pair, _)| pair);
        let entries = sure.filter_map(|(file, content)| match (&file.kind, content) {
            (Kind::File(stat), Some(content)) => Some((file.path.as_path(), *stat, content.hash)),
            _ => None,
        });
        // Without a cache the next submission takes longer; it is no reason to refuse this one.
        drop(cache::save(at, project, entries));
    }
    Ok(contents)
}

fn wants_hash(found: &[Found], contents: &[Option<Content>], index: usize) -> bool {
    let is_file = found.get(index).is_some_and(|file| matches!(file.kind, Kind::File(_)));
    is_file && contents.get(index).is_some_and(Option::is_none)
}

/// Both are sorted by path, so one pass does.
fn look_up(found: &[Found], known: &[Known<'_>]) -> Vec<Option<Content>> {
    use std::os::unix::ffi::OsStrExt;
    let mut known = known.iter().peekable();
    let mut answer = |file: &Found| {
        let path = file.path.as_os_str().as_bytes();
        while known.next_if(|entry| entry.path < path).is_some() {}
        let Kind::File(stat) = &file.kind else { return None };
        let entry = known.next_if(|entry| entry.path == path)?;
        entry.is_about(stat).then_some(Content { hash: entry.hash, size: stat.size })
    };
    found.iter().map(&mut answer).collect()
}

/// Two writes within one tick of the file system's clock look like one. What was written just before we looked may
/// be written again without a trace, so it is not remembered but read again next time.
fn is_settled(stat: &Stat, looked: i64) -> bool {
    // Where times are whole seconds, the clock ticks in seconds.
    let tick = if stat.changed % 1_000_000_000 == 0 { 2_000_000_000 } else { 100_000_000 };
    stat.modified.max(stat.changed) < looked - tick
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(i64::MAX)
}

struct ReadFile {
    content: Content,
    stat: Stat,
}

fn read_all(project: &Path, found: &[Found], wanted: &[usize]) -> io::Result<Vec<(usize, Option<ReadFile>)>> {
    let bytes: u64 = wanted.iter().filter_map(|i| found.get(*i)).map(Found::size).sum();
    // Opening a file costs about as much as hashing some ten thousand bytes.
    let worth = (bytes + 10_000 * wanted.len() as u64) / WORTH_A_THREAD;
    share(wanted, hands(usize::try_from(worth).unwrap_or(usize::MAX)), |index| {
        let Some(file) = found.get(*index) else { return Ok((*index, None)) };
        Ok((*index, read_one(&project.join(&file.path), file.size())?))
    })
}

/// What the file held while we read it, even if it changes under our hands; then its times say so.
fn read_one(path: &Path, expected: u64) -> io::Result<Option<ReadFile>> {
    let mut file = match fs_err::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let before = Stat::of(&file.metadata()?);
    let mut buffer = vec![0; usize::try_from(expected + 1).unwrap_or(BUFFER).min(BUFFER)];
    let (hash, size) = digest(&mut file, &mut buffer)?;
    let after = Stat::of(&file.metadata()?);
    // A file that was written to meanwhile is never settled.
    let changed = if before == after { before.changed } else { i64::MAX };
    Ok(Some(ReadFile { content: Content { hash, size }, stat: Stat { changed, ..before } }))
}

fn digest(file: &mut impl Read, buffer: &mut [u8]) -> io::Result<(blake3::Hash, u64)> {
    let mut hasher = blake3::Hasher::new();
    loop {
        match file.read(buffer) {
            Ok(0) => return Ok((hasher.finalize(), hasher.count())),
            Ok(count) => hasher.update(buffer.get(..count).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
    }
}
