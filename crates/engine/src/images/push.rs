//! An image to a depot: only the chunks that no image there has.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use trainyard_agent::depot::ImageName;
use trainyard_agent::pipe::frame::Tag;
use trainyard_agent::pipe::image::{Chunk, News, RECORD};
use trainyard_agent::pipe::message::{Answer, Request};

use super::kept::forget;
use crate::pipe::{Pipe, PipeError};
use crate::transfer::{Progress, TransferError};

/// Bytes in a frame.
const FRAME: usize = 1 << 20;
/// A slow disk takes its time to hold an image for certain.
const SYNC: Duration = Duration::from_secs(600);

/// What was sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pushed {
    /// Of the image.
    pub size: u64,
    /// Over the connection, with the list of chunks.
    pub wire: u64,
}

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The site looks for what it has.
    Looking(Progress),
    Sending(Progress),
}

/// After this the image is in the depot, whole. A failure leaves what arrived for the next try, and no image.
pub fn push(
    pipe: &mut Pipe,
    image: &Path,
    name: &ImageName,
    tell: &mut dyn FnMut(Step),
) -> Result<Pushed, TransferError> {
    if pipe.has_image(name)? {
        return Ok(Pushed::default());
    }
    let reading = |source| TransferError::Read { path: image.to_owned(), source };
    let file = File::open(image).map_err(reading)?;
    let chunks = trainyard_image::chunks(image).unwrap_or_default();
    if trainyard_image::digest(&chunks) != name.digest() {
        return Err(damaged(image));
    }
    let size = chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
    let mut list = Vec::with_capacity(chunks.len() * RECORD);
    chunks.iter().for_each(|chunk| Chunk { hash: chunk.hash, length: chunk.length }.append(&mut list));
    let missing = pipe.offer_image(name, &list, &mut |bytes| {
        tell(Step::Looking(Progress { bytes, of: size, wire: 0 }));
    })?;
    let missing: Vec<_> =
        missing.into_iter().filter_map(|number| Some((number, chunks.get(number as usize)?))).collect();
    let of = missing.iter().map(|(_, chunk)| u64::from(chunk.length)).sum();
    let mut sent = Progress { bytes: 0, of, wire: list.len() as u64 };
    pipe.begin(&Request::PutImage { image: name.clone() })?;
    let mut frame = Vec::with_capacity(FRAME);
    for (number, chunk) in missing {
        let length = chunk.length as usize;
        if frame.len() + length + 4 > FRAME {
            flush(pipe, &mut frame, &mut sent)?;
            tell(Step::Sending(sent));
            // The site has something to say before the end: it cannot go on.
            if pipe.is_readable() {
                break;
            }
        }
        frame.extend_from_slice(&number.to_le_bytes());
        let start = frame.len();
        frame.resize(start + length, 0);
        let room = frame.get_mut(start..).unwrap_or_default();
        if file.read_exact_at(room, chunk.offset).is_err() || *blake3::hash(room).as_bytes() != chunk.hash {
            return Err(damaged(image));
        }
        sent.bytes += u64::from(chunk.length);
    }
    flush(pipe, &mut frame, &mut sent)?;
    tell(Step::Sending(sent));
    pipe.send(Tag::End, &[])?;
    match pipe.within(SYNC, Pipe::closed_answer)? {
        Answer::Stored { published: true, .. } => Ok(Pushed { size, wire: sent.wire }),
        Answer::Stored { .. } => Err(PipeError::Refused("the depot lost a part of the image".to_owned()).into()),
        _ => Err(PipeError::Dropped.into()),
    }
}

/// What is no longer what its name says is not sent, and not taken for made any more.
fn damaged(image: &Path) -> TransferError {
    forget(image);
    TransferError::Damaged { path: image.to_owned() }
}

fn flush(pipe: &mut Pipe, frame: &mut Vec<u8>, sent: &mut Progress) -> Result<(), PipeError> {
    if !frame.is_empty() {
        pipe.send(Tag::Body, frame)?;
        sent.wire += frame.len() as u64;
        frame.clear();
    }
    Ok(())
}

impl Pipe {
    pub fn has_image(&mut self, image: &ImageName) -> Result<bool, PipeError> {
        match self.closed_ask(&Request::HasImage { image: image.clone() })? {
            Answer::Has { there } => Ok(there),
            _ => Err(PipeError::Dropped),
        }
    }

    /// The numbers of the chunks that are not there.
    fn offer_image(
        &mut self,
        image: &ImageName,
        list: &[u8],
        looked: &mut dyn FnMut(u64),
    ) -> Result<Vec<u32>, PipeError> {
        let Answer::Assembling = self.ask(&Request::OfferImage { image: image.clone() }, &[list])? else {
            return Err(PipeError::Dropped);
        };
        let mut missing = Vec::new();
        while let Some(frame) = self.frame()? {
            match News::decode(&frame).ok_or(PipeError::Dropped)? {
                News::Looked(bytes) => looked(bytes),
                News::Missing(numbers) => {
                    missing.extend(numbers.as_chunks::<4>().0.iter().map(|raw| u32::from_le_bytes(*raw)))
                }
            }
        }
        Ok(missing)
    }
}
