//! Carrying out what was decided, after it is in the ledger.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::rc::Rc;
use std::time::Duration;

use trainyard_agent::order::{Order, Secrets};
use trainyard_agent::parcel::Parcel;
use trainyard_core::id::Token;
use trainyard_core::spec::{JobSpec, SecretRef, Setting};

use super::keep::Active;
use crate::home::locate;
use crate::target::{Local, Stop, SubmitError, Target};

/// A password manager that waits for a person is not waited for longer than this.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a submission.
pub(super) struct Submission {
    pub(super) token: Token,
    pub(super) outcome: Result<(), SubmitError>,
}

pub(super) fn order(active: &Active, attempt: u32) -> Order {
    Order {
        depot: active.batch.depot.clone(),
        run: active.open.id,
        name: active.open.name.clone(),
        attempt,
        token: Token::new(active.open.id, attempt),
        job: active.batch.job.clone(),
        seed: active.open.seed,
        params: active.open.params.clone(),
        from: active.open.from,
        extra: active.batch.extra.clone(),
        source: active.batch.source.clone(),
        env: active.batch.env.clone(),
        devices: active.slot.as_ref().map(|slot| slot.devices.clone()).unwrap_or_default(),
        lease: None,
    }
}

/// Secrets are looked up at the last moment, and beside the loop: asking for one may take a while.
pub(super) async fn submit(
    local: Rc<Local>,
    order: Order,
    known: BTreeMap<String, String>,
    project: PathBuf,
) -> Submission {
    let token = order.token.clone();
    let outcome = match reveal_all(&order.job, &known, &project).await {
        Ok(secrets) => local.submit(order, secrets).await.map(drop),
        Err(why) => Err(SubmitError::Refused(why)),
    };
    Submission { token, outcome }
}

/// Of all jobs of a parcel. Where two of a group have a secret of one name, it is the same.
pub(super) async fn reveal_for(
    parcel: &Parcel,
    known: &BTreeMap<String, String>,
    project: &Path,
) -> Result<Secrets, String> {
    let mut secrets = Secrets::default();
    let mut seen: Vec<&str> = Vec::new();
    for job in parcel.jobs() {
        if !seen.contains(&job.name.as_str()) {
            seen.push(&job.name);
            secrets.0.extend(reveal_all(job, known, project).await?.0);
        }
    }
    Ok(secrets)
}

pub(super) async fn reveal_all(
    job: &JobSpec,
    known: &BTreeMap<String, String>,
    project: &Path,
) -> Result<Secrets, String> {
    let mut secrets = Secrets::default();
    for (name, setting) in &job.env {
        if let Setting::Secret(reference) = setting {
            let value = reveal(reference, known, project).await;
            let value = value.map_err(|why| format!("the secret for {name}: {why}"))?;
            secrets.0.insert(name.clone(), value);
        }
    }
    Ok(secrets)
}

pub(super) fn has_secrets(job: &JobSpec) -> bool {
    job.env.values().any(|setting| matches!(setting, Setting::Secret(_)))
}

/// The value, or what is wrong with the reference; never both in one text.
async fn reveal(reference: &SecretRef, known: &BTreeMap<String, String>, project: &Path) -> Result<String, String> {
    match reference {
        SecretRef::Env(name) => {
            // What a visitor handed over; after a restart, what the shell that started this yardmaster had.
            let value = known.get(name).cloned().or_else(|| std::env::var(name).ok());
            value.ok_or_else(|| format!("{name} is not set in the shell that started yard"))
        }
        SecretRef::File(path) => {
            let text = fs_err::read_to_string(locate(path, project)).map_err(|error| error.to_string())?;
            Ok(text.trim_end_matches(['\r', '\n']).to_owned())
        }
        SecretRef::Command(argv) => ask(argv, project).await,
    }
}

async fn ask(argv: &[String], project: &Path) -> Result<String, String> {
    let [program, arguments @ ..] = argv else { return Err("the command is empty".to_owned()) };
    let mut command = tokio::process::Command::new(program);
    command.args(arguments).current_dir(project).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output())
        .await
        .map_err(|_| format!("`{program}` took more than a minute"))?
        .map_err(|error| format!("`{program}`: {error}"))?;
    if !output.status.success() {
        return Err(format!("`{program}` ended with {}", output.status));
    }
    let text = String::from_utf8(output.stdout).map_err(|_| format!("`{program}` wrote no text"))?;
    Ok(text.trim_end_matches(['\r', '\n']).to_owned())
}

pub(super) async fn stop(local: &Local, active: &Active, attempt: u32) {
    let handle = active.handle(attempt);
    // What cannot be reached now is asked again with the next look at the attempt.
    drop(local.stop(&handle, Stop::Gently).await);
}
