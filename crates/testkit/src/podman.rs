//! A real Podman with a storage of its own, which lies in a folder that is removed in the end.
//!
//! Needs root. Machines for tests are containers themselves more often than not: they have no control groups to give, and
//! limits that may not be raised. So it gets neither, and a hierarchy of control groups that it understands.

use std::path::PathBuf;
use std::process::Command;

use crate::container_engine::ContainerEngine;

pub struct Podman {
    folder: tempfile::TempDir,
}

impl Default for Podman {
    fn default() -> Self {
        Self::new()
    }
}

impl Podman {
    /// # Panics
    /// When it cannot be made.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("podman-").tempdir().expect("a folder");
        let place = folder.path().display();
        let settings = "[containers]\ndefault_ulimits = [\"nofile=4096:4096\", \"nproc=4096:4096\"]\n\
                        cgroups = \"disabled\"\ncgroupns = \"host\"\n\
                        [engine]\ncgroup_manager = \"cgroupfs\"\nevents_logger = \"file\"\n";
        let storage =
            format!("[storage]\ndriver = \"vfs\"\ngraphroot = \"{place}/images\"\nrunroot = \"{place}/run\"\n");
        let program = format!(
            "#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
             export CONTAINERS_CONF={place}/settings CONTAINERS_STORAGE_CONF={place}/storage\n\
             exec unshare --mount sh -c 'mount -t cgroup2 none /sys/fs/cgroup && exec podman \"$@\"' podman \"$@\"\n"
        );
        std::fs::create_dir(folder.path().join("bin")).expect("a folder");
        for (name, text) in [("settings", settings), ("storage", &storage), ("bin/podman", &program)] {
            std::fs::write(folder.path().join(name), text).expect("a file");
        }
        crate::stage::set_mode(&folder.path().join("bin/podman"), 0o755);
        Self { folder }
    }

    /// A folder for PATH that has nothing but Buildah, which keeps its images in the same storage.
    ///
    /// # Panics
    /// When it cannot be made.
    pub fn buildah(&self) -> PathBuf {
        let (folder, place) = (self.folder.path().join("buildah"), self.folder.path().display());
        let program = format!(
            "#!/bin/sh\nexport PATH=/usr/sbin:/usr/bin:/sbin:/bin\n\
             export CONTAINERS_CONF={place}/settings CONTAINERS_STORAGE_CONF={place}/storage\nexec buildah \"$@\"\n"
        );
        std::fs::create_dir(&folder).expect("a folder");
        std::fs::write(folder.join("buildah"), program).expect("a file");
        crate::stage::set_mode(&folder.join("buildah"), 0o755);
        folder
    }
}

impl ContainerEngine for Podman {
    fn name(&self) -> &'static str {
        "podman"
    }

    fn programs(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    fn variables(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let mut remove = Command::new(self.programs().join("podman"));
        // Also after a test that failed.
        drop(remove.args(["rm", "--all", "--force", "--time", "0"]).output());
    }
}
