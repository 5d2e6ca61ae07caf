//! The engines the other tests rely on are real and do what they are told.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::process::{Command, Stdio};

use trainyard_testkit::login::Login;
use trainyard_testkit::slurm::{Options, Slurm};
use trainyard_testkit::stage::User;
use trainyard_testkit::{census, eventually, processes};

/// The id of a job of this user that runs this shell line.
fn submit(slurm: &Slurm, user: &User, options: &[&str], line: &str) -> String {
    let wrap = format!("--wrap={line}");
    let argv = [&["sbatch", "--parsable", "--open-mode=append", "-o", "%A.out"], options, &[&wrap]].concat();
    let submitted = slurm.run_as(user, &argv);
    assert_eq!(submitted.exit, 0, "{submitted:?}");
    submitted.stdout.trim().to_owned()
}

fn output(user: &User, id: &str) -> String {
    std::fs::read_to_string(user.home.join(format!("{id}.out"))).unwrap_or_default()
}

fn until_running(slurm: &Slurm, user: &User, id: &str, words: &str) {
    slurm.wait_for(id, "RUNNING");
    eventually("the job to speak", || output(user, id).contains(words).then_some(()));
}

#[test]
fn a_job_runs_as_its_user_on_a_machine_of_its_own() {
    let slurm = Slurm::shared();
    let user = slurm.add_user();
    let boot = "cat /proc/sys/kernel/random/boot_id";
    let line = format!("id -u; hostname; getent hosts n2; {boot}; echo $CUDA_VISIBLE_DEVICES");
    let id = submit(slurm, &user, &["-p", "gpu", "--gres=gpu:a100:2", "-w", "n1"], &line);
    slurm.wait_for(&id, "COMPLETED");
    let said = output(&user, &id);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], user.uid.to_string());
    assert_eq!(lines[1], "n1");
    assert_eq!(lines[2].split_whitespace().collect::<Vec<_>>(), ["127.0.0.12", "n2"]);
    assert_ne!(lines[3], std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap().trim());
    assert_eq!(lines[4], "0,1");
}

#[test]
fn steps_spread_over_nodes() {
    let slurm = Slurm::shared();
    let user = slurm.add_user();
    let id = submit(slurm, &user, &["-N2", "--ntasks-per-node=1"], "srun hostname | sort");
    slurm.wait_for(&id, "COMPLETED");
    assert_eq!(output(&user, &id).lines().count(), 2, "{}", output(&user, &id));
    assert_ne!(output(&user, &id).lines().next(), output(&user, &id).lines().nth(1));
}

#[test]
fn arrays_have_a_row_per_task() {
    let slurm = Slurm::shared();
    let user = slurm.add_user();
    let id = submit(slurm, &user, &["--array=0-3%1"], "echo task $SLURM_ARRAY_TASK_ID");
    eventually("four finished tasks", || {
        let rows = slurm.job(&id);
        (rows.len() == 4 && rows.iter().all(|row| row.state == "COMPLETED")).then_some(())
    });
    assert_eq!(output(&user, &id), "task 0\ntask 1\ntask 2\ntask 3\n");
}

#[test]
fn through_the_jump_host_to_sbatch() {
    let slurm = Slurm::shared();
    let login = Login::start(Some(slurm));
    for host in [login.host(), login.direct_host(), login.plain_host()] {
        let submitted = login.ssh(host, "sbatch --parsable -o '%j' --wrap 'pwd; id -un'");
        assert_eq!(submitted.exit, 0, "{host}: {submitted:?}");
        let id = submitted.stdout.trim();
        slurm.wait_for(id, "COMPLETED");
        let said = std::fs::read_to_string(login.home().join(id)).unwrap();
        assert_eq!(said, format!("{}\n{}\n", login.home().display(), login.user().name));
    }
}

/// `./test --all` gives more than one.
#[test]
fn every_version_does_the_same() {
    let mut versions = Vec::new();
    for root in Slurm::roots() {
        let slurm = Slurm::start(Options { root, ..Options::default() });
        let login = Login::start(Some(&slurm));
        let version = slurm.version();
        let said = login.ssh(login.host(), "sbatch --version; hostname");
        assert_eq!(said.stdout, format!("slurm-wlm {version}\nlogin-{}\n", login.user().name), "{said:?}");
        let id = submit(&slurm, login.user(), &["-N2", "--gres=gpu:1", "-w", "n[2-3]"], "srun hostname | sort; pwd");
        slurm.wait_for(&id, "COMPLETED");
        assert_eq!(output(login.user(), &id), format!("n2\nn3\n{}\n", login.home().display()));
        slurm.kill_controller();
        slurm.start_controller();
        slurm.kill_node("n2");
        slurm.start_node("n2");
        slurm.wait_idle();
        versions.push(version);
    }
    versions.dedup();
    assert_eq!(versions.len(), Slurm::roots().len(), "{versions:?}");
}

#[test]
fn a_requeued_job_lives_twice() {
    let slurm = Slurm::shared();
    let user = slurm.add_user();
    let line = "echo life $SLURM_RESTART_COUNT; [ -n \"$SLURM_RESTART_COUNT\" ] || { scontrol requeue $SLURM_JOB_ID; sleep 60; }";
    let id = submit(slurm, &user, &["--requeue"], line);
    slurm.wait_for(&id, "COMPLETED");
    assert!(
        output(&user, &id).starts_with("life\n") && output(&user, &id).contains("life 1\n"),
        "{}",
        output(&user, &id)
    );
}

#[test]
fn time_runs_out_when_told() {
    let slurm = Slurm::shared();
    let user = slurm.add_user();
    let id = submit(slurm, &user, &[], "trap 'echo warned' TERM; echo up; while :; do sleep 0.1; done");
    until_running(slurm, &user, &id, "up");
    slurm.expire(&id);
    slurm.wait_for(&id, "TIMEOUT");
    assert!(output(&user, &id).contains("DUE TO TIME LIMIT"), "{}", output(&user, &id));
}

#[test]
fn a_dead_node_takes_everything_with_it() {
    let slurm = Slurm::start(Options::default());
    let user = slurm.add_user();
    let id = submit(&slurm, &user, &["--requeue", "-w", "n2"], "echo up; setsid sleep 300 & sleep 300");
    until_running(&slurm, &user, &id, "up");
    let before = slurm.on_node("n2");
    assert!(before.len() >= 3, "a step and its processes: {before:?}");
    slurm.kill_node("n2");
    assert!(!before.iter().any(|pid| processes::is_alive(*pid)));
    slurm.declare_down("n2");
    slurm.wait_for(&id, "PENDING");
    slurm.start_node("n2");
    eventually("a second life", || (output(&user, &id).matches("up").count() == 2).then_some(()));
}

#[test]
fn a_preempted_job_comes_back() {
    let slurm = Slurm::start(Options { nodes: 1, ..Options::default() });
    let user = slurm.add_user();
    let id = submit(&slurm, &user, &["--requeue"], "echo up; sleep 300");
    until_running(&slurm, &user, &id, "up");
    let higher = slurm.preempt(&["n1"]);
    assert!(output(&user, &id).contains("DUE TO PREEMPTION"), "{}", output(&user, &id));
    slurm.ask(&["scancel", &higher]);
    eventually("a second life", || (output(&user, &id).matches("up").count() == 2).then_some(()));
}

#[test]
fn a_killed_controller_knows_its_older_jobs_again() {
    let slurm = Slurm::start(Options { nodes: 1, ..Options::default() });
    let user = slurm.add_user();
    let id = submit(&slurm, &user, &[], "echo up; while [ ! -e go ]; do sleep 0.1; done; exit 7");
    until_running(&slurm, &user, &id, "up");
    // It saves its state five seconds after a change.
    let saved = slurm.stage().folder().join("state/job_state");
    eventually("the saved state", || {
        let text = std::fs::read(&saved).ok()?;
        text.windows(user.home.as_os_str().len())
            .any(|part| part == user.home.as_os_str().as_encoded_bytes())
            .then_some(())
    });
    slurm.kill_controller();
    assert_ne!(slurm.run(&["timeout", "1", "squeue"]).exit, 0);
    slurm.start_controller();
    slurm.wait_for(&id, "RUNNING");
    std::fs::write(user.home.join("go"), "").unwrap();
    slurm.wait_for(&id, "FAILED");
}

#[test]
fn what_the_options_say_is_so() {
    let options = Options {
        nodes: 2,
        job_requeue: false,
        max_array: 50,
        extra: vec!["MaxJobCount=77".into()],
        ..Options::default()
    };
    let slurm = Slurm::start(options);
    let config = slurm.ask(&["scontrol", "show", "config"]);
    let has = |name: &str, value: &str| {
        config.lines().any(|line| line.split_once('=').is_some_and(|(n, v)| n.trim() == name && v.trim() == value))
    };
    assert!(has("JobRequeue", "0") && has("MaxArraySize", "50") && has("MaxJobCount", "77"), "{config}");
    assert_eq!(slurm.ask(&["sinfo", "-h", "-N", "-p", "main", "-o", "%N %G"]), "n1 gpu:a100:4\nn2 gpu:a100:4\n");
}

#[test]
fn nothing_is_left_when_it_ends() {
    let slurm = Slurm::start(Options { nodes: 1, ..Options::default() });
    let user = slurm.add_user();
    let id = submit(&slurm, &user, &["--export=NONE"], "echo up; setsid sleep 300 & sleep 300");
    until_running(&slurm, &user, &id, "up");
    let folder = slurm.stage().folder().to_owned();
    let found = slurm.stage().find(|_| true);
    assert!(found.len() >= 6, "controller, node, step, job: {found:?}");
    let login = Login::start(Some(&slurm));
    let mut session = login.command(login.host(), "echo there; exec sleep 300").stdout(Stdio::piped()).spawn().unwrap();
    std::io::Read::read_exact(session.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
    drop(login);
    assert!(!session.wait().unwrap().success());
    drop(slurm);
    assert!(!folder.exists());
    let left: Vec<i32> = found.into_iter().filter(|pid| processes::is_alive(*pid)).collect();
    assert_eq!(left, Vec::<i32>::new());
    let named = census::take()
        .into_iter()
        .filter(|one| one.arguments.iter().any(|word| word.contains(folder.to_str().unwrap())));
    assert_eq!(named.map(|one| one.arguments).collect::<Vec<_>>(), Vec::<Vec<String>>::new());
}

#[test]
fn nothing_is_left_when_a_test_is_killed() {
    let mut test = Command::new(std::env::current_exe().unwrap());
    let mut test = test.args(["--exact", "time_runs_out_when_told"]).stdout(Stdio::null()).spawn().unwrap();
    let started = || -> Vec<i32> {
        let all = census::take().into_iter();
        all.filter(|one| one.parent == test.id().cast_signed()).map(|one| one.pid).collect()
    };
    // The guardian, munged, slurmctld and four slurmd.
    let found = eventually("daemons", || Some(started()).filter(|found| found.len() >= 7));
    test.kill().unwrap();
    test.wait().unwrap();
    eventually("the end of all of them", || (!found.iter().any(|pid| processes::is_alive(*pid))).then_some(()));
}

#[test]
fn connections_are_cut() {
    let login = Login::start(None);
    for host in [login.host(), login.direct_host()] {
        let mut session = login.command(host, "echo there; exec sleep 300").stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(session.stdout.as_mut().unwrap(), &mut [0; 6]).unwrap();
        login.cut();
        assert_eq!(session.wait().unwrap().code(), Some(255));
        assert_eq!(login.ssh(host, "exit 3").exit, 3);
    }
}

#[test]
fn connections_are_cut_at_a_byte() {
    let login = Login::start(None);
    let megabyte = "head -c 1000000 /dev/zero";
    assert_eq!(login.ssh(login.host(), megabyte).stdout.len(), 1_000_000);
    for bytes in [1, 2_000, 500_000] {
        login.cut_after(bytes);
        let (before, cuts) = (login.bytes(), login.cuts());
        let output = login.ssh(login.host(), megabyte);
        assert_eq!((output.exit, login.cuts()), (255, cuts + 1), "{output:?}");
        assert_eq!(login.bytes() - before, bytes);
        assert!(output.stdout.len() < 500_000);
    }
    assert_eq!(login.ssh(login.host(), megabyte).exit, 0);
}

#[test]
fn a_login_node_goes_and_comes_back() {
    let login = Login::start(None);
    login.stop();
    assert_eq!(login.ssh(login.host(), "true").exit, 255);
    assert!(login.ssh(login.plain_host(), "true").stderr.contains("Connection refused"));
    login.resume();
    assert_eq!(login.ssh(login.host(), "true").exit, 0);
}

#[test]
fn a_silent_network_comes_back() {
    let login = Login::start(None);
    login.freeze();
    let mut session = login.command(login.direct_host(), "exit 4").spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(session.try_wait().unwrap().is_none());
    login.thaw();
    assert_eq!(session.wait().unwrap().code(), Some(4));
}

#[test]
fn a_chatty_site_talks_on_both_streams() {
    let login = Login::start(None);
    login.banner("WELCOME to the cluster");
    let output = login.ssh(login.host(), "echo mine");
    assert_eq!(output.stdout, "WELCOME to the cluster\nmine\n");
    assert_eq!(output.stderr.matches("WELCOME").count(), 2, "{output:?}");
}

#[test]
fn keys_are_refused_and_hosts_mistrusted() {
    let login = Login::start(None);
    login.refuse_key();
    assert!(login.ssh(login.host(), "true").stderr.contains("Permission denied (publickey)"));
    login.accept_key();
    assert_eq!(login.ssh(login.host(), "true").exit, 0);
    login.change_host_key();
    assert!(login.ssh(login.host(), "true").stderr.contains("REMOTE HOST IDENTIFICATION HAS CHANGED"));
    login.know_hosts();
    assert_eq!(login.ssh(login.host(), "true").exit, 0);
    login.forget_hosts();
    assert!(login.ssh(login.host(), "true").stderr.contains("Host key verification failed"));
}

#[test]
fn accounting_remembers() {
    for root in Slurm::roots() {
        let slurm = Slurm::start(Options { nodes: 1, accounting: true, root, ..Options::default() });
        let user = slurm.add_user();
        let id = submit(&slurm, &user, &[], "exit 3");
        eventually("sacct to know the end", || {
            let rows = slurm.ask(&["sacct", "-P", "-n", "-X", "-j", &id, "-o", "JobID,State,ExitCode,User"]);
            (rows == format!("{id}|FAILED|3:0|{}\n", user.name)).then_some(())
        });
    }
}
