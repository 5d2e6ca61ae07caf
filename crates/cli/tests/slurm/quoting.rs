//! What `sbatch` makes of our quotes, and of every kind of line at once.

use trainyard_core::plan::slurm::{Array, Facts, Wanted, parse_submitted};
use trainyard_core::quote;
use trainyard_core::spec::{JobSpec, Layer, ResumeBy, SlurmSpec, TargetKind, load};
use trainyard_testkit::slurm::Slurm;

fn specs() -> (JobSpec, SlurmSpec) {
    let text = "[jobs.train]\ncommand = ['true']\ngpus = 1\ncpus = 2\nmemory = '100MB'\ntime = '2m'\nresume.attempts = 2\n\
                [targets.site]\nkind = 'slurm'\ndepot = '/d'\n";
    let config = load(&[Layer { name: "trainyard.toml".to_owned(), text: text.to_owned() }], &[], "p").unwrap().config;
    let TargetKind::Slurm(target) = config.targets["site"].kind.clone() else { panic!("kind") };
    (config.jobs["train"].clone(), *target)
}

#[test]
fn a_real_sbatch_reads_what_was_meant() {
    let slurm = Slurm::shared();
    let user = slurm.add_user();
    let hostile =
        ["a b", "a #b", "it's", "q\"q", "b\\b", "$HOME `x` $(y)", "größe 🤖", "%j %% {a,b}", "-x", "a\\", "\"", "'\"'"];
    let path = user.home.join("job.sh");
    for text in hostile {
        let comment = quote::posix(&format!("--comment={text}")).unwrap();
        let (mut job, mut target) = specs();
        job.name = text.to_owned();
        target.directives = vec!["--hold".to_owned(), comment];
        let agent = ["/bin/yard", "agent"].map(str::to_owned);
        let wanted = Wanted {
            job: &job,
            target: &target,
            facts: &Facts::default(),
            name: "quotes",
            parcel_folder: user.home.to_str().unwrap(),
            agent: &agent,
            array: Array::Groups { first: 0, last: 2, at_most: Some(1) },
            mechanism: ResumeBy::Requeue,
            secrets: &["WANDB_API_KEY".to_owned()],
        };
        let script = wanted.script().unwrap().to_string();
        std::fs::write(&path, &script).unwrap();
        let taken = slurm.run_as(&user, &["sbatch", "--parsable", path.to_str().unwrap()]);
        assert_eq!(taken.exit, 0, "{taken:?}\n{script}");
        let id = parse_submitted(&taken.stdout).unwrap().to_string();
        let read = slurm.ask(&["squeue", "-h", "-j", &id, "-o", "%k"]);
        slurm.ask(&["scancel", &id]);
        assert_eq!(read.trim_end_matches('\n'), text);
    }
}
