//! A yard that has a cluster.

use std::ops::Deref;

use trainyard_testkit::slurm::Slurm;
use trainyard_testkit::{Login, Yard};

pub(crate) struct Site<'a> {
    pub(crate) yard: Yard,
    pub(crate) login: Login<'a>,
    pub(crate) slurm: &'a Slurm,
}

impl Deref for Site<'_> {
    type Target = Yard;

    fn deref(&self) -> &Yard {
        &self.yard
    }
}

impl<'a> Site<'a> {
    /// A project with these jobs, and the target `euler` with these keys besides host and depot.
    pub(crate) fn new(slurm: &'a Slurm, jobs: &str, target: &str) -> Self {
        let login = Login::start(Some(slurm));
        let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &file(&login, jobs, target));
        yard.set("YARD_SSH", &login.ssh_command());
        yard.set("YARD_PACE", "300");
        Self { yard, login, slurm }
    }

    /// Another project file.
    pub(crate) fn rewrite(&mut self, jobs: &str, target: &str) {
        self.yard.write("trainyard.toml", &file(&self.login, jobs, target));
    }

    /// More keys of the target, which stands last.
    pub(crate) fn add(&mut self, keys: &str) {
        let path = self.yard.project().join("trainyard.toml");
        let text = std::fs::read_to_string(path).expect("a project file");
        self.yard.write("trainyard.toml", &format!("{text}{keys}"));
    }
}

fn file(login: &Login<'_>, jobs: &str, target: &str) -> String {
    let (host, depot) = (login.host(), login.home().join("depot"));
    format!("{jobs}\n[targets.euler]\nkind = \"slurm\"\nhost = \"{host}\"\ndepot = \"{}\"\n{target}\n", depot.display())
}
