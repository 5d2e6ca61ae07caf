//! Converts an archive, layout or folder: `convert SOURCE OUTPUT [zstd|gzip|none] [THREADS] [EARLIER OUTPUT]`.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use trainyard_image::{Archive, Codec, Config, Folder, Format, Layout, Options, Platform, Source, convert};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (input, output) = (Path::new(&words[0]), Path::new(&words[1]));
    let platform = Platform::here();
    let mut source: Box<dyn Source> = if input.join("index.json").is_file() {
        Box::new(Layout::new(input, None, platform))
    } else if input.is_dir() {
        Box::new(Folder::new(input, Config { architecture: platform.architecture, ..Config::default() }))
    } else {
        Box::new(Archive::open(input, None, platform)?)
    };
    let mut options = Options::default();
    if output.extension().is_some_and(|extension| extension == "sqsh") {
        options.format = Format::Sqsh;
    }
    options.codec = match words.get(2).map(String::as_str) {
        Some("gzip") => Codec::Gzip,
        Some("none") => Codec::None,
        _ => Codec::Zstd,
    };
    if let Some(threads) = words.get(3) {
        options.threads = threads.parse()?;
    }
    options.reuse = words.get(4).map(PathBuf::from).into_iter().collect();
    convert(source.as_mut(), &options, output, &mut |_| ControlFlow::Continue(()))?;
    Ok(())
}
