//! The command line, as a tree of types. Options live beside their commands.

use std::path::PathBuf;

use clap::{Parser, Subcommand};

use crate::command::{
    agent, cancel, clean, completions, controller, diff, doctor, export, image, import, init, logs, man, plot, ps,
    pull, queue, report, retry, run, schema, show, show_config, sweep, target, wait, yardmaster,
};
use crate::report::Output;

/// Runs a robot-learning training anywhere: describe it once in `trainyard.toml`, run it on whatever there is.
#[derive(Debug, Parser)]
#[command(name = "yard", version, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 the run failed, 2 usage, 3 job file, settings or yard's home, \
4 target unreachable, 5 target refused, 6 state unknown, 70 a fault of yard, 130 interrupted.")]
pub(crate) struct Arguments {
    /// Work as if started in this folder
    #[arg(short = 'C', long = "directory", value_name = "DIR", global = true)]
    pub(crate) directory: Option<PathBuf>,

    /// How to print what a command finds out
    #[arg(long, value_enum, default_value_t = Output::Text, global = true)]
    pub(crate) output: Output,

    /// Override a setting, such as `jobs.train.gpus=2`; may be given several times
    #[arg(long = "set", value_name = "PATH=VALUE", global = true)]
    pub(crate) sets: Vec<String>,

    /// Look at the sweeps whose controller is on this cluster, and their runs, instead of this machine's
    #[arg(long, value_name = "TARGET", global = true)]
    pub(crate) at: Option<String>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Init(init::Init),
    Run(run::Run),
    Sweep(sweep::SweepCommand),
    Ps(ps::Ps),
    Show(show::Show),
    Plot(plot::Plot),
    Export(export::Export),
    Diff(diff::Diff),
    Logs(logs::Logs),
    Wait(wait::Wait),
    Cancel(cancel::Cancel),
    Retry(retry::Retry),
    Pull(pull::Pull),
    Clean(clean::Clean),
    Report(report::Report),
    Image(image::ImageCommand),
    Import(import::Import),
    Target(target::Target),
    Doctor(doctor::Doctor),
    Schema(schema::Schema),
    ShowConfig(show_config::ShowConfig),
    Completions(completions::Completions),
    Man(man::Man),
    #[command(hide = true)]
    Yardmaster(yardmaster::Yardmaster),
    #[command(hide = true)]
    Agent(agent::Agent),
    #[command(hide = true)]
    Queue(queue::Queue),
    #[command(hide = true)]
    Controller(controller::Controller),
}

impl Command {
    /// Whether `--at` means something to it.
    pub(crate) fn can_look_elsewhere(&self) -> bool {
        matches!(
            self,
            Self::Ps(_)
                | Self::Show(_)
                | Self::Logs(_)
                | Self::Pull(_)
                | Self::Plot(_)
                | Self::Cancel(_)
                | Self::Sweep(_)
        )
    }
}
