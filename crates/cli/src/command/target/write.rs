//! A target into the user's settings. All other text stays as it is, comments too.

use std::path::Path;

use trainyard_agent::disk::{Durability, replace};
use trainyard_core::spec::{self, Config, Layer};

use crate::error::{CommandError, Exit};

/// Whether one that is there already may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    Kept,
    Replaced,
}

/// Writes the keys, each already a line of TOML, as `[targets.NAME]`. The file is read back before it is put in place.
pub(super) fn write(path: &Path, name: &str, keys: &[String], existing: Existing) -> Result<String, CommandError> {
    // A link to a file that is kept elsewhere stays a link.
    let path = &std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let old = match fs_err::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error.into()),
    };
    let shown = path.display().to_string();
    let before = load(&shown, &old)?;
    let is_there = before.targets.contains_key(name);
    if is_there && existing == Existing::Kept {
        return Err(CommandError::new(Exit::Settings, format!("{shown} has a target `{name}` already"))
            .hint("`--force` replaces it; another name adds one"));
    }
    let rest = if is_there { without(&old, name) } else { old };
    let table = format!("[targets.{name}]\n{}\n", keys.join("\n"));
    let gap = match rest.trim_end() {
        "" => "",
        _ if rest.ends_with("\n\n") => "",
        _ if rest.ends_with('\n') => "\n",
        _ => "\n\n",
    };
    let new = format!("{rest}{gap}{table}");
    let after = load(&shown, &new)?;
    if !is_same_but(&before, &after, name) {
        let message = format!("the target `{name}` in {shown} is written in a way that cannot be replaced safely");
        return Err(CommandError::new(Exit::Settings, message).hint("take it out by hand, then add it"));
    }
    if let Some(folder) = path.parent() {
        fs_err::create_dir_all(folder)?;
    }
    replace(path, new.as_bytes(), Durability::Synced)?;
    Ok(table)
}

fn load(name: &str, text: &str) -> Result<Config, CommandError> {
    let layer = Layer { name: name.to_owned(), text: text.to_owned() };
    Ok(spec::load(&[layer], &[], "")?.config)
}

fn is_same_but(before: &Config, after: &Config, name: &str) -> bool {
    let mut after = after.clone();
    match before.targets.get(name) {
        Some(old) => after.targets.insert(name.to_owned(), old.clone()),
        None => after.targets.remove(name),
    };
    after == *before
}

/// From its header to the next, but not what is said there before the next. A text of several lines could hold what looks
/// like a header; the caller compares.
fn without(text: &str, name: &str) -> String {
    let mut kept = String::new();
    let mut between = String::new();
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        let start = line.trim_start();
        if let Some(header) = start.strip_prefix('[') {
            let header = header.trim_start_matches('[').split(']').next().unwrap_or_default();
            let mut words = header.split('.').map(|word| word.trim().trim_matches(['"', '\'']));
            inside = words.next() == Some("targets") && words.next() == Some(name);
        }
        match inside {
            true if start.is_empty() || start.starts_with('#') => between.push_str(line),
            true => between.clear(),
            false => {
                kept.push_str(&std::mem::take(&mut between));
                kept.push_str(line);
            }
        }
    }
    kept + &between
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const OLD: &str = "# mine\n[targets.a]\nkind = 'local' # this one\n\n[targets.b] # old\nkind = 'slurm'\ndepot = '/x'\n[targets.b.env]\nA = '1'\n\n# last\n[project]\nexclude = ['x']\n";

    fn keys(depot: &str) -> Vec<String> {
        vec!["kind = \"slurm\"".to_owned(), format!("depot = \"{depot}\"")]
    }

    #[test]
    fn other_text_stays_as_it_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/config.toml");
        write(&path, "c", &keys("/d"), Existing::Kept).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "[targets.c]\nkind = \"slurm\"\ndepot = \"/d\"\n");
        std::fs::write(&path, OLD).unwrap();
        write(&path, "c", &keys("/d"), Existing::Kept).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text, format!("{OLD}\n[targets.c]\nkind = \"slurm\"\ndepot = \"/d\"\n"));
    }

    #[test]
    fn one_that_is_there_goes_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        std::fs::write(&path, OLD).unwrap();
        let error = write(&path, "b", &keys("/d"), Existing::Kept).unwrap_err();
        assert!(error.chain.concat().contains("already"));
        assert_eq!(std::fs::read_to_string(&path).unwrap(), OLD);
        write(&path, "b", &keys("/d"), Existing::Replaced).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let rest = "# mine\n[targets.a]\nkind = 'local' # this one\n\n\n# last\n[project]\nexclude = ['x']\n";
        assert_eq!(text, format!("{rest}\n[targets.b]\nkind = \"slurm\"\ndepot = \"/d\"\n"));
    }

    #[test]
    fn what_cannot_be_replaced_safely_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let odd = "[targets]\nb = { kind = 'slurm', depot = '/x' }\n";
        std::fs::write(&path, odd).unwrap();
        assert!(write(&path, "b", &keys("/d"), Existing::Replaced).is_err());
        assert_eq!(std::fs::read_to_string(&path).unwrap(), odd);
    }

    #[test]
    fn what_does_not_load_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        assert!(write(&path, "b", &["kind = \"slurm\"".to_owned()], Existing::Kept).is_err());
        assert!(!path.exists());
    }
}
