#![expect(clippy::unwrap_used, reason = "tests")]
use super::*;

struct Places {
    root: tempfile::TempDir,
    scratch: Scratch,
}

impl Places {
    fn new(checkpoint: &str) -> Self {
        let root = tempfile::tempdir().unwrap();
        for name in ["here", "depot"] {
            fs_err::create_dir(root.path().join(name)).unwrap();
        }
        let scratch = Scratch {
            folder: root.path().join("here"),
            depot: root.path().join("depot"),
            incoming: root.path().join("incoming"),
            roots: vec![PathBuf::from("logs")],
            checkpoint: Some(GlobBuilder::new(checkpoint).literal_separator(true).build().unwrap().compile_matcher()),
            same: BTreeMap::new(),
        };
        Self { root, scratch }
    }

    /// As old as it takes to be trusted.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.root.path().join("here").join(name);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        let old = SystemTime::now() - Duration::from_secs(100 - text.len() as u64);
        std::fs::File::options().append(true).open(&path).unwrap().set_modified(old).unwrap();
        path
    }

    fn depot(&self, name: &str) -> Option<String> {
        fs_err::read_to_string(self.root.path().join("depot").join(name)).ok()
    }

    fn sync(&mut self, torn: &[PathBuf]) {
        let doubt = Doubt { torn: torn.to_vec(), cut_off: Some(SystemTime::now()) };
        self.scratch.sync(&doubt).unwrap();
    }
}

#[test]
fn results_come_back_and_what_is_removed_goes() {
    let mut places = Places::new("logs/*.pt");
    places.write("code.py", "code");
    places.write("logs/m1.pt", "one");
    places.write("logs/deep/events", "e");
    places.sync(&[]);
    assert_eq!(places.depot("logs/m1.pt").as_deref(), Some("one"));
    assert_eq!(places.depot("logs/deep/events").as_deref(), Some("e"));
    assert_eq!(places.depot("code.py"), None, "no result");
    fs_err::remove_file(places.root.path().join("here/logs/m1.pt")).unwrap();
    places.write("logs/deep/events", "e2");
    places.sync(&[]);
    assert_eq!((places.depot("logs/m1.pt"), places.depot("logs/deep/events")), (None, Some("e2".to_owned())));
}

#[test]
fn a_checkpoint_that_is_being_written_waits_and_a_log_does_not() {
    let mut places = Places::new("logs/*.pt");
    let (model, log) = (places.write("logs/m.pt", "whole"), places.write("logs/log", "a"));
    places.sync(&[]);
    places.write("logs/m.pt", "half of the next");
    places.write("logs/log", "a, b");
    places.sync(&[model, log]);
    assert_eq!(places.depot("logs/m.pt").as_deref(), Some("whole"));
    assert_eq!(places.depot("logs/log").as_deref(), Some("a, b"));
    fs_err::write(places.root.path().join("here/logs/m.pt"), "written just now").unwrap();
    places.sync(&[]);
    assert_eq!(places.depot("logs/m.pt").as_deref(), Some("whole"), "it may not be all");
}

#[test]
fn a_checkpoint_of_several_files_comes_as_one() {
    let mut places = Places::new("logs/step_*");
    places.write("logs/step_1/weights", "w1");
    let state = places.write("logs/step_1/state", "s1");
    places.sync(&[state]);
    assert_eq!(places.depot("logs/step_1/weights"), None, "one file of it is not whole");
    places.sync(&[]);
    assert_eq!(places.depot("logs/step_1/weights").as_deref(), Some("w1"));
    places.write("logs/step_1/weights", "w1, again");
    let state = places.write("logs/step_1/state", "s1, again");
    places.sync(&[state]);
    assert_eq!(places.depot("logs/step_1/weights").as_deref(), Some("w1"), "old with old");
    places.sync(&[]);
    assert_eq!(places.depot("logs/step_1/weights").as_deref(), Some("w1, again"));
    assert_eq!(places.depot("logs/step_1/state").as_deref(), Some("s1, again"));
}

#[test]
fn a_full_disk_is_named() {
    let root = tempfile::tempdir().unwrap();
    let error = check_space(root.path(), u64::MAX).unwrap_err().to_string();
    assert!(error.contains("left, and the working folder needs"), "{error}");
    assert!(check_space(Path::new("/no/such"), 1).unwrap_err().to_string().contains("/no/such"));
}
