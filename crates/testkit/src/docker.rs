//! A real Docker daemon with a storage of its own, in a folder that is removed in the end, from the folder that `./test containers`
//! makes. Needs root.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::container_engine::ContainerEngine;
use crate::waiting::eventually;

/// Arguments: the folder, and what to start. When its input ends, as it does with the test's process, it takes all others along, and
/// the folder with them.
const UNTIL_INPUT_ENDS: &str = r#"folder=$1; shift; "$@" </dev/null >"$folder/log" 2>&1 &
cat >/dev/null; kill -9 -1
grep -o " $folder/[^ ]*" /proc/self/mounts | sort -r | xargs -r umount -l; rm -rf "$folder""#;

/// What people have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Of Debian's stable release, whose archives are of the first form.
    Old,
    /// The newest, whose archives are OCI layouts.
    Newest,
    /// The same with its images in containerd, as a new installation has them.
    Containerd,
}

impl Kind {
    pub const ALL: [Self; 3] = [Self::Old, Self::Newest, Self::Containerd];

    fn programs(self) -> PathBuf {
        let folder = std::env::var_os("YARD_TEST_DOCKER").map(PathBuf::from);
        let folder = folder.expect("Docker, in the folder YARD_TEST_DOCKER; `./test containers` installs it");
        folder.join(if self == Self::Old { "old" } else { "newest" })
    }

    fn store(self) -> &'static [&'static str] {
        match self {
            Self::Old | Self::Newest => &["--storage-driver=vfs"],
            Self::Containerd => &["--storage-driver=native", "--feature=containerd-snapshotter=true"],
        }
    }
}

pub struct Docker {
    daemon: Child,
    folder: tempfile::TempDir,
}

impl Docker {
    /// # Panics
    /// When it does not come up.
    pub fn new(kind: Kind) -> Self {
        let folder = tempfile::Builder::new().prefix("docker-").tempdir().expect("a folder");
        let (place, installed) = (folder.path().display(), kind.programs());
        let client = format!("#!/bin/sh\nexec '{}' \"$@\"\n", installed.join("docker").display());
        std::fs::create_dir(folder.path().join("bin")).expect("a folder");
        std::fs::write(folder.path().join("bin/docker"), client).expect("a file");
        crate::stage::set_mode(&folder.path().join("bin/docker"), 0o755);
        let mut command = Command::new("unshare");
        command.args([
            "--mount",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
            "sh",
            "-c",
            UNTIL_INPUT_ENDS,
            "sh",
        ]);
        command.arg(folder.path()).arg(installed.join("dockerd"));
        for (option, value) in [("data-root", "images"), ("exec-root", "run"), ("pidfile", "pid")] {
            command.arg(format!("--{option}={place}/{value}"));
        }
        command.arg(format!("--host=unix://{place}/socket"));
        // There are no networks here but the machine's, which is what runs use.
        command
            .args(["--bridge=none", "--iptables=false", "--ip6tables=false", "--userland-proxy=false"])
            .args(kind.store());
        command.env("PATH", format!("{}:/usr/sbin:/usr/bin:/sbin:/bin", installed.display()));
        let daemon = command.stdin(Stdio::piped()).spawn().expect("unshare");
        let docker = Self { daemon, folder };
        eventually("the Docker daemon", || {
            let mut version = Command::new(docker.programs().join("docker"));
            let ran = version.arg("version").envs(docker.variables()).output().expect("docker");
            ran.status.success().then_some(())
        });
        docker
    }
}

impl ContainerEngine for Docker {
    fn name(&self) -> &'static str {
        "docker"
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        vec![("DOCKER_HOST", format!("unix://{}/socket", self.folder.path().display()))]
    }
}

impl Drop for Docker {
    fn drop(&mut self) {
        drop(self.daemon.stdin.take());
        drop(self.daemon.wait());
    }
}
