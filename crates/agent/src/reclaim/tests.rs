#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::SystemTime;

use trainyard_core::run::{Policy, Run, State};
use trainyard_core::time::Instant;

use super::*;
use crate::parcel::Member;

struct Place {
    root: tempfile::TempDir,
    depot: Depot,
}

fn run(number: u32) -> RunId {
    format!("019a0000-0000-7000-8000-{number:012}").parse().unwrap()
}

fn digest(letter: char) -> Digest {
    Digest(letter.to_string().repeat(64))
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let depot = Depot::new(root.path());
        for folder in ["runs", "parcels", "snapshots", "trees", "blobs/ab", "bin"] {
            fs_err::create_dir_all(root.path().join(folder)).unwrap();
        }
        Self { root, depot }
    }

    fn write(&self, path: &str, text: &str) -> PathBuf {
        let path = self.root.path().join(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        path
    }

    fn parcel(&self, id: &str, source: char, runs: &[u32]) {
        let job: JobSpec = {
            let text = "[jobs.a]\ncommand = ['true']\n".to_owned();
            let layer = trainyard_core::spec::Layer { name: "file".to_owned(), text };
            trainyard_core::spec::load(&[layer], &[], "p").unwrap().config.jobs.remove("a").unwrap()
        };
        let member = |number: &u32| Member {
            id: run(*number),
            name: number.to_string(),
            seed: None,
            params: Default::default(),
            from: None,
            tied: None,
            run: Run::new(Policy { attempts: 1, on: Vec::new() }, Instant(0)),
        };
        let parcel = Parcel {
            id: id.to_owned(),
            job,
            source: Source::Snapshot(digest(source)),
            extra: Vec::new(),
            env: Default::default(),
            groups: vec![runs.iter().map(member).collect()],
            lanes: 1,
            scheduler: crate::parcel::Scheduler::Host { cpus: None, memory: None, gpus: None, setup: Vec::new() },
        };
        self.write(&format!("parcels/{id}/parcel.json"), &serde_json::to_string(&parcel).unwrap());
    }

    fn age(&self) {
        fn age(path: &Path, to: SystemTime) {
            for path in entries(path).unwrap() {
                age(&path, to);
                std::fs::File::open(&path).unwrap().set_modified(to).unwrap();
            }
        }
        age(self.root.path(), SystemTime::now() - Duration::from_secs(7200));
    }

    fn plan(&self, going: &[u32], keep: &[char]) -> Vec<String> {
        let wish = Wish {
            going: going.iter().map(|number| run(*number)).collect(),
            keep: keep.iter().map(|letter| digest(*letter)).collect(),
            images: [image('e')].into(),
        };
        let name = |item: Item| {
            let name = item.path.file_name().unwrap().to_string_lossy().into_owned();
            format!(
                "{:?} {}",
                item.what,
                name.chars().rev().take(3).collect::<Vec<_>>().into_iter().rev().collect::<String>()
            )
        };
        plan(&self.depot, &wish).unwrap().items.into_iter().map(name).collect()
    }
}

#[test]
fn only_what_nobody_refers_to_goes() {
    let place = Place::new();
    place.parcel("y1", 'a', &[1, 2]);
    place.parcel("y2", 'b', &[3]);
    for snapshot in ['a', 'b', 'c', 'd'] {
        place.write(&format!("snapshots/{}", digest(snapshot).0), "");
        fs_err::create_dir(place.depot.tree(&digest(snapshot))).unwrap();
    }
    place.write("blobs/ab/unused", "12345");
    place.write("parcels/y2/job.sh", "exec /depot/bin/yard-used agent");
    place.write("bin/yard-used", "");
    place.write("bin/yard-old", "");
    assert_eq!(place.plan(&[], &[]), [""; 0], "all of it is fresh");
    place.age();
    let code = ["Snapshot ccc", "Tree ccc", "Agent old", "Blobs obs"];
    assert_eq!(place.plan(&[], &['d']), code, "run 3 may wait in a queue");
    place.write("runs/019a0000-0000-7000-8000-000000000001/work/x", "");
    assert_eq!(place.plan(&[1], &['d']).first().unwrap(), "Run 001");
    let gone =
        ["Run 001", "Parcel y1", "Snapshot aaa", "Snapshot ccc", "Tree aaa", "Tree ccc", "Agent old", "Blobs obs"];
    let mut planned = place.plan(&[1, 2], &['d']);
    planned.sort();
    let mut gone = gone.map(str::to_owned);
    gone.sort();
    assert_eq!(planned, gone);
}

#[test]
fn a_parcel_that_a_power_cut_tore_goes_and_one_of_another_yard_stays() {
    let place = Place::new();
    place.write("parcels/y1/parcel.json", "{\"id\":\"y1\",\"job\":{\"na");
    place.write("parcels/y2/parcel.json", "");
    place.write("blobs/ab/unused", "12345");
    place.age();
    let mut gone = place.plan(&[], &[]);
    gone.sort();
    assert_eq!(gone, ["Blobs obs", "Parcel y1", "Parcel y2"]);
    place.write("parcels/y3/parcel.json", "{\"of\":\"next year\"}");
    place.age();
    let mut gone = place.plan(&[], &[]);
    gone.sort();
    assert_eq!(gone, ["Parcel y1", "Parcel y2"], "what it needs is not known");
}

fn image(letter: char) -> ImageName {
    ImageName::parse(&format!("{}.sif", digest(letter).0)).unwrap()
}

#[test]
fn images_that_nobody_needs_go_with_what_lies_beside_them() {
    let place = Place::new();
    for letter in ['e', 'f'] {
        for ending in ["", ".chunks", ".part"] {
            place.write(&format!("images/{}{ending}", image(letter)), "");
        }
    }
    assert_eq!(place.plan(&[], &[]), Vec::<String>::new(), "they may be on their way");
    place.age();
    let mut gone = place.plan(&[], &[]);
    gone.sort();
    assert_eq!(gone, ["Image art", "Image nks", "Image sif"]);
}

#[test]
fn a_parcel_goes_with_the_last_of_its_runs() {
    let place = Place::new();
    place.parcel("y1", 'a', &[1, 2]);
    place.write("runs/019a0000-0000-7000-8000-000000000001/work/x", "");
    place.age();
    let wish = |number: u32| Wish { going: [run(number)].into(), ..Wish::default() };
    carry_out(&place.depot, &wish(1)).unwrap();
    assert!(!place.depot.run(run(1)).path().exists() && place.depot.parcel("y1").exists());
    carry_out(&place.depot, &wish(2)).unwrap();
    assert!(!place.depot.parcel("y1").exists());
}

#[test]
fn what_cannot_be_read_keeps_all_code() {
    let place = Place::new();
    place.write("parcels/y9/parcel.json", "{\"of\": \"a newer yard\"}");
    place.write(&format!("snapshots/{}", digest('a').0), "");
    place.write("blobs/ab/x", "");
    place.write("runs/019a0000-0000-7000-8000-000000000001/work/x", "");
    place.age();
    assert_eq!(place.plan(&[1], &[]), ["Run 001"]);
    assert!(plan(&place.depot, &Wish::default()).unwrap().blind);
}

#[test]
fn a_run_that_is_at_work_stays_whatever_is_believed_elsewhere() {
    let place = Place::new();
    let mut state = Run::new(Policy { attempts: 1, on: Vec::new() }, Instant(0));
    state.state = State::Running { since: Instant(0), attempt: 1 };
    state.last_attempt = 1;
    let folder = place.depot.run(run(1));
    folder.attempt(1).create().unwrap();
    let text = serde_json::to_string(&SiteState { run: state, ends: None }).unwrap();
    fs_err::write(folder.state(), text).unwrap();
    fs_err::write(folder.attempt(1).log(), "step 1").unwrap();
    let wish = Wish { going: [run(1)].into(), ..Wish::default() };
    let found = carry_out(&place.depot, &wish).unwrap();
    assert_eq!((found.items, found.at_work), (Vec::new(), vec![run(1)]));
    place.age();
    carry_out(&place.depot, &wish).unwrap();
    assert!(!folder.path().exists());
}

#[test]
fn a_pack_goes_when_less_than_half_of_it_is_needed_and_the_rest_gets_files() {
    use crate::pack::tests::{digest as named, pack, texts};
    use crate::pack::{Packs, content};
    use crate::snapshot::Entry;
    let place = Place::new();
    let all = texts(0, 60);
    all.chunks(20).for_each(|texts| pack(&place.depot, texts));
    // All of the first pack but a few, a few of the second, nothing of the third.
    let needed = all[..17].iter().chain(&all[20..23]);
    let entry = |text: &String| {
        let kind = Kind::File { blob: named(text), size: text.len() as u64, mode: 0o644 };
        Entry { path: text.clone(), kind }
    };
    let manifest = Manifest { entries: needed.clone().map(entry).collect() };
    fs_err::write(place.depot.snapshot(&manifest.digest()), manifest.bytes()).unwrap();
    let wish = Wish { keep: [manifest.digest()].into(), ..Wish::default() };
    let files = || entries(&place.depot.packs()).unwrap().len();
    assert_eq!(carry_out(&place.depot, &wish).unwrap(), Found::default(), "they may be on their way");
    assert_eq!(files(), 6);
    place.age();
    let found = carry_out(&place.depot, &wish).unwrap();
    assert_eq!(found.items.iter().map(|item| item.what).collect::<Vec<_>>(), [What::Blobs]);
    assert_eq!(files(), 2, "the first pack and its index");
    let packs = Packs::read(&place.depot);
    for text in needed {
        assert_eq!(content(&place.depot, &packs, &named(text)).unwrap(), text.as_bytes());
    }
    assert!(place.depot.blob(&named(&all[20])).exists() && !place.depot.blob(&named(&all[0])).exists());
    place.age();
    assert_eq!(carry_out(&place.depot, &wish).unwrap(), Found::default(), "nothing is left to do");
}
