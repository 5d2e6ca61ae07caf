//! `yard init`: a first trainyard.toml, or a whole example.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use crate::context::{Context, PROJECT_FILE};
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};

/// Write a commented trainyard.toml, or a project that runs as it is
#[derive(Debug, Args)]
pub(crate) struct Init {
    /// A folder to make and fill with this example
    #[arg(long, value_enum)]
    example: Option<Example>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Example {
    Cartpole,
}

const TEMPLATE: &str = include_str!("init.toml");
const CARTPOLE: [(&str, &str); 3] = [
    ("trainyard.toml", include_str!("../../../../examples/cartpole/trainyard.toml")),
    ("train.py", include_str!("../../../../examples/cartpole/train.py")),
    ("README.md", include_str!("../../../../examples/cartpole/README.md")),
];

impl Init {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let (folder, files, next): (PathBuf, &[(&str, &str)], &str) = match self.example {
            None => (context.folder.clone(), &[(PROJECT_FILE, TEMPLATE)], "edit it, then `yard run train`"),
            Some(Example::Cartpole) => {
                (context.folder.join("cartpole"), &CARTPOLE, "`yard -C cartpole run train` trains four seeds")
            }
        };
        refuse_overwriting(&folder, files)?;
        fs_err::create_dir_all(&folder)?;
        for (name, text) in files {
            fs_err::write(folder.join(name), text)?;
        }
        context.printer.report(&Written { folder, files: files.iter().map(|(name, _)| *name).collect(), next });
        Ok(Exit::Done)
    }
}

fn refuse_overwriting(folder: &Path, files: &[(&str, &str)]) -> Result<(), CommandError> {
    match files.iter().map(|(name, _)| folder.join(name)).find(|path| path.exists()) {
        Some(path) => Err(CommandError::new(Exit::Settings, format!("{} is there already", path.display()))),
        None => Ok(()),
    }
}

struct Written {
    folder: PathBuf,
    files: Vec<&'static str>,
    next: &'static str,
}

impl Report for Written {
    fn json(&self) -> Value {
        json!({ "folder": self.folder, "files": self.files })
    }

    fn text(&self, _: Style) -> String {
        let files = self.files.iter().map(|name| format!("wrote {}\n", self.folder.join(name).display()));
        files.collect::<String>() + self.next + "\n"
    }
}
