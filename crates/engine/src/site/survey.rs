//! A first look at a host, before anything of ours is there: what it is, and where a depot could be.

use std::time::Duration;

use trainyard_core::plan::slurm::{Facts, probe_script};

use crate::host::{Host, HostError};
use crate::pipe::PipeError;

/// All questions together; each has a limit of its own.
const PATIENCE: Duration = Duration::from_secs(120);

#[derive(Debug, Clone, PartialEq)]
pub struct Survey {
    pub slurm: Cluster,
    /// Folders that could hold a depot, the best first.
    pub folders: Vec<Folder>,
}

/// Whether the host belongs to a SLURM cluster.
#[derive(Debug, Clone, PartialEq)]
pub enum Cluster {
    Answers(Box<Facts>),
    /// Its programs are there, and say this.
    Silent(String),
    Absent,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Folder {
    pub path: String,
    /// Bytes, where `df` says so.
    pub free: Option<u64>,
}

/// Touches nothing there. The connection must be made already.
pub fn survey(host: &Host) -> Result<Survey, PipeError> {
    let script = format!("{FOLDERS}\n{HAS_SLURM}\n{}", probe_script());
    let text = host.run(&script, PATIENCE)?;
    if !text.contains("@yard-folders") {
        let (name, said) = (host.name().to_owned(), text.lines().last().unwrap_or_default().to_owned());
        return Err(HostError::NoShell { host: name, said }.into());
    }
    let slurm = match text.contains("@yard-has-slurm") {
        true => Facts::parse(&text)
            .map_or_else(|error| Cluster::Silent(error.to_string()), |facts| Cluster::Answers(Box::new(facts))),
        false => Cluster::Absent,
    };
    Ok(Survey { slurm, folders: folders(&text) })
}

const HAS_SLURM: &str = "if command -v sbatch >/dev/null 2>&1; then printf '\\n@yard-has-slurm\\n'; else exit 0; fi";

/// Sites name their scratch folders in files that only a login shell reads.
const FOLDERS: &str = r#"
me=$(id -un)
command -v timeout >/dev/null 2>&1 || timeout() { shift; "$@"; }
named=$(timeout 10 "${SHELL:-/bin/sh}" -lc 'for d in "$SCRATCH" "$PSCRATCH" "$WORK"; do echo "@yard-named $d"; done' </dev/null 2>/dev/null |
  sed -n 's/^@yard-named //p')
printf '\n@yard-folders\n'
printf '%s\n' "$named" "/cluster/scratch/$me" "/scratch/$me" "$HOME" | while IFS= read -r folder; do
  case $folder in /*) ;; *) continue ;; esac
  if [ -d "$folder" ] && [ -w "$folder" ]; then
    free=$(timeout 10 df -Pk "$folder" 2>/dev/null | awk 'NR == 2 { print $4 }')
    printf '@yard-folder %s|%s\n' "${free:-?}" "$folder"
  fi
done
"#;

fn folders(text: &str) -> Vec<Folder> {
    let mut found: Vec<Folder> = Vec::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("@yard-folder ")) {
        let Some((free, path)) = line.split_once('|') else { continue };
        let free = free.parse::<u64>().ok().map(|kilobytes| kilobytes.saturating_mul(1024));
        if !found.iter().any(|folder| folder.path == path) {
            found.push(Folder { path: path.to_owned(), free });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chatter_and_doubles_are_passed_over() {
        let text = "Welcome!\n@yard-folders\n@yard-folder 1024|/scratch/me\n@yard-folder ?|/home/a b\n@yard-folder 1024|/scratch/me\n";
        let folder = |path: &str, free| Folder { path: path.to_owned(), free };
        assert_eq!(folders(text), [folder("/scratch/me", Some(1 << 20)), folder("/home/a b", None)]);
    }
}
