//! A yard of its own: temporary home, temporary project, the real program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::processes;
use crate::waiting::eventually;

/// Everything in it is ended and removed with it.
pub struct Yard {
    program: PathBuf,
    root: TempDir,
    variables: Vec<(String, String)>,
    hidden: Option<PathBuf>,
}

/// Arguments: folder, program and its arguments.
const HIDE: &str = r#"mount -t tmpfs none "$1" && shift && exec "$@""#;

/// What a command left.
#[derive(Debug)]
pub struct Output {
    pub exit: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Yard {
    /// `program` is `env!("CARGO_BIN_EXE_yard")` of the test. The project has this `trainyard.toml`.
    ///
    /// # Panics
    /// When the folders cannot be made.
    pub fn new(program: &str, file: &str) -> Self {
        let root = TempDir::new().expect("a temporary folder");
        std::fs::create_dir(root.path().join("project")).expect("a project folder");
        let yard = Self { program: program.into(), root, variables: Vec::new(), hidden: None };
        yard.write("trainyard.toml", file);
        yard
    }

    /// A variable in the environment of every command from here on.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// This folder is empty for every command from here on, as the disk of another machine is for a laptop.
    pub fn hide(&mut self, folder: &Path) {
        self.hidden = Some(folder.to_owned());
    }

    pub fn root(&self) -> &Path {
        self.root.path()
    }

    pub fn home(&self) -> PathBuf {
        self.root.path().join("home")
    }

    pub fn project(&self) -> PathBuf {
        self.root.path().join("project")
    }

    /// A file of the project.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn write(&self, name: &str, text: &str) {
        let path = self.project().join(name);
        std::fs::create_dir_all(path.parent().expect("a name below the project")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// The command, ready to be changed and started.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = match &self.hidden {
            None => Command::new(&self.program),
            Some(folder) => {
                let mut command = Command::new("unshare");
                if !rustix::process::geteuid().is_root() {
                    command.args(["--user", "--map-current-user", "--keep-caps"]);
                }
                command.args(["--mount", "sh", "-c", HIDE, "sh"]).arg(folder).arg(&self.program);
                command
            }
        };
        command.args(arguments).current_dir(self.project()).stdin(Stdio::null());
        command.env("YARD_HOME", self.home()).env("NO_COLOR", "1");
        command.envs(self.variables.iter().cloned());
        command
    }

    /// # Panics
    /// When the program cannot be started.
    pub fn run(&self, arguments: &[&str]) -> Output {
        Output::of(&mut self.command(arguments))
    }

    /// The JSON a command prints.
    ///
    /// # Panics
    /// When it fails or prints something else.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["--output", "json"], arguments].concat());
        assert!(output.exit <= 1, "{arguments:?}: {output:?}");
        serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {output:?}"))
    }

    /// What `yard show` says about one run.
    pub fn show(&self, run: &str) -> Value {
        self.json(&["show", run])
    }

    /// All runs, as `ps` lists them.
    pub fn runs(&self) -> Vec<Value> {
        self.json(&["ps", "-a"])["runs"].as_array().cloned().unwrap_or_default()
    }

    /// Waits until a run is in this state.
    pub fn wait_for(&self, run: &str, state: &str) -> Value {
        eventually(&format!("{run} to be {state}"), || {
            let shown = self.show(run);
            assert!(shown["state"] == state || shown["ended"].is_null(), "{run} is not {state}: {shown}");
            Some(shown).filter(|shown| shown["state"] == state)
        })
    }

    /// Yardmaster and agents of this yard, and everything their runs started.
    pub fn processes(&self) -> Vec<i32> {
        let mark = format!("YARD_HOME={}", self.home().display());
        let mut found = processes::with_environment(&mark);
        let runs = std::fs::read_dir(self.home().join("depot/runs")).into_iter().flatten().flatten();
        for run in runs {
            found.extend(processes::with_environment(&format!("YARD_RUN={}", run.file_name().to_string_lossy())));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    pub fn yardmasters(&self) -> Vec<i32> {
        let program = self.program.to_string_lossy();
        let mine = processes::with_arguments(&[&program, "yardmaster"]);
        self.processes().into_iter().filter(|pid| mine.contains(pid)).collect()
    }

    pub fn agents(&self) -> Vec<i32> {
        let program = self.program.to_string_lossy();
        let mine = processes::with_arguments(&[&program, "agent"]);
        self.processes().into_iter().filter(|pid| mine.contains(pid)).collect()
    }
}

impl Output {
    /// # Panics
    /// When the program cannot be started.
    pub fn of(command: &mut Command) -> Self {
        let output = command.output().expect("yard starts");
        Self {
            exit: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // Yardmasters first: they would start what is killed after them again.
        for pid in self.yardmasters() {
            processes::kill(pid);
        }
        for pid in self.processes() {
            processes::kill(pid);
        }
    }
}
