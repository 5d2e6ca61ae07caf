//! What a researcher does all day.

use trainyard_testkit::slurm::Slurm;

use crate::site::Site;

#[test]
fn a_run_succeeds_and_its_results_come_home() {
    let site = Site::new(
        Slurm::shared(),
        "[jobs.train]\ncommand = ['sh', '-c', 'mkdir -p out; echo \"seed $YARD_SEED\" > out/result; echo hello']\n\
         outputs = ['out']\nseeds = [3]\n",
        "",
    );
    let ran = site.run(&["run", "train", "--on", "euler"]);
    assert_eq!(ran.exit, 0, "{ran:?}\n{}", site.slurm.log());
    assert!(ran.stdout.contains("hello"), "{ran:?}");
}
