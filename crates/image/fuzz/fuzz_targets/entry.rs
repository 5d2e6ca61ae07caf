//! Layers out of the bytes of libFuzzer: tars with right checksums.

/// One entry of a layer, as it stands in the input: a byte of flags, the kind as tar has it, name and link up to a line's
/// end each, the contents after their length in a byte, and where the flags say so, what else is in the header.
pub struct Entry<'a> {
    flags: u8,
    kind: u8,
    name: &'a [u8],
    link: &'a [u8],
    content: &'a [u8],
    twists: &'a [u8],
}

/// Before this entry, another layer begins.
const NEXT_LAYER: u8 = 1;
/// The contents stand in the file a thousand times.
const LARGE: u8 = 2;
/// After the contents: a length in a byte, then pairs of bytes, a place in the header and what stands there.
const TWISTED: u8 = 4;
/// In the second half of the header.
const FAR: u8 = 8;

impl<'a> Entry<'a> {
    fn read(input: &mut &'a [u8]) -> Option<Self> {
        let [flags, kind, rest @ ..] = *input else { return None };
        *input = rest;
        let (name, link) = (line(input), line(input));
        let content = counted(input);
        let twists = if flags & TWISTED == 0 { &[] } else { counted(input) };
        Some(Self { flags: *flags, kind: *kind, name, link, content, twists })
    }

    fn write(&self, tar: &mut Vec<u8>) {
        let content = if self.flags & LARGE == 0 { self.content.to_vec() } else { self.content.repeat(1000) };
        let mut header = header(self.name, self.kind, self.link, content.len());
        for twist in self.twists.chunks_exact(2) {
            let half = if self.flags & FAR == 0 { 0 } else { 256 };
            header[half + usize::from(twist[0])] = twist[1];
        }
        sign(&mut header);
        tar.extend(header);
        tar.extend(content);
        tar.resize(tar.len().next_multiple_of(512), 0);
    }
}

fn line<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (line, rest) = input.split_at(end);
    *input = rest.get(1..).unwrap_or_default();
    line
}

fn counted<'a>(input: &mut &'a [u8]) -> &'a [u8] {
    let [length, rest @ ..] = *input else { return &[] };
    let (bytes, rest) = rest.split_at(usize::from(*length).min(rest.len()));
    *input = rest;
    bytes
}

pub fn layers(mut input: &[u8]) -> Vec<Vec<u8>> {
    let mut layers = vec![Vec::new()];
    while let Some(entry) = Entry::read(&mut input) {
        if entry.flags & NEXT_LAYER != 0 && layers.len() < 3 {
            layers.push(Vec::new());
        }
        if let Some(layer) = layers.last_mut() {
            entry.write(layer);
        }
    }
    layers.iter_mut().for_each(|layer| layer.extend([0; 1024]));
    layers
}

/// A file of the archive itself.
pub fn member(tar: &mut Vec<u8>, name: &[u8], content: &[u8]) {
    let mut header = header(name, b'0', b"", content.len());
    sign(&mut header);
    tar.extend(header);
    tar.extend(content);
    tar.resize(tar.len().next_multiple_of(512), 0);
}

fn header(name: &[u8], kind: u8, link: &[u8], length: usize) -> [u8; 512] {
    let mut header = [0; 512];
    let mut put = |at: usize, most: usize, bytes: &[u8]| {
        let count = bytes.len().min(most);
        header[at..at + count].copy_from_slice(&bytes[..count]);
    };
    put(0, 100, name);
    put(100, 8, b"0000755\0");
    put(108, 8, b"0000000\0");
    put(116, 8, b"0000000\0");
    put(124, 12, format!("{length:011o}").as_bytes());
    put(136, 12, b"00000000000");
    put(156, 1, &[kind]);
    put(157, 100, link);
    put(257, 8, b"ustar\x0000");
    header
}

fn sign(header: &mut [u8]) {
    header[148..156].copy_from_slice(b"        ");
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
}

/// A tar whose headers have their checksums, as far as one header leads to the next.
pub fn signed(mut tar: Vec<u8>) -> Vec<u8> {
    let mut at = 0;
    while at + 512 <= tar.len() && tar[at..at + 512].iter().any(|byte| *byte != 0) {
        sign(&mut tar[at..at + 512]);
        let digits = tar[at + 124..at + 136].iter().take_while(|byte| (b'0'..=b'7').contains(*byte));
        let size = digits.fold(0usize, |size, digit| size.saturating_mul(8).saturating_add(usize::from(digit - b'0')));
        at = at.saturating_add(512).saturating_add(size.min(1 << 40).next_multiple_of(512));
    }
    tar
}
