//! Handing a script to SLURM, from the login node or from within a job.

use super::queue::Task;

/// Personal settings that would win over the lines of our script: `sbatch` is started without them.
pub const UNSET: [&str; 32] = [
    "SBATCH_ACCOUNT",
    "SBATCH_ARRAY_INX",
    "SBATCH_CLUSTERS",
    "SBATCH_CONSTRAINT",
    "SBATCH_CPUS_PER_GPU",
    "SBATCH_DELAY_BOOT",
    "SBATCH_ERROR",
    "SBATCH_EXCLUSIVE",
    "SBATCH_EXPORT",
    "SBATCH_GET_USER_ENV",
    "SBATCH_GPUS",
    "SBATCH_GPUS_PER_NODE",
    "SBATCH_GPUS_PER_TASK",
    "SBATCH_GRES",
    "SBATCH_HINT",
    "SBATCH_INPUT",
    "SBATCH_JOB_NAME",
    "SBATCH_MEM_PER_CPU",
    "SBATCH_MEM_PER_GPU",
    "SBATCH_MEM_PER_NODE",
    "SBATCH_NO_REQUEUE",
    "SBATCH_OPEN_MODE",
    "SBATCH_OUTPUT",
    "SBATCH_OVERCOMMIT",
    "SBATCH_PARTITION",
    "SBATCH_QOS",
    "SBATCH_REQUEUE",
    "SBATCH_RESERVATION",
    "SBATCH_SIGNAL",
    "SBATCH_TIMELIMIT",
    "SBATCH_WAIT",
    "SLURM_CLUSTERS",
];

/// Submits the script at this absolute path, in an environment without [`UNSET`]. [`super::parse_submitted`] reads the
/// answer; secrets that the script names must be in the environment.
pub fn submit(script: &str) -> Vec<String> {
    sbatch(&[], script)
}

/// Submits what goes on when `own` has ended, however it ends: the same group of the same script.
pub fn successor(script: &str, own: Task) -> Vec<String> {
    let after = format!("--dependency=afterany:{own}");
    match own.index {
        Some(index) => sbatch(&[after, format!("--array={index}")], script),
        None => sbatch(&[after], script),
    }
}

/// Puts the job back into the queue. By the array's own number all of its tasks would go with it.
pub fn requeue(own: Task) -> Vec<String> {
    ["scontrol".to_owned(), "requeue".to_owned(), own.to_string()].into()
}

fn sbatch(options: &[String], script: &str) -> Vec<String> {
    let words = ["sbatch", "--parsable"].map(str::to_owned).into_iter();
    words.chain(options.iter().cloned()).chain([script.to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_group_goes_on() {
        let task = Task { job: 7, index: Some(3) };
        assert_eq!(submit("/p/job.sh"), ["sbatch", "--parsable", "/p/job.sh"]);
        let next = successor("/p/job.sh", task);
        assert_eq!(next, ["sbatch", "--parsable", "--dependency=afterany:7_3", "--array=3", "/p/job.sh"]);
        let next = successor("/p/job.sh", Task { job: 7, index: None });
        assert_eq!(next, ["sbatch", "--parsable", "--dependency=afterany:7", "/p/job.sh"]);
        assert_eq!(requeue(task), ["scontrol", "requeue", "7_3"]);
    }
}
