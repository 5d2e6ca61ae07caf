//! `yard yardmaster`: the background process. Commands start it; nobody has to.

use std::time::Duration;

use clap::Args;
use trainyard_core::spec::parse_duration;
use trainyard_engine::yardmaster::{LockError, Settings, YardmasterError, serve};

use crate::context::Context;
use crate::env;
use crate::error::{CommandError, Exit};

/// Places runs and hears what becomes of them
#[derive(Debug, Args)]
pub(crate) struct Yardmaster {
    /// Leave the terminal's session and say on stdout when ready
    #[arg(long)]
    detached: bool,

    /// Leave with whoever started it
    #[arg(long, conflicts_with = "detached")]
    with_parent: bool,

    /// Leave after this long with nothing to do
    #[arg(long, value_name = "TIME", default_value = "60s")]
    idle: String,
}

impl Yardmaster {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let idle = parse_duration(&self.idle).map_err(|error| CommandError::new(Exit::Usage, error.to_string()))?;
        context.home.prepare()?;
        if self.detached {
            // Fails only for a group leader, which a freshly started child is not.
            let _ = rustix::process::setsid();
        }
        if self.with_parent {
            rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::TERM))
                .map_err(std::io::Error::from)?;
        }
        let settings = Settings {
            program: context.start()?.program,
            depot: context.home.depot(),
            idle: Duration::from_millis(idle.0),
            reach: context.reach()?,
            pace: env::pace(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let local = tokio::task::LocalSet::new();
        let printer = context.printer;
        match runtime.block_on(local.run_until(serve(&context.home, settings, || ready(printer)))) {
            Err(YardmasterError::Lock(LockError::Taken)) | Ok(()) => Ok(Exit::Done),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whoever started us waits for the end of our output.
fn ready(printer: crate::report::Printer) {
    printer.bytes(b"ready\n");
    if let Ok(null) = std::fs::File::options().write(true).open("/dev/null") {
        // If it fails, the starter waits until we leave: late, not wrong.
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}
