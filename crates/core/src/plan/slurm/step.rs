//! A run with several processes: how `srun` is asked to start them, and where they meet.

use crate::spec::{Gpus, JobSpec};

/// Below the ports that systems give to outgoing connections, above those of services.
const PORTS: std::ops::Range<u64> = 12_000..32_000;

/// Where the processes of a run meet. The same for every attempt in one allocation; the lanes of an allocation and the
/// allocations next to it have others.
pub fn rendezvous_port(job_id: u64, lane: u32) -> u16 {
    let turn = job_id.wrapping_mul(u64::from(Gpus::MOST_SHARES)).wrapping_add(u64::from(lane));
    let port = PORTS.start + turn % (PORTS.end - PORTS.start);
    u16::try_from(port).unwrap_or(u16::MAX)
}

/// `srun` for one process per node or GPU. `options` are for the image, `task` is what each process begins as.
///
/// The first process that fails takes the others with it, and one that ends well leaves them a minute.
pub fn step(job: &JobSpec, options: &[String], task: &[String], argv: &[String]) -> Vec<String> {
    let tasks = job.tasks_per_node();
    let mut words = vec![
        "srun".to_owned(),
        format!("--nodes={}", job.nodes),
        format!("--ntasks={}", job.total_tasks()),
        format!("--ntasks-per-node={tasks}"),
        format!("--cpus-per-task={}", job.cpus.div_ceil(tasks).max(1)),
        "--kill-on-bad-exit=1".to_owned(),
        "--wait=60".to_owned(),
        "--export=ALL".to_owned(),
    ];
    if tasks > 1 && job.gpus != Gpus::Whole(0) {
        // Each process sees all GPUs of its node and takes the one of its LOCAL_RANK, as torch expects.
        words.push("--gpu-bind=none".to_owned());
    }
    words.extend(options.iter().chain(task).chain(argv).cloned());
    words
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::spec::{Layer, load};

    fn job(keys: &str) -> JobSpec {
        let text = format!("[jobs.train]\ncommand = ['python', 'train.py']\n{keys}\n");
        let loaded = load(&[Layer { name: "trainyard.toml".to_owned(), text }], &[], "p").unwrap();
        loaded.config.jobs["train"].clone()
    }

    fn line(keys: &str, options: &[&str]) -> String {
        let own = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let task = own(&["/d/bin/yard", "agent", "task", "--"]);
        step(&job(keys), &own(options), &task, &own(&["python", "--nodes=9", "a b"])).join("\n")
    }

    #[test]
    fn one_process_per_node() {
        insta::assert_snapshot!(line("nodes = 2\ncpus = 6\ngpus = 4", &[]), @r"
        srun
        --nodes=2
        --ntasks=2
        --ntasks-per-node=1
        --cpus-per-task=6
        --kill-on-bad-exit=1
        --wait=60
        --export=ALL
        /d/bin/yard
        agent
        task
        --
        python
        --nodes=9
        a b
        ");
    }

    #[test]
    fn one_process_per_gpu_in_an_image() {
        let line = line("nodes = 2\ncpus = 6\ngpus = 4\ntasks = 'per-gpu'", &["--container-image=/i.sqsh"]);
        insta::assert_snapshot!(line, @r"
        srun
        --nodes=2
        --ntasks=8
        --ntasks-per-node=4
        --cpus-per-task=2
        --kill-on-bad-exit=1
        --wait=60
        --export=ALL
        --gpu-bind=none
        --container-image=/i.sqsh
        /d/bin/yard
        agent
        task
        --
        python
        --nodes=9
        a b
        ");
    }

    #[test]
    fn neighbours_do_not_meet() {
        let ports: std::collections::BTreeSet<u16> =
            (7_000_000..7_000_100).flat_map(|job| (0..16).map(move |lane| rendezvous_port(job, lane))).collect();
        assert_eq!(ports.len(), 1600);
        assert!(ports.iter().all(|port| PORTS.contains(&u64::from(*port))));
        assert_eq!(rendezvous_port(u64::MAX, 15), rendezvous_port(u64::MAX, 15));
    }
}
