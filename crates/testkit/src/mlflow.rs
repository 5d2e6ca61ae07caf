//! A real MLflow server on loopback, from the Python that `./test` makes.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::waiting::within;
use crate::{ports, processes};

/// It takes half a minute on a busy machine, and several of them at once take longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Where a server keeps its runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Store {
    /// Takes a point that it has already for the same point.
    Sqlite,
    /// The old way, still in use: keeps every point that it is sent.
    Files,
}

/// Who is let in, over TLS.
#[derive(Debug, Clone)]
pub struct Guard {
    pub user: String,
    /// Twelve characters at least.
    pub password: String,
    /// Lets the same user in without a password.
    pub token: String,
    /// PEM files.
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// MLflow leaves it to a function of the administrator who is let in, and has none for tokens itself.
const TOKEN_OR_PASSWORD: &str = r#"
from flask import request
from mlflow.server.auth import authenticate_request_basic_auth
from werkzeug.datastructures import Authorization

def authenticate():
    if request.headers.get("Authorization") == "Bearer TOKEN":
        return Authorization("basic", {"username": "USER"})
    return authenticate_request_basic_auth()
"#;

/// Ended with its value, or with the test's process, however that ends.
#[derive(Debug)]
pub struct Mlflow {
    folder: tempfile::TempDir,
    port: u16,
    store: Store,
    guard: Option<Guard>,
    process: Option<Child>,
}

impl Mlflow {
    /// # Panics
    /// When it does not come up.
    pub fn start(store: Store, guard: Option<Guard>) -> Self {
        let folder = tempfile::Builder::new().prefix("mlflow-").tempdir().expect("a folder");
        let mut server = Self { folder, port: ports::free(), store, guard, process: None };
        server.resume();
        server
    }

    pub fn url(&self) -> String {
        // The certificate's name.
        if self.guard.is_some() {
            format!("https://localhost:{}", self.port)
        } else {
            format!("http://127.0.0.1:{}", self.port)
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// What it wrote, with a line for each request that it has answered.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    /// With SIGKILL, and all its processes with it.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut process = self.process.take().expect("a server that runs");
        process.kill().expect("a process to kill");
        process.wait().expect("an end");
        within(PATIENCE, "the end of the server", || (!ports::answers(self.port)).then_some(()));
    }

    /// On the same port, with what it had.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn resume(&mut self) {
        assert!(self.process.is_none(), "the server runs");
        let mut process = self.command().spawn().expect("`unshare` of util-linux");
        within(PATIENCE, "MLflow", || {
            let ended = process.try_wait().expect("a child of ours");
            assert!(ended.is_none(), "MLflow ended: {}", self.log());
            ports::answers(self.port).then_some(())
        });
        self.process = Some(process);
    }

    /// In a process namespace of its own, whose first process waits for the end of its input and takes all others along.
    fn command(&self) -> Command {
        let mut command = Command::new("unshare");
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--map-root-user"]);
        }
        command.args(["--pid", "--fork", "--kill-child", "--"]);
        // The folder of a server that lives as long as the test's process has nobody else to remove it.
        let wait = "folder=$1; shift; \"$@\" </dev/null & cat >/dev/null; rm -rf \"$folder\"";
        command.args(["sh", "-c", wait, "sh"]).arg(self.folder.path()).arg(program());
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.path("log")).expect("a log");
        command.stdin(Stdio::piped()).stdout(log.try_clone().expect("a log")).stderr(log);
        self.arguments(&mut command);
        command
    }

    fn arguments(&self, command: &mut Command) {
        let place = match self.store {
            Store::Sqlite => format!("sqlite:///{}", self.path("runs.db").display()),
            Store::Files => self.path("runs").display().to_string(),
        };
        command.args(["server", "--host", "127.0.0.1", "--workers", "1", "--backend-store-uri", &place]);
        command.args(["--port", &self.port.to_string(), "--artifacts-destination"]).arg(self.path("artifacts"));
        command.env("HOME", self.folder.path()).env("MLFLOW_ALLOW_FILE_STORE", "true");
        command.envs([("MLFLOW_DISABLE_TELEMETRY", "true"), ("DO_NOT_TRACK", "true"), ("GIT_PYTHON_REFRESH", "quiet")]);
        command.env("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false");
        if let Some(guard) = &self.guard {
            let settings = format!(
                "[mlflow]\ndefault_permission = EDIT\ndatabase_uri = sqlite:///{}\nadmin_username = {}\nadmin_password = {}\n\
                 authorization_function = token_or_password:authenticate\n",
                self.path("users.db").display(),
                guard.user,
                guard.password
            );
            std::fs::write(self.path("auth.ini"), settings).expect("a file");
            let door = TOKEN_OR_PASSWORD.replace("TOKEN", &guard.token).replace("USER", &guard.user);
            std::fs::write(self.path("token_or_password.py"), door).expect("a file");
            command.env("PYTHONPATH", self.folder.path());
            command.args(["--app-name", "basic-auth", "--uvicorn-opts"]);
            let files = (guard.certificate.display(), guard.key.display());
            command.arg(format!("--ssl-certfile {} --ssl-keyfile {}", files.0, files.1));
            command.env("MLFLOW_AUTH_CONFIG_PATH", self.path("auth.ini")).env("MLFLOW_FLASK_SERVER_SECRET_KEY", "test");
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

impl Drop for Mlflow {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            processes::kill(i32::try_from(process.id()).unwrap_or_default());
            drop(process.wait());
        }
    }
}

fn program() -> PathBuf {
    let python = std::env::var_os("YARD_TEST_PYTHON").expect("YARD_TEST_PYTHON; `./test tracking` sets it");
    Path::new(&python).with_file_name("mlflow")
}
