//! What tests want of Podman and Docker alike.

use std::path::PathBuf;
use std::process::Command;

pub trait ContainerEngine {
    /// As it is called, and as its program is.
    fn name(&self) -> &'static str;

    /// A folder for PATH that has nothing but it.
    fn programs(&self) -> PathBuf;

    /// What it has to find in its environment.
    fn variables(&self) -> Vec<(&'static str, String)>;

    /// What it says.
    ///
    /// # Panics
    /// When it fails.
    fn ask(&self, words: &[&str]) -> String {
        let mut command = Command::new(self.programs().join(self.name()));
        let ran = command.args(words).envs(self.variables()).output().expect("a program");
        assert!(ran.status.success(), "{} {words:?}: {}", self.name(), String::from_utf8_lossy(&ran.stderr));
        String::from_utf8_lossy(&ran.stdout).into_owned()
    }

    /// Names of all containers, those that have ended included.
    fn containers(&self) -> Vec<String> {
        self.ask(&["ps", "--all", "--format", "{{.Names}}"]).lines().map(str::to_owned).collect()
    }
}
