//! A yard that has a cluster.

use std::ops::Deref;
use std::path::{Path, PathBuf};

use trainyard_testkit::slurm::{Row, Slurm};
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
        Self::with_depot(slurm, jobs, target, None)
    }

    pub(crate) fn with_depot(slurm: &'a Slurm, jobs: &str, target: &str, depot: Option<PathBuf>) -> Self {
        let login = Login::start(Some(slurm));
        let depot = depot.unwrap_or_else(|| login.home().join("depot"));
        let mut yard = Yard::new(env!("CARGO_BIN_EXE_yard"), &file(&login, &depot, jobs, target));
        yard.set("YARD_SSH", &login.ssh_command());
        yard.set("YARD_PACE", "300");
        yard.hide(login.home());
        Self { yard, login, slurm }
    }

    /// SLURM's jobs of this user.
    pub(crate) fn jobs(&self) -> Vec<Row> {
        let user = &self.login.user().name;
        self.slurm.jobs().into_iter().filter(|row| row.user == *user).collect()
    }

    /// Those of one job of the file.
    pub(crate) fn jobs_of(&self, job: &str) -> Vec<Row> {
        let prefix = format!("{job}.y");
        self.jobs().into_iter().filter(|row| row.name.starts_with(&prefix)).collect()
    }

    /// Those that wait or run.
    pub(crate) fn live_jobs(&self) -> Vec<Row> {
        let live = |row: &Row| matches!(row.state.as_str(), "PENDING" | "RUNNING" | "COMPLETING" | "CONFIGURING");
        self.jobs().into_iter().filter(live).collect()
    }

    /// More jobs, for those that need to know where the cluster is.
    pub(crate) fn add_jobs(&mut self, jobs: &str) {
        let path = self.yard.project().join("trainyard.toml");
        let file = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, format!("{jobs}\n{file}")).unwrap();
    }

    /// Another project file.
    pub(crate) fn rewrite(&mut self, jobs: &str, target: &str) {
        self.yard.write("trainyard.toml", &file(&self.login, &self.login.home().join("depot"), jobs, target));
    }

    /// More keys of the target, which stands last.
    pub(crate) fn add(&mut self, keys: &str) {
        let path = self.yard.project().join("trainyard.toml");
        let text = std::fs::read_to_string(path).expect("a project file");
        self.yard.write("trainyard.toml", &format!("{text}{keys}"));
    }
}

fn file(login: &Login<'_>, depot: &Path, jobs: &str, target: &str) -> String {
    let host = login.host();
    format!("{jobs}\n[targets.euler]\nkind = \"slurm\"\nhost = \"{host}\"\ndepot = \"{}\"\n{target}\n", depot.display())
}
