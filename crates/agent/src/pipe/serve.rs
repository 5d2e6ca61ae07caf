//! The agent's side of the pipe: reads a request, does it, answers. Ends when its input ends.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use trainyard_core::id::Digest;

use super::blobs::named;
use super::frame::{self, Body, Tag};
use super::image::{self, Arrival, News};
use super::message::{Answer, Hello, PROTOCOL, ReadLog, Request, Status};
use super::store::{self, Offer};
use super::{fetch, files, outputs};
use crate::beneath::Beneath;
use crate::depot::Depot;
use crate::order::Secrets;
use crate::post::{Letter, post, sync_answer};
use crate::program::{self, Call, Ending, Group};
use crate::tail;

/// Programs get their input in one piece.
const INPUT_MOST: u64 = 64 << 20;
/// Of one log at a time.
const LOG_MOST: u64 = 16 << 20;

/// Serves the depot on standard input and output. `marker` comes before the first answer, since a login shell may
/// have said something before us.
pub fn serve(depot: &Path, marker: &str) -> io::Result<()> {
    let depot = prepare(depot)?;
    let input = rustix::stdio::stdin();
    frame::widen(input);
    let output = std::fs::File::from(rustix::stdio::stdout().try_clone_to_owned()?);
    let mut output = BufWriter::with_capacity(1 << 16, output);
    greet(&depot, marker, &mut output)?;
    let input_file = std::fs::File::from(input.try_clone_to_owned()?);
    Server { depot, offer: None, arrival: None, peer: Some(input.as_fd()) }
        .answer_all(&mut BufReader::with_capacity(1 << 16, input_file), &mut output)
}

/// The same for requests in a file, with the answers to another.
pub fn answer_file(depot: &Path, requests: &Path, answers: &Path) -> io::Result<()> {
    let depot = prepare(depot)?;
    let mut input = BufReader::with_capacity(1 << 16, std::fs::File::open(requests)?);
    let mut output = BufWriter::with_capacity(1 << 16, std::fs::File::create(answers)?);
    Server { depot, offer: None, arrival: None, peer: None }.answer_all(&mut input, &mut output)
}

/// Whether the running program has this hash: what was sent here arrived whole.
pub fn is_program(hash: &str) -> io::Result<bool> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut std::fs::File::open("/proc/self/exe")?, &mut hasher)?;
    Ok(hasher.finalize().to_hex().as_str() == hash)
}

fn prepare(depot: &Path) -> io::Result<Beneath> {
    use std::os::unix::fs::DirBuilderExt;
    let path = match (depot.strip_prefix("~"), std::env::home_dir()) {
        (Ok(rest), Some(home)) => home.join(rest),
        _ => depot.to_owned(),
    };
    let path: PathBuf = std::path::absolute(path)?.components().collect();
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path);
    made.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    Beneath::open(&path)
}

fn greet(depot: &Beneath, marker: &str, output: &mut impl Write) -> io::Result<()> {
    let hello = Hello {
        protocol: PROTOCOL,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        depot: depot.path().display().to_string(),
    };
    writeln!(output, "\n{marker} {}", serde_json::to_string(&hello)?)?;
    output.flush()
}

struct Server<'a> {
    depot: Beneath,
    offer: Option<Offer>,
    arrival: Option<Arrival>,
    /// Our input, to see while a program runs that nobody waits for it any more.
    peer: Option<BorrowedFd<'a>>,
}

impl Server<'_> {
    fn answer_all(&mut self, input: &mut impl Read, output: &mut impl Write) -> io::Result<()> {
        while let Some((tag, head)) = frame::read(input)? {
            let request = match tag {
                Tag::Head => serde_json::from_slice(&head)?,
                Tag::Body | Tag::End | Tag::Failed => return Err(io::ErrorKind::InvalidData.into()),
            };
            let mut body = Body::new(input);
            let answered = self.answer(request, &mut body, output);
            if let Err(error) = &answered {
                // An answer that has begun is broken off; one that has not is a refusal. Only a dead pipe ends us.
                match error {
                    Fault::Before(error) => say(output, &Answer::Refused { why: error.to_string() }, &[])?,
                    Fault::Within(error) => frame::write(output, Tag::Failed, error.to_string().as_bytes())?,
                    Fault::Gone => return Ok(()),
                }
            }
            output.flush()?;
            body.skip()?;
        }
        Ok(())
    }

    fn answer(
        &mut self,
        request: Request,
        body: &mut Body<'_, impl Read>,
        output: &mut impl Write,
    ) -> Result<(), Fault> {
        match request {
            Request::Run { argv, env, milliseconds } => {
                let mut given = Vec::new();
                body.by_ref().take(INPUT_MOST).read_to_end(&mut given)?;
                body.skip()?;
                let limit = Duration::from_millis(milliseconds);
                let call = Call { argv: &argv, without: &[], env: &env, input: &given, limit, group: Group::Own };
                let ran = program::run(&call, self.peer)?;
                let (stdout, stderr) = (ran.stdout.len() as u64, ran.stderr.len() as u64);
                let head = Answer::Ran { status: status(ran.ending, &argv), stdout, stderr, cut: ran.cut };
                say(output, &head, &[&ran.stdout, &ran.stderr]).map_err(Fault::Within)
            }
            Request::Post { parcel, name, snapshot, sizes } => {
                let [text, script, secrets] = parts(body, sizes)?;
                let secrets = serde_json::from_slice::<Secrets>(&secrets).map_err(io::Error::from)?;
                let letter =
                    Letter { parcel: &parcel, name: &name, snapshot: snapshot.as_ref(), text: &text, script: &script };
                let posted = post(&self.place(), &letter, &secrets)?;
                say(output, &Answer::Posted { posted }, &[]).map_err(Fault::Within)?;
                output.flush().map_err(Fault::Within)?;
                sync_answer(&self.place(), &parcel);
                Ok(())
            }
            Request::Write { files } => {
                files::write(&self.depot, &files, body)?;
                say(output, &Answer::Done, &[]).map_err(Fault::Within)
            }
            Request::Read { path, offset, most } => {
                let found = files::read(&self.depot, &path, offset, most)?;
                self.say_files(vec![found], output)
            }
            Request::ReadMany { paths, most } => {
                let read = |path: &String| files::read(&self.depot, path, 0, most);
                let found = paths.iter().map(read).collect::<io::Result<Vec<_>>>()?;
                self.say_files(found, output)
            }
            Request::List { folder } => {
                let mut lines = Vec::new();
                let there = files::list(&self.depot, &folder, &mut lines)?;
                say(output, &Answer::Tree { there }, &[&lines]).map_err(Fault::Within)
            }
            Request::Space => {
                let (free, total) = files::space(&self.depot)?;
                say(output, &Answer::Space { free, total }, &[]).map_err(Fault::Within)
            }
            Request::Remove { paths } => {
                for path in paths {
                    self.depot.remove(&crate::snapshot::decode(&path))?;
                }
                say(output, &Answer::Done, &[]).map_err(Fault::Within)
            }
            Request::Has { snapshot } => {
                let there = store::has(&self.place(), &snapshot);
                say(output, &Answer::Has { there }, &[]).map_err(Fault::Within)
            }
            Request::Offer { snapshot, size } => {
                let offer = Offer::read(&self.place(), &snapshot, size, body)?;
                self.answer_offer(offer, output)
            }
            Request::OfferEdits { snapshot, base, size } => {
                match Offer::from_edits(&self.place(), &snapshot, &base, size, body)? {
                    Some(offer) => self.answer_offer(offer, output),
                    None => say(output, &Answer::Has { there: false }, &[]).map_err(Fault::Within),
                }
            }
            Request::Logs { wanted, most } => {
                let depot = self.place();
                let read: Vec<tail::Reading> =
                    wanted.iter().map(|wanted| tail::read(&depot, wanted, most.min(LOG_MOST))).collect();
                let parts: Vec<&[u8]> =
                    read.iter().flat_map(|one| &one.portions).map(|portion| portion.bytes.as_slice()).collect();
                let read = read.iter().map(log_head).collect();
                say(output, &Answer::Logs { read }, &parts).map_err(Fault::Within)
            }
            Request::Outputs { run, paths } => {
                let (mut lines, mut missing) = (Vec::new(), Vec::new());
                outputs::list(&self.place(), run, &paths, &mut lines, &mut missing)?;
                say(output, &Answer::Outputs { missing }, &[&lines]).map_err(Fault::Within)
            }
            Request::Fetch { files } => {
                frame::write(output, Tag::Head, &serde_json::to_vec(&Answer::Fetching).map_err(io::Error::from)?)?;
                fetch::fetch(&self.depot, &files, output).map_err(Fault::Within)?;
                frame::write(output, Tag::End, &[]).map_err(Fault::Within)
            }
            Request::HasImage { image } => {
                let there = image::has(&self.place(), &image);
                say(output, &Answer::Has { there }, &[]).map_err(Fault::Within)
            }
            Request::OfferImage { image } => {
                self.arrival = None;
                let arrival = Arrival::begin(&self.place(), image, body)?;
                frame::write(output, Tag::Head, &serde_json::to_vec(&Answer::Assembling).map_err(io::Error::from)?)?;
                let mut tell = |news: News<'_>| {
                    frame::write(output, Tag::Body, &news.encode())?;
                    output.flush()
                };
                let arrival = arrival.assemble(&mut tell).map_err(Fault::Within)?;
                self.arrival = Some(arrival);
                frame::write(output, Tag::End, &[]).map_err(Fault::Within)
            }
            Request::PutImage { image } => {
                let arrival = self.arrival.as_mut().filter(|arrival| *arrival.image() == image);
                let arrival = arrival.ok_or_else(|| io::Error::other("the image was not offered"))?;
                let published = arrival.take(body)?;
                say(output, &Answer::Stored { published, wrong: Vec::new() }, &[]).map_err(Fault::Within)
            }
            Request::Put { snapshot } => {
                let depot = self.place();
                let stored = store::put(&depot, body)?;
                let offer = self.offer.as_mut().filter(|offer| *offer.digest() == snapshot);
                let publish = |offer: &mut Offer| {
                    offer.note(&stored.whole);
                    offer.publish(&depot)
                };
                let published = offer.map_or(Ok(false), publish)?;
                let wrong = stored.wrong.iter().copied().map(named).collect();
                say(output, &Answer::Stored { published, wrong }, &[]).map_err(Fault::Within)
            }
        }
    }

    fn answer_offer(&mut self, offer: Offer, output: &mut impl Write) -> Result<(), Fault> {
        let depot = self.place();
        let offer = self.offer.insert(offer);
        if offer.lacking().is_empty() {
            offer.publish(&depot)?;
        }
        let (free, _) = files::space(&self.depot)?;
        let (blobs, bytes) = (offer.lacking().len() as u64, offer.lacking().values().sum());
        let names: Vec<u8> = offer.lacking().keys().filter_map(raw).flatten().collect();
        say(output, &Answer::Missing { blobs, bytes, free }, &[&names]).map_err(Fault::Within)
    }

    fn place(&self) -> Depot {
        Depot::new(self.depot.path())
    }

    fn say_files(&self, found: Vec<Option<Vec<u8>>>, output: &mut impl Write) -> Result<(), Fault> {
        let sizes = found.iter().map(|file| file.as_ref().map(|bytes| bytes.len() as u64)).collect();
        let parts: Vec<&[u8]> = found.iter().flatten().map(Vec::as_slice).collect();
        say(output, &Answer::Files { sizes }, &parts).map_err(Fault::Within)
    }
}

/// The body in pieces of these sizes.
fn parts<const N: usize>(body: &mut Body<'_, impl Read>, sizes: [u64; N]) -> io::Result<[Vec<u8>; N]> {
    let mut parts = [const { Vec::new() }; N];
    for (part, size) in parts.iter_mut().zip(sizes) {
        body.by_ref().take(size.min(INPUT_MOST)).read_to_end(part)?;
        if part.len() as u64 != size {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "less, or more, than was announced"));
        }
    }
    body.skip()?;
    Ok(parts)
}

fn status(ending: Ending, argv: &[String]) -> Status {
    match ending {
        Ending::Ended(status) => match status.code() {
            Some(code) => Status::Exited(code),
            None => Status::Killed(status.signal().unwrap_or(0)),
        },
        Ending::TimedOut => Status::TimedOut,
        Ending::NotStarted(error) => {
            Status::NotStarted(argv.first().map_or_else(|| error.to_string(), |program| format!("{program}: {error}")))
        }
    }
}

fn log_head(read: &tail::Reading) -> ReadLog {
    let size = |portion: &tail::Portion| (portion.attempt, portion.bytes.len() as u64);
    ReadLog { portions: read.portions.iter().map(size).collect(), next: read.next, is_all: read.is_all }
}

fn raw(digest: &Digest) -> Option<[u8; 32]> {
    blake3::Hash::from_hex(&digest.0).ok().map(|hash| *hash.as_bytes())
}

enum Fault {
    Before(io::Error),
    Within(io::Error),
    Gone,
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        // The input ended within a message: nobody waits for an answer.
        if error.kind() == io::ErrorKind::UnexpectedEof { Self::Gone } else { Self::Before(error) }
    }
}

fn say(output: &mut impl Write, head: &Answer, parts: &[&[u8]]) -> io::Result<()> {
    frame::write(output, Tag::Head, &serde_json::to_vec(head)?)?;
    for part in parts {
        for chunk in part.chunks(1 << 20) {
            frame::write(output, Tag::Body, chunk)?;
        }
    }
    frame::write(output, Tag::End, &[])
}
