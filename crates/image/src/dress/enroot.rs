//! Enroot's: `/etc/rc`, which it runs, and files with variables and mounts. Owners and modes as its unprivileged user needs them.

use crate::dress::{Dress, quoted_words};
use crate::image::{Config, RunConfig};
use crate::tree::{Body, Children, ROOT, Tree};

/// What the layers lack. It also gives everything to root and empties `/dev`, as an import by enroot does.
pub(crate) fn dress(tree: &mut Tree, config: &Config, about: &str) -> Dress {
    tree.empty(b"dev");
    for id in tree.reachable() {
        let node = tree.node_mut(id);
        (node.uid, node.gid) = (0, 0);
        node.mode |= match node.body {
            Body::Folder(_) => 0o700,
            _ if node.mode & 0o111 != 0 => 0o500,
            _ => 0o400,
        };
    }
    let mut dress = Dress::default();
    for folder in ["etc", "dev", "proc", "sys", "tmp"] {
        if tree.find(folder.as_bytes()).is_none() {
            dress.folder(folder);
        }
    }
    let run = &config.run;
    let workdir = run.working_dir.trim_matches('/');
    if !workdir.is_empty() && !workdir.split('/').any(|part| part == "..") && tree.find(workdir.as_bytes()).is_none() {
        dress.folder(workdir);
    }
    let lines = |lines: Vec<String>| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    dress.file("etc/environment", 0o644, lines(run.env.iter().map(|line| line.replace('\n', " ")).collect()));
    let mount = |volume: &String| format!("${{ENROOT_ROOTFS}}{volume} {volume} none x-create=dir,bind,rw,nosuid,nodev");
    let volumes = run.volumes.keys().filter(|volume| !volume.contains(char::is_whitespace));
    dress.file("etc/fstab", 0o644, lines(volumes.map(mount).collect()));
    dress.file("etc/rc", 0o644, rc(run, about));
    dress.file("etc/rc.local", 0o644, "# Run before the image's command when it is not empty.\n");
    dress
}

fn rc(run: &RunConfig, about: &str) -> String {
    let mut text: String = about.lines().map(|line| format!("# {line}\n")).collect();
    for (name, value) in &run.labels {
        text += &format!("# {} {}\n", name.replace('\n', " "), value.replace('\n', " "));
    }
    let workdir = if run.working_dir.is_empty() { "/" } else { &run.working_dir };
    let workdir = crate::dress::quoted(workdir);
    let (entrypoint, command) = (quoted_words(&run.entrypoint), quoted_words(&run.cmd));
    let alone = format!("{entrypoint} {command}");
    let alone = if alone.trim().is_empty() { "/bin/sh" } else { alone.trim() };
    text += &format!(
        r#"
mkdir -p {workdir} 2> /dev/null
cd {workdir} && unset OLDPWD || exit 1

if [ -s /etc/rc.local ]; then
    . /etc/rc.local
fi

if [ $# -gt 0 ]; then
    exec {entrypoint} "$@"
else
    exec {alone}
fi
"#
    );
    text
}

impl Tree {
    /// Everything below a folder goes.
    fn empty(&mut self, path: &[u8]) {
        let Some(folder) = self.find(path) else { return };
        if let Body::Folder(children) = &mut self.node_mut(folder).body {
            children.clear();
        }
    }

    fn reachable(&self) -> Vec<crate::tree::NodeId> {
        let mut found = vec![ROOT];
        let mut at = 0;
        while let Some(id) = found.get(at).copied() {
            found.extend(self.children(id).into_iter().flat_map(Children::values).map(|child| child.id));
            at += 1;
        }
        found
    }
}
