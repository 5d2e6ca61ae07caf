//! A SLURM cluster behind ssh, for measurements: says how to reach it as one line of JSON, and ends with its input.
//!
//! `cluster [LINE OF slurm.conf]…`
#![expect(clippy::print_stdout, reason = "a program of its own")]

use std::io::Read;

use trainyard_testkit::Login;
use trainyard_testkit::slurm::{Options, Slurm};

fn main() {
    let extra = std::env::args().skip(1).collect();
    let slurm = Slurm::start(Options { extra, ..Options::default() });
    let login = Login::start(Some(&slurm));
    println!(
        "{}",
        serde_json::json!({
            "ssh": login.ssh_command(),
            "host": login.plain_host(),
            "home": login.home(),
            "slurm_conf": slurm.conf(),
        })
    );
    // Whoever started it has had enough when this returns.
    drop(std::io::stdin().read_to_end(&mut Vec::new()));
}
