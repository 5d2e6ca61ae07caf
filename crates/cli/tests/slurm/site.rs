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
        let (host, depot) = (login.host(), login.home().join("depot"));
        let file = format!(
            "{jobs}\n[targets.euler]\nkind = \"slurm\"\nhost = \"{host}\"\ndepot = \"{}\"\n{target}\n",
            depot.display()
        );
        let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &file);
        yard.set("YARD_SSH", &login.ssh_command());
        yard.set("YARD_PACE", "300");
        yard.hide(login.home());
        Self { yard, login, slurm }
    }

    /// More jobs, for those that need to know where the cluster is.
    pub(crate) fn add_jobs(&mut self, jobs: &str) {
        let path = self.yard.project().join("trainyard.toml");
        let file = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("{jobs}\n{file}")).unwrap();
    }
}
