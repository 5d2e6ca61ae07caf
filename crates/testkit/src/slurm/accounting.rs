//! slurmdbd on a MariaDB of its own, for `sacct`.

use std::path::Path;
use std::process::Command;

use crate::stage::{Stage, set_mode};
use crate::waiting::eventually;
use crate::yard::Output;
use crate::{ports, processes};

/// For `slurm.conf`.
pub(super) fn lines(stage: &Stage, port: u16) -> String {
    format!(
        "AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={}/run/munge.sock
AccountingStorageTRES=gres/gpu
AccountingStoreFlags=job_comment
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=2
",
        stage.folder().display()
    )
}

/// Answers when slurmdbd listens: a slurmctld that starts earlier ends at once.
pub(super) fn start(stage: &Stage, port: u16) {
    let folder = stage.folder().join("db");
    std::fs::create_dir(&folder).expect("a folder");
    set_mode(&folder, 0o755);
    start_database(stage, &folder);
    let socket = stage.folder().join("run/munge.sock");
    let text = format!(
        "DbdHost=admin
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={socket}
LogFile={folder}/log/slurmdbd.log
PidFile={folder}/run/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StoragePass=pw
StorageLoc=slurm_acct
CommitDelay=1
",
        user = if rustix::process::geteuid().is_root() { "root".to_owned() } else { stage.add_user().name },
        socket = socket.display(),
        folder = stage.folder().display(),
    );
    stage.write("slurmdbd.conf", &text);
    set_mode(&stage.etc("slurmdbd.conf"), 0o600);
    let mut command = stage.command("admin", "/usr/sbin/slurmdbd");
    // The only way to tell it about a socket.
    command.arg("-D").env("MYSQL_UNIX_PORT", folder.join("my.sock")).env("SLURM_CONF", stage.etc("slurm.conf"));
    let pid = stage.start(&mut command, "slurmdbd.out");
    eventually("slurmdbd", || {
        assert!(processes::is_alive(pid), "slurmdbd ended: see {}", stage.log_folder().display());
        ports::answers(port).then_some(())
    });
}

fn start_database(stage: &Stage, folder: &Path) {
    let data = format!("--datadir={}", folder.join("data").display());
    let socket = format!("--socket={}", folder.join("my.sock").display());
    let mut install = Command::new("mariadb-install-db");
    install.args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal", &data]);
    // On the machine itself: only slurmdbd is another one in a root folder.
    let mut server = Command::new("mariadbd");
    server.args(["--no-defaults", "--skip-networking", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=32M"]);
    server.args(["--innodb-flush-log-at-trx-commit=0", &data, &socket]);
    server.arg(format!("--pid-file={}", folder.join("my.pid").display())).env("YARD_TEST_STAGE", stage.folder());
    if rustix::process::geteuid().is_root() {
        install.arg("--user=mysql");
        server.arg("--user=mysql");
        let owner = Output::of(Command::new("chown").arg("mysql").arg(folder));
        assert_eq!(owner.exit, 0, "mariadb-server is installed: {owner:?}");
    }
    let installed = Output::of(&mut install);
    assert_eq!(installed.exit, 0, "mariadb-install-db: {installed:?}");
    let pid = stage.start(&mut server, "mariadbd.out");
    let setup = "create database slurm_acct; create user slurm@localhost identified by 'pw'; \
                 grant all on slurm_acct.* to slurm@localhost";
    eventually("MariaDB", || {
        assert!(processes::is_alive(pid), "mariadbd ended: see {}", stage.log_folder().display());
        let client = Output::of(Command::new("mariadb").args(["--no-defaults", "-u", "root", &socket, "-e", setup]));
        (client.exit == 0).then_some(())
    });
}
