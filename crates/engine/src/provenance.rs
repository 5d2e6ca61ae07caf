//! Which commit the project's files come from. Read from git's own files; the git program, if there is one, is only
//! asked whether something was changed since.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};

/// What git says about a project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// `None` before the first commit.
    pub commit: Option<String>,
    /// `None` when a commit is checked out, not a branch.
    pub branch: Option<String>,
    /// Whether the files differ from the commit; `None` when nobody could say in time.
    pub dirty: Option<bool>,
    /// Without user names and passwords.
    pub remote: Option<String>,
}

/// For whoever has nothing else to do meanwhile.
const PATIENCE: Duration = Duration::from_secs(2);

/// `None` for a project that is in no repository.
pub fn provenance(project: &Path) -> Option<Provenance> {
    inquire(project).map(|inquiry| inquiry.finish(PATIENCE))
}

/// A question git is busy with, while we do other things.
#[derive(Debug)]
pub struct Inquiry {
    known: Provenance,
    git: Option<Child>,
}

pub fn inquire(project: &Path) -> Option<Inquiry> {
    let repository = Repository::around(project)?;
    let known = Provenance {
        commit: repository.commit(),
        branch: repository.branch(),
        dirty: None,
        remote: repository.remote(),
    };
    Some(Inquiry { known, git: ask_git(project).ok() })
}

impl Inquiry {
    /// What is known without waiting for git.
    pub fn so_far(&self) -> Provenance {
        self.known.clone()
    }

    /// Waits for git at most this long; whatever it is doing then is ended.
    pub fn finish(mut self, patience: Duration) -> Provenance {
        if let Some(git) = &mut self.git {
            self.known.dirty = listen(git, patience);
        }
        std::mem::take(&mut self.known)
    }
}

impl Drop for Inquiry {
    fn drop(&mut self) {
        if let Some(git) = &mut self.git {
            // Ended already is as good.
            drop(git.kill());
            drop(git.wait());
        }
    }
}

/// It writes nothing, takes no locks and runs nothing that the repository's settings name.
fn ask_git(project: &Path) -> std::io::Result<Child> {
    let mut git = Command::new("git");
    git.arg("-C").arg(project);
    git.args(["--no-optional-locks", "-c", "core.fsmonitor=false", "status", "--porcelain", "--no-renames", "--", "."]);
    for name in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
        git.env_remove(name);
    }
    git.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
}

/// One byte is enough: a clean project gives none.
fn listen(git: &mut Child, patience: Duration) -> Option<bool> {
    let output = git.stdout.as_mut()?;
    let mut fds = [PollFd::new(output, PollFlags::IN)];
    let limit = Timespec::try_from(patience).ok()?;
    if rustix::event::poll(&mut fds, Some(&limit)).ok()? == 0 {
        return None;
    }
    if output.read(&mut [0]).ok()? > 0 {
        return Some(true);
    }
    git.wait().ok()?.success().then_some(false)
}

/// Where git keeps what.
struct Repository {
    /// What belongs to this working tree: `HEAD`.
    own: PathBuf,
    /// What all working trees share: branches and settings.
    shared: PathBuf,
}

impl Repository {
    fn around(project: &Path) -> Option<Self> {
        let top = project.ancestors().find(|folder| folder.join(".git").exists())?;
        let entry = top.join(".git");
        let own = if entry.is_dir() {
            entry
        } else {
            top.join(std::fs::read_to_string(entry).ok()?.strip_prefix("gitdir:")?.trim())
        };
        let shared = std::fs::read_to_string(own.join("commondir"));
        let shared = shared.map_or_else(|_| own.clone(), |path| own.join(path.trim()));
        Some(Self { own, shared })
    }

    fn head(&self) -> Option<String> {
        Some(std::fs::read_to_string(self.own.join("HEAD")).ok()?.trim().to_owned())
    }

    fn branch(&self) -> Option<String> {
        self.head()?.strip_prefix("ref: refs/heads/").map(str::to_owned)
    }

    fn commit(&self) -> Option<String> {
        let head = self.head()?;
        let Some(name) = head.strip_prefix("ref: ") else { return hash(&head) };
        // A name such as `../../x` would be read elsewhere; what is there is no hash.
        let loose = std::fs::read_to_string(self.shared.join(name)).ok();
        loose.and_then(|text| hash(text.trim())).or_else(|| self.packed(name))
    }

    fn packed(&self, name: &str) -> Option<String> {
        let text = std::fs::read_to_string(self.shared.join("packed-refs")).ok()?;
        let line = text.lines().find(|line| line.split_once(' ').is_some_and(|(_, other)| other == name))?;
        hash(line.split_once(' ')?.0)
    }

    /// `origin`, or the first there is.
    fn remote(&self) -> Option<String> {
        let text = std::fs::read_to_string(self.shared.join("config")).ok()?;
        let (mut section, mut first) = (String::new(), None);
        for line in text.lines().map(str::trim) {
            if line.starts_with('[') {
                section = line.to_owned();
            }
            let Some(url) = line.strip_prefix("url").map(str::trim_start).and_then(|rest| rest.strip_prefix('='))
            else {
                continue;
            };
            if section == "[remote \"origin\"]" {
                return Some(without_credentials(url.trim()));
            }
            if section.starts_with("[remote ") && first.is_none() {
                first = Some(without_credentials(url.trim()));
            }
        }
        first
    }
}

fn hash(text: &str) -> Option<String> {
    let is_one = matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_one.then(|| text.to_owned())
}

/// Tokens are put into user name, password and query alike.
fn without_credentials(url: &str) -> String {
    let url = url.trim_matches('"');
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    path.map_or_else(|| format!("{scheme}://{host}"), |path| format!("{scheme}://{host}/{path}"))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    fn git(folder: &Path, arguments: &[&str]) {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always"];
        let mut git = Command::new("git");
        git.current_dir(folder).args(identity).args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        assert!(git.status().unwrap().success(), "git {arguments:?}");
    }

    fn says(folder: &Path, arguments: &[&str]) -> String {
        let output = Command::new("git").current_dir(folder).args(arguments).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    #[test]
    fn says_what_git_says() {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("p");
        fs_err::create_dir_all(project.join("deep/er")).unwrap();
        assert_eq!(provenance(&project), None);
        git(&project, &["init", "-q", "-b", "main"]);
        assert_eq!(provenance(&project).unwrap().commit, None, "before the first commit");
        fs_err::write(project.join("a"), "1").unwrap();
        git(&project, &["add", "."]);
        git(&project, &["commit", "-qm", "one"]);
        git(&project, &["remote", "add", "origin", "https://me:secret@example.com/x.git?token=abc"]);
        let expected = Provenance {
            commit: Some(says(&project, &["rev-parse", "HEAD"])),
            branch: Some("main".to_owned()),
            dirty: Some(false),
            remote: Some("https://example.com/x.git".to_owned()),
        };
        assert_eq!(provenance(&project).as_ref(), Some(&expected));
        assert_eq!(provenance(&project.join("deep/er")).as_ref(), Some(&expected), "from below");
        git(&project, &["pack-refs", "--all"]);
        assert_eq!(provenance(&project).as_ref(), Some(&expected), "packed");
        fs_err::write(project.join("new"), "1").unwrap();
        assert_eq!(provenance(&project).unwrap().dirty, Some(true), "untracked files count");

        git(&project, &["worktree", "add", "-q", "-b", "side", "../w"]);
        let side = provenance(&root.path().join("w")).unwrap();
        assert_eq!((side.branch.as_deref(), side.commit), (Some("side"), expected.commit.clone()));
        git(&project, &["checkout", "-q", "--detach"]);
        let detached = provenance(&project).unwrap();
        assert_eq!((detached.branch, detached.commit), (None, expected.commit));
    }

    #[test]
    fn credentials_are_left_out() {
        for (url, kept) in [
            ("https://token@github.com/a/b", "https://github.com/a/b"),
            ("ssh://git:pw@host:22/a", "ssh://host:22/a"),
            ("git@github.com:a/b.git", "git@github.com:a/b.git"),
            ("/srv/a@b", "/srv/a@b"),
            ("https://host?private_token=x", "https://host"),
        ] {
            assert_eq!(without_credentials(url), kept);
        }
    }
}
