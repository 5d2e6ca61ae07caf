//! A plain machine behind ssh: its own queue, without root, Python or a daemon.

use trainyard_testkit::{Login, Yard};

fn yard<'a>(jobs: &str, target: &str) -> (Yard, Login<'a>) {
    let login = Login::start(None);
    let (host, depot) = (login.host(), login.home().join("depot"));
    let depot = depot.display();
    let file = format!("{jobs}\n[targets.box]\nkind = \"ssh\"\nhost = \"{host}\"\ndepot = \"{depot}\"\n{target}\n");
    let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &file);
    yard.set("YARD_SSH", &login.ssh_command());
    yard.set("YARD_PACE", "300");
    (yard, login)
}

#[test]
fn runs_take_turns_there_and_their_state_comes_home() {
    let (yard, _login) = yard(
        "[jobs.train]\ncommand = ['sh', '-c', 'echo \"$GREETING $YARD_SEED\"; exit $((YARD_SEED - 1))']\nseeds = [1, 2]\n",
        "cpus = 1\nsetup = ['export GREETING=hello']\n",
    );
    let ran = yard.run(&["run", "train", "--on", "box"]);
    assert_eq!(ran.exit, 1, "{ran:?}");
    assert_eq!(yard.show("train-s1")["state"], "succeeded");
    let failed = yard.show("train-s2");
    assert_eq!((&failed["state"], &failed["exit_code"]), (&"failed".into(), &1.into()), "{failed}");
}
