//! Compresses a file's blocks on some threads and throws the result away, to see what the codec alone needs; and takes the SHA-256
//! of another file meanwhile, if one is named: `compress FILE zstd|gzip THREADS [OTHER]`.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};

use sha2::{Digest, Sha256};

const BLOCK: u64 = 128 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (file, threads) = (File::open(&words[0])?, words[2].parse::<usize>()?);
    let length = file.metadata()?.len();
    let next = AtomicU64::new(0);
    let failed = std::thread::scope(|scope| {
        let work = || compress(&file, length, &next, &words[1]);
        let other = words.get(3).map(|other| scope.spawn(move || hash(other)));
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).chain(other).collect();
        all.into_iter()
            .filter_map(|thread| thread.join().map_or(Some("a thread panicked".to_owned()), Result::err))
            .next()
    });
    failed.map_or(Ok(()), |why| Err(why.into()))
}

fn compress(file: &File, length: u64, next: &AtomicU64, codec: &str) -> Result<(), String> {
    let mut block = vec![0; BLOCK as usize];
    let mut packed = vec![0; 2 * BLOCK as usize];
    let mut zstd = zstd::bulk::Compressor::new(3).map_err(|error| error.to_string())?;
    let mut gzip = libdeflater::Compressor::new(libdeflater::CompressionLvl::new(6).unwrap_or_default());
    loop {
        let at = next.fetch_add(BLOCK, Ordering::Relaxed);
        if at >= length {
            return Ok(());
        }
        let block = &mut block[..usize::try_from(BLOCK.min(length - at)).unwrap_or_default()];
        file.read_exact_at(block, at).map_err(|error| error.to_string())?;
        if codec == "gzip" {
            gzip.zlib_compress(block, &mut packed).map_err(|error| error.to_string())?;
        } else {
            zstd.compress_to_buffer(block, packed.as_mut_slice()).map_err(|error| error.to_string())?;
        }
    }
}

fn hash(path: &str) -> Result<(), String> {
    let mut file = File::open(path).map_err(|error| error.to_string())?;
    let (mut hasher, mut block) = (Sha256::new(), vec![0; BLOCK as usize]);
    loop {
        let count = file.read(&mut block).map_err(|error| error.to_string())?;
        if count == 0 {
            // Looked at, so that it is not left out.
            return if hasher.finalize().iter().all(|byte| *byte == 0) { Err("no digest".to_owned()) } else { Ok(()) };
        }
        hasher.update(&block[..count]);
    }
}
