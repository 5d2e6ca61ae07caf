//! Images to a depot: only chunks that are not there, verified, whole or not at all, whatever is cut and whenever.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use trainyard_agent::depot::ImageName;
use trainyard_core::spec::ImageSpec;
use trainyard_engine::images::{Around, Built, Form, Pushed, Step, Wanted, build, kept, push};
use trainyard_engine::pipe::{Pipe, PipeError};
use trainyard_engine::transfer::TransferError;
use trainyard_testkit::small_disk::SmallDisk;

use crate::uploads::{Numbers, cut, noise, text};
use crate::{LIMIT, PROGRAM, here};

/// A folder of noise in files of 3 MB, with some text between.
fn fill(folder: &Path, megabytes: u64) {
    std::fs::create_dir_all(folder.join("lib")).unwrap();
    for number in 0..megabytes / 3 {
        std::fs::write(folder.join(format!("lib/{number}")), noise(number, 3 << 20)).unwrap();
    }
    for number in 0..200 {
        std::fs::write(folder.join(format!("lib/small{number}")), text(number, 700)).unwrap();
    }
}

fn made(cache: &Path, folder: &Path) -> Built {
    let spec = ImageSpec::Folder(folder.to_str().unwrap().to_owned());
    let wanted = Wanted { profile: "lab".to_owned(), spec, form: Form::default() };
    let around = Around { project: folder, variable: &|_| None };
    build(cache, &wanted, &around, &mut |_| ControlFlow::Continue(())).unwrap()
}

fn send(pipe: &mut Pipe, image: &Built) -> Result<Pushed, TransferError> {
    push(pipe, &image.path, &image.name, &mut |_| {})
}

fn at(depot: &Path, name: &ImageName) -> PathBuf {
    depot.join("images").join(name.to_string())
}

fn is_whole(depot: &Path, image: &Built) -> bool {
    std::fs::read(at(depot, &image.name)).is_ok_and(|there| there == std::fs::read(&image.path).unwrap())
}

fn is_there(depot: &Path, image: &Built) -> bool {
    at(depot, &image.name).exists()
}

#[test]
fn after_one_changed_file_a_hundredth_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let (folder, depot, cache) = (root.path().join("f"), root.path().join("d"), root.path().join("c"));
    fill(&folder, 120);
    let first = made(&cache, &folder);
    let mut pipe = here(&depot);
    let sent = send(&mut pipe, &first).unwrap();
    assert!(sent.size == first.size && sent.wire > 120 << 20, "{sent:?}");
    assert!(is_whole(&depot, &first));
    assert_eq!(send(&mut pipe, &first).unwrap(), Pushed::default(), "it is there");
    std::fs::write(folder.join("lib/small7"), "another program").unwrap();
    let second = made(&cache, &folder);
    assert_ne!(second.name, first.name);
    let (blocks, reused) = second.blocks.unwrap();
    assert!(reused * 100 >= blocks * 98, "{reused} of {blocks} are not compressed again");
    let sent = send(&mut pipe, &second).unwrap();
    assert!(sent.wire * 100 <= second.size, "{sent:?}");
    assert!(is_whole(&depot, &second) && is_whole(&depot, &first));
}

#[test]
fn a_cut_anywhere_leaves_no_image_and_the_next_try_goes_on() {
    let root = tempfile::tempdir().unwrap();
    let (folder, cache) = (root.path().join("f"), root.path().join("c"));
    fill(&folder, 30);
    let image = made(&cache, &folder);
    let mut numbers = Numbers(7);
    let mut cuts = 0;
    for round in 0..4 {
        let depot = root.path().join(format!("d{round}"));
        drop(here(&depot));
        let (mut tries, mut left) = (0, image.size);
        loop {
            tries += 1;
            assert!(tries < 60, "it goes on, slowly");
            let host = cut(root.path(), 20_000 + numbers.below(8 << 20), 1 << 40);
            let opened = Pipe::open(&host, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT);
            let mut of = None;
            let sent = opened.map_err(TransferError::from).and_then(|mut pipe| {
                push(&mut pipe, &image.path, &image.name, &mut |step| match step {
                    Step::Sending(at) => of = Some(at.of),
                    Step::Looking(_) => {}
                })
            });
            if let Some(of) = of {
                assert!(of <= left, "what arrived is not sent again: {of} of {left}");
                left = of;
            }
            match sent {
                Ok(_) => break,
                Err(TransferError::Pipe(PipeError::Dropped | PipeError::Host(_))) => cuts += 1,
                Err(error) => panic!("{error:?}"),
            }
            assert!(!is_there(&depot, &image));
        }
        assert!(tries > 3 && left < image.size / 2, "it went on where it was: {left} were left at last");
        assert!(is_whole(&depot, &image));
        assert!(!depot.join(format!("images/{}.part", image.name)).exists());
    }
    assert!(cuts >= 20, "{cuts} cuts");
}

#[test]
fn a_damaged_part_and_a_damaged_neighbour_are_seen() {
    let root = tempfile::tempdir().unwrap();
    let (folder, depot, cache) = (root.path().join("f"), root.path().join("d"), root.path().join("c"));
    fill(&folder, 12);
    let first = made(&cache, &folder);
    let mut pipe = here(&depot);
    send(&mut pipe, &first).unwrap();
    let path = at(&depot, &first.name);
    let mut bytes = std::fs::read(&path).unwrap();
    let size = bytes.len();
    bytes[size / 2..size / 2 + 70_000].fill(7);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, &bytes).unwrap();
    std::fs::write(folder.join("lib/small7"), "another program").unwrap();
    let second = made(&cache, &folder);
    std::fs::write(depot.join(format!("images/{}.part", second.name)), &bytes).unwrap();
    let sent = send(&mut pipe, &second).unwrap();
    assert!(sent.wire > 70_000 && sent.wire < second.size / 2, "{sent:?}");
    assert!(is_whole(&depot, &second));
}

#[test]
fn damage_here_is_not_sent_and_an_image_that_was_cut_there_is_sent_again() {
    let root = tempfile::tempdir().unwrap();
    let (folder, depot, cache) = (root.path().join("f"), root.path().join("d"), root.path().join("c"));
    fill(&folder, 12);
    let image = made(&cache, &folder);
    let good = std::fs::read(&image.path).unwrap();
    let mut pipe = here(&depot);
    let index = PathBuf::from(format!("{}.index", image.path.display()));
    let whole_index = std::fs::read(&index).unwrap();
    // A byte of a block, a byte of the index.
    for (path, at) in [(&image.path, good.len() / 2), (&index, whole_index.len() / 2)] {
        let mut bad = std::fs::read(path).unwrap();
        bad[at] ^= 1;
        std::fs::write(path, bad).unwrap();
        let error = send(&mut here(&depot), &image).unwrap_err();
        assert!(matches!(&error, TransferError::Damaged { path } if *path == image.path), "{error:?}");
        assert!(!is_there(&depot, &image));
        assert_eq!(kept(&cache), [], "nobody takes it for made");
        assert_eq!(made(&cache, &folder).name, image.name);
        assert!(std::fs::read(&image.path).unwrap() == good);
        // Another key is drawn for it, all else is as it was.
        assert_eq!(std::fs::read(&index).unwrap().len(), whole_index.len());
    }
    send(&mut pipe, &image).unwrap();
    assert!(is_whole(&depot, &image));
    let there = at(&depot, &image.name);
    std::fs::remove_file(&there).unwrap();
    std::fs::write(&there, &good[..good.len() - 5]).unwrap();
    let sent = send(&mut pipe, &image).unwrap();
    assert!(sent.wire > 0 && sent.wire < image.size / 4, "all but its end was there: {sent:?}");
    assert!(is_whole(&depot, &image));
}

#[test]
fn many_who_bring_the_same_meet() {
    let root = tempfile::tempdir().unwrap();
    let (folder, depot, cache) = (root.path().join("f"), root.path().join("d"), root.path().join("c"));
    fill(&folder, 30);
    let image = made(&cache, &folder);
    drop(here(&depot));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| send(&mut here(&depot), &image).unwrap());
        }
    });
    assert!(is_whole(&depot, &image));
}

#[test]
fn a_full_disk_is_told_before_anything_is_sent() {
    let root = tempfile::tempdir().unwrap();
    let (folder, cache) = (root.path().join("f"), root.path().join("c"));
    fill(&folder, 60);
    let image = made(&cache, &folder);
    let size = usize::try_from(std::fs::metadata(PROGRAM).unwrap().len() >> 20).unwrap();
    let disk = SmallDisk::on(&root.path().join("disk"), size + 40);
    let depot = disk.folder().join("depot");
    let host = cut(root.path(), 1 << 40, 1 << 40);
    let mut pipe = Pipe::open(&host, depot.to_str().unwrap(), Path::new(PROGRAM), LIMIT).unwrap();
    let mut has_begun = false;
    let error = push(&mut pipe, &image.path, &image.name, &mut |_| has_begun = true).unwrap_err().to_string();
    assert!(error.contains("left for you, the image needs 6"), "{error}");
    assert!(!has_begun);
    assert_eq!(std::fs::read_dir(depot.join("images")).unwrap().count(), 0, "nothing is left behind");
    assert!(pipe.space().is_ok(), "the connection is as good as before");
}
