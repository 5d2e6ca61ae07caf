//! What goes wrong between a laptop and a cluster. Whatever it is: no second job, no lost run.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::{eventually, processes, within};

use crate::site::Site;

/// Leaves a mark each time it is executed; the marks survive the run.
const MARKING: &str = "[jobs.mark]\ncommand = ['sh', '-c', 'echo \"$YARD_RUN\" >> \"$HOME/marks\"; sleep 0.2']\n";

fn marks(site: &Site<'_>) -> BTreeMap<String, usize> {
    let text = std::fs::read_to_string(site.login.home().join("marks")).unwrap_or_default();
    let mut counted = BTreeMap::new();
    for line in text.lines() {
        *counted.entry(line.to_owned()).or_default() += 1;
    }
    counted
}

/// Every run in the ledger has succeeded and was executed once, and nothing else was.
fn all_executed_once(site: &Site<'_>, patience: Duration) {
    within(patience, "every run to succeed", || {
        let runs = site.runs();
        runs.iter().all(|run| run["state"] == "succeeded").then_some(())
    });
    let runs: BTreeMap<String, usize> =
        site.runs().iter().filter_map(|run| run["id"].as_str().map(|id| (id.to_owned(), 1))).collect();
    assert_eq!(marks(site), runs);
}

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn text(&mut self, length: usize) -> String {
        (0..length).map(|_| char::from(b'a' + u8::try_from(self.below(26)).unwrap_or(0))).collect()
    }
}

/// A command at the login node that comes before the real one.
fn in_the_way(site: &Site<'_>, command: &str, script: &str) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let folder = site.login.home().join("bin");
    std::fs::create_dir_all(&folder).expect("a folder");
    let path = folder.join(command);
    std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).expect("a script");
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("to be executable");
    let line = format!("export PATH={}:$PATH\n", folder.display());
    std::fs::write(site.login.home().join(".bashrc"), line).expect("a shell file");
    // A pipe that is open knows nothing of it.
    site.login.cut();
    path
}

#[test]
fn a_connection_cut_anywhere_loses_and_doubles_nothing() {
    const CUTS: u64 = 50;
    let site = Site::new(Slurm::shared(), MARKING, "");
    let mut numbers = Numbers(7);
    let first = site.run(&["run", "mark", "--on", "euler", "--detach"]);
    assert_eq!(first.exit, 0, "{first:?}");
    let (mut told, mut refused) = (1, 0);
    for _ in 0..CUTS {
        site.write("data.txt", &numbers.text(20_000));
        // A new connection, an upload and a submission are some 40 kB.
        site.login.cut();
        site.login.cut_after(1 + numbers.below(45_000));
        let ran = site.run(&["run", "mark", "--on", "euler", "--detach"]);
        match ran.exit {
            0 => told += 1,
            4 => refused += 1,
            _ => panic!("{ran:?}"),
        }
    }
    assert!(refused > 5, "some cuts came before the runs were recorded: {refused}");
    all_executed_once(&site, Duration::from_secs(180));
    assert_eq!(site.runs().len(), told, "a run is recorded when and only when the command says so");
}

#[test]
fn a_controller_that_forgets_what_it_acknowledged() {
    let slurm = Slurm::start(Options::default());
    let site = Site::new(&slurm, MARKING, "directives = ['--begin=now+3']\n");
    let ran = site.run(&["run", "mark", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    slurm.kill_controller();
    // Nobody answers: nothing follows from that.
    eventually("the doubt to be known", || site.run(&["ps"]).stdout.contains("euler").then_some(()));
    assert_eq!(site.show("mark")["state"], "waiting");
    slurm.start_controller();
    all_executed_once(&site, Duration::from_secs(180));
}

#[test]
fn sbatch_accepts_but_its_answer_is_lost() {
    let site = Site::new(Slurm::shared(), MARKING, "");
    let flag = site.login.home().join("once");
    let script = format!(
        "if [ ! -e {flag} ]; then touch {flag}; /usr/bin/sbatch \"$@\" >/dev/null; \
         echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1; fi\n\
         exec /usr/bin/sbatch \"$@\"",
        flag = flag.display()
    );
    in_the_way(&site, "sbatch", &script);
    let ran = site.run(&["run", "mark", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    all_executed_once(&site, Duration::from_secs(120));
    assert!(flag.exists());
    assert_eq!(site.jobs_of("mark").len(), 1, "one job");
}

#[test]
fn squeue_that_fails_changes_nothing() {
    let site = Site::new(
        Slurm::shared(),
        "[jobs.long]\ncommand = ['sh', '-c', 'while [ ! -e \"$HOME/go\" ]; do sleep 0.1; done']\n",
        "",
    );
    site.run(&["run", "long", "--on", "euler", "--detach"]);
    site.wait_for("long", "running");
    let broken =
        in_the_way(&site, "squeue", "echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1");
    site.login.cut();
    eventually("the problem to be told", || site.run(&["ps"]).stderr.contains("has not answered").then_some(()));
    std::fs::write(site.login.home().join("go"), "").expect("a file");
    let id = site.show("long")["id"].as_str().map(str::to_owned).expect("an id");
    let mark = format!("YARD_RUN={id}");
    eventually("the program to end", || processes::with_environment(&mark).is_empty().then_some(()));
    // However long it lasts: moments here, ten minutes with `./test --all`.
    let silence = std::env::var("YARD_TEST_SILENCE").ok().and_then(|text| text.parse().ok()).unwrap_or(2);
    let (began, silence) = (Instant::now(), Duration::from_secs(silence));
    within(silence * 2, "the silence to be over", || {
        assert_eq!(site.show("long")["state"], "running", "could not ask is no answer");
        assert!(site.run(&["ps"]).stderr.contains("has not answered since"), "and that is said");
        (began.elapsed() >= silence).then_some(())
    });
    std::fs::remove_file(broken).expect("to remove it");
    site.wait_for("long", "succeeded");
}

#[test]
fn a_job_refused_by_slurm_says_why() {
    let site = Site::new(Slurm::shared(), MARKING, "directives = ['--dependency=afterok:99999999']\n");
    let ran = site.run(&["run", "mark", "--on", "euler", "--detach"]);
    assert!(ran.exit == 3 || ran.exit == 5, "{ran:?}");
    let site = Site::new(Slurm::shared(), MARKING, "constraint = 'no-such-feature'\n");
    let ran = site.run(&["run", "mark", "--on", "euler"]);
    assert_eq!(ran.exit, 5, "{ran:?}");
    assert!(ran.stdout.contains("feature") || ran.stderr.contains("feature"), "{ran:?}");
    assert!(site.jobs().is_empty());
}

#[test]
fn an_unreachable_site_is_told_and_nothing_is_recorded() {
    let site = Site::new(Slurm::shared(), MARKING, "");
    site.login.stop();
    let ran = site.run(&["run", "mark", "--on", "euler"]);
    assert_eq!(ran.exit, 4, "{ran:?}");
    assert!(site.runs().is_empty());
    site.login.resume();
    let ran = site.run(&["run", "mark", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
}

/// A disk for everybody; it goes with the value.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn on(folder: PathBuf, megabytes: u32) -> Self {
        std::fs::create_dir_all(&folder).expect("a folder");
        let options = format!("size={megabytes}m,mode=1777");
        let words = ["-t", "tmpfs", "-o", &options, "tmpfs"];
        let mounted = Command::new("mount").args(words).arg(&folder).status().expect("mount");
        assert!(mounted.success(), "only root can mount");
        Self(folder)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg("-l").arg(&self.0).status());
    }
}

fn open_folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("to be open");
    folder
}

#[test]
fn a_site_that_runs_out_of_space_gets_its_runs_when_there_is_some() {
    let folder = open_folder();
    let disk = SmallDisk::on(folder.path().join("disk"), 1024);
    // One that comes up later sees the disk on its nodes.
    let slurm = Slurm::start(Options { nodes: 1, ..Options::default() });
    let site = Site::with_depot(&slurm, MARKING, "", Some(disk.0.join("depot")));
    let first = site.run(&["run", "mark", "--on", "euler"]);
    assert_eq!(first.exit, 0, "{first:?}");
    // The code is there, so the next run is recorded; but its parcel has no place.
    let filler = disk.0.join("filler");
    let mut open = std::fs::File::create(&filler).expect("a file");
    let full = std::iter::repeat_with(|| std::io::Write::write_all(&mut open, &[0; 4096])).find_map(Result::err);
    assert_eq!(full.map(|error| error.kind()), Some(std::io::ErrorKind::StorageFull));
    let second = site.run(&["run", "mark", "--on", "euler", "--name", "later", "--detach"]);
    assert_eq!(second.exit, 0, "{second:?}");
    let listed = site.run(&["ps"]);
    assert!(listed.stdout.contains("submitted yet"), "{listed:?}");
    assert!(listed.stdout.contains("No space left on device"), "{listed:?}");
    assert_eq!(site.show("later")["state"], "starting");
    assert_eq!(site.jobs_of("mark").len(), 1, "nothing was submitted");
    drop(open);
    std::fs::remove_file(filler).expect("to make room");
    all_executed_once(&site, Duration::from_secs(120));
}

#[test]
fn a_depot_that_the_nodes_do_not_see_ends_the_run() {
    // Its nodes see nothing that is mounted after they came up; its login node does.
    let slurm = Slurm::start(Options { nodes: 1, ..Options::default() });
    let folder = open_folder();
    let disk = SmallDisk::on(folder.path().join("disk"), 1024);
    let site = Site::with_depot(&slurm, MARKING, "", Some(disk.0.join("depot")));
    let ran = site.run(&["run", "mark", "--on", "euler", "--detach"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let ended = site.wait_for("mark", "failed");
    assert!(ended["reason"].as_str().is_some_and(|why| why.contains("`yard target check`")), "{ended}");
    assert!(site.live_jobs().is_empty(), "nothing is tried again and again");
}

#[test]
fn a_site_without_space_is_told_before_anything_is_recorded() {
    let folder = open_folder();
    let disk = SmallDisk::on(folder.path().join("disk"), 24);
    let site = Site::with_depot(Slurm::shared(), MARKING, "", Some(disk.0.join("depot")));
    let mut numbers = Numbers(3);
    site.write("data.txt", &numbers.text(4_000_000));
    let ran = site.run(&["run", "mark", "--on", "euler"]);
    assert_eq!(ran.exit, 5, "{ran:?}");
    assert!(ran.stderr.contains("free") || ran.stderr.contains("space"), "{ran:?}");
    assert!(site.runs().is_empty());
}

#[test]
fn a_depot_that_was_wiped_is_told_and_filled_again() {
    let site = Site::new(Slurm::shared(), MARKING, "");
    let first = site.run(&["run", "mark", "--on", "euler"]);
    assert_eq!(first.exit, 0, "{first:?}");
    std::fs::remove_dir_all(site.login.home().join("depot/snapshots")).expect("a folder");
    let second = site.run(&["run", "mark", "--on", "euler"]);
    assert_eq!(second.exit, 5, "{second:?}");
    assert!(second.stdout.contains("no longer at the site"), "{second:?}");
    let third = site.run(&["run", "mark", "--on", "euler"]);
    assert_eq!(third.exit, 0, "{third:?}");
}
