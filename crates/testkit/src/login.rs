//! The way to a cluster: a jump host, behind it a login node, and a researcher's ssh configuration with keys.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::forwarder::Forwarder;
use crate::slurm::Slurm;
use crate::sshd::{Sshd, make_key};
use crate::stage::{MARK, Stage, User};
use crate::yard::Output;

/// Both sshd, and whatever was started through them, end with it.
///
/// Connections to the login node go through a forwarder that can cut and freeze them.
pub struct Login<'a> {
    /// The laptop and the jump host; without a SLURM the login node too.
    own: Stage,
    cluster: Option<&'a Slurm>,
    user: User,
    jump: Sshd,
    login: Sshd,
    forwarder: Forwarder,
}

impl<'a> Login<'a> {
    /// # Panics
    /// When it does not come up.
    pub fn start(cluster: Option<&'a Slurm>) -> Self {
        Self::on(Stage::new(None), cluster)
    }

    fn on(own: Stage, cluster: Option<&'a Slurm>) -> Self {
        let stage = cluster.map_or(&own, Slurm::stage);
        let user = stage.add_user();
        let guest = own.add_user();
        let folder = own.folder();
        make_key(&folder.join("id"));
        let authorized = folder.join("authorized_keys");
        let jump_authorized = folder.join("jump_authorized_keys");
        for file in [&authorized, &jump_authorized] {
            std::fs::copy(folder.join("id.pub"), file).expect("a key");
        }
        // What is started through it, jobs included, ends with it, not with the cluster.
        let mark = (MARK.to_owned(), folder.to_string_lossy().into_owned());
        let jump = Sshd::start(&own, "jump", &jump_authorized, std::slice::from_ref(&mark));
        let mut variables = cluster.map_or_else(Vec::new, Slurm::env);
        variables.push(mark);
        let name = format!("login-{}", user.name);
        let login = Sshd::start(stage, &name, &authorized, &variables);
        let forwarder = Forwarder::start(login.port());
        let access = Self { own, cluster, user, jump, login, forwarder };
        access.write_config(&guest);
        access.know_hosts();
        access
    }

    /// A plain machine that has nothing but `sh`.
    ///
    /// # Panics
    /// When it does not come up.
    pub fn without_bash() -> Self {
        let own = Stage::new(None);
        own.take_away("/bin/bash");
        Self::on(own, None)
    }

    fn stage(&self) -> &Stage {
        self.cluster.map_or(&self.own, Slurm::stage)
    }

    fn write_config(&self, guest: &User) {
        let text = format!(
            "Host login login-direct login-plain
    HostKeyAlias login
    User {user}
Host login
    Port {forwarder}
    ProxyJump jump
Host login-direct
    Port {forwarder}
Host login-plain
    Port {login}
Host jump
    HostKeyAlias jump
    User {guest}
    Port {jump}
Host *
    HostName 127.0.0.1
    IdentityFile {folder}/id
    IdentitiesOnly yes
    IdentityAgent none
    UserKnownHostsFile {folder}/known_hosts
    GlobalKnownHostsFile /dev/null
    StrictHostKeyChecking yes
    PasswordAuthentication no
    KbdInteractiveAuthentication no
",
            user = self.user.name,
            guest = guest.name,
            forwarder = self.forwarder.port(),
            login = self.login.port(),
            jump = self.jump.port(),
            folder = self.own.folder().display(),
        );
        std::fs::write(self.own.folder().join("config"), text).expect("a configuration");
    }

    /// The value for `YARD_SSH`.
    pub fn ssh_command(&self) -> String {
        format!("ssh -F {}", self.own.folder().join("config").display())
    }

    /// The name of the login node, through the jump host.
    pub fn host(&self) -> &'static str {
        "login"
    }

    /// The same machine without the jump host.
    pub fn direct_host(&self) -> &'static str {
        "login-direct"
    }

    /// Without jump host and forwarder, for measurements. Cuts at a number of bytes do not reach it.
    pub fn plain_host(&self) -> &'static str {
        "login-plain"
    }

    pub fn user(&self) -> &User {
        &self.user
    }

    /// The user's home on the cluster.
    pub fn home(&self) -> &Path {
        &self.user.home
    }

    /// `ssh HOST COMMAND`, as the researcher types it.
    pub fn ssh(&self, host: &str, command: &str) -> Output {
        Output::of(&mut self.command(host, command))
    }

    pub fn command(&self, host: &str, command: &str) -> Command {
        let mut ssh = Command::new("ssh");
        ssh.arg("-F").arg(self.own.folder().join("config")).args([host, command]).stdin(std::process::Stdio::null());
        ssh
    }

    /// Drops all connections there are now, those to the jump host too.
    pub fn cut(&self) {
        self.login.cut();
        self.jump.cut();
        self.forwarder.cut();
    }

    /// Drops all connections to the login node once, when this many bytes more have gone through in both directions
    /// together. Connections made afterwards are left alone.
    pub fn cut_after(&self, bytes: u64) {
        self.forwarder.cut_after(bytes);
    }

    /// How often `cut_after` has come true.
    pub fn cuts(&self) -> usize {
        self.forwarder.cuts()
    }

    /// How many bytes have gone to and from the login node.
    pub fn bytes(&self) -> u64 {
        self.forwarder.bytes()
    }

    /// Connections to the login node stay open, but nothing goes through any more, as when a network falls silent.
    pub fn freeze(&self) {
        self.forwarder.freeze();
    }

    pub fn thaw(&self) {
        self.forwarder.thaw();
    }

    /// The login node is away: connections end, new ones are refused.
    pub fn stop(&self) {
        self.login.stop(self.stage());
        self.forwarder.cut();
    }

    /// It is back.
    pub fn resume(&self) {
        self.login.resume(self.stage());
    }

    /// A chatty site: printed before the login, and by the user's shell to stdout and stderr of every command.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn banner(&self, text: &str) {
        self.login.set_banner(&format!("{text}\n"));
        let saying = self.home().join(".saying");
        std::fs::write(&saying, format!("{text}\n")).expect("a text");
        std::fs::write(self.home().join(".bashrc"), "cat ~/.saying\ncat ~/.saying >&2\n").expect("a shell file");
    }

    /// As after a new installation of the login node, or with somebody in the middle.
    pub fn change_host_key(&self) {
        self.login.change_host_key(self.stage());
    }

    /// The researcher accepts the keys the hosts have now.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn know_hosts(&self) {
        let text = format!("login {}jump {}", self.login.host_key(), self.jump.host_key());
        std::fs::write(self.known_hosts(), text).expect("known hosts");
    }

    /// As on a new laptop: no host is known.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn forget_hosts(&self) {
        std::fs::write(self.known_hosts(), "").expect("known hosts");
    }

    /// The login node does not accept the researcher's key any more; the jump host does.
    ///
    /// # Panics
    /// When it cannot be written.
    pub fn refuse_key(&self) {
        std::fs::write(self.own.folder().join("authorized_keys"), "").expect("a file of keys");
    }

    /// # Panics
    /// When it cannot be written.
    pub fn accept_key(&self) {
        std::fs::copy(self.own.folder().join("id.pub"), self.own.folder().join("authorized_keys")).expect("a key");
    }

    fn known_hosts(&self) -> PathBuf {
        self.own.folder().join("known_hosts")
    }
}

impl Drop for Login<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            drop(std::io::stderr().write_all(self.own.log().as_bytes()));
        }
        self.login.stop(self.stage());
    }
}
