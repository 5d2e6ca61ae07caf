//! What a controller has in its depot, and what of it can be read from outside.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use trainyard_agent::disk::{Durability, read_json, replace_json};

use super::KeepError;
use crate::home::Home;
use crate::ledger::Ledger;

/// Its home, below the depot.
pub(super) const FOLDER: &str = "controller";
const COPY: &str = "published.db";

/// The copy of the ledger that others read, below the depot.
pub(super) fn copy() -> String {
    format!("{FOLDER}/{COPY}")
}

/// What is said of a sweep that was taken up, below the depot.
pub(super) fn receipt(handover: &str) -> String {
    format!("{FOLDER}/handed/{handover}.json")
}

/// Of a sweep that was taken up.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Receipt {
    pub(super) sweep: i64,
}

fn receipt_in(home: &Home, handover: &str) -> PathBuf {
    home.state().join("handed").join(format!("{handover}.json"))
}

pub(super) fn find_receipt(home: &Home, handover: &str) -> Option<Receipt> {
    read_json(&receipt_in(home, handover))
}

pub(super) fn give_receipt(home: &Home, handover: &str, receipt: &Receipt) -> io::Result<()> {
    let path = receipt_in(home, handover);
    path.parent().map_or(Ok(()), fs_err::create_dir_all)?;
    replace_json(&path, receipt, Durability::Synced)
}

/// Whole, and as it is at one moment; whoever reads the one before reads that to its end.
pub(super) fn publish(home: &Home, ledger: &Ledger) -> Result<(), KeepError> {
    let part = home.state().join(format!("{COPY}.{}", std::process::id()));
    match fs_err::remove_file(&part) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    ledger.copy_to(&part)?;
    Ok(fs_err::rename(part, home.state().join(COPY))?)
}
