//! `yard import`: files of the tools that yard replaces, as text for trainyard.toml.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use serde_json::{Value, json};
use trainyard_core::import::{ImportError, Imported, Remark, import};
use trainyard_engine::home::locate;

use crate::context::Context;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};

/// Translate a tasks.yaml, a .cluster_config or a command line with several jobs into text for trainyard.toml
#[derive(Debug, Args)]
pub(crate) struct Import {
    /// The file; what it is, it says itself
    file: PathBuf,

    /// Write the text to this file, which must not be there yet
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
}

impl Import {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let path = locate(&self.file, &context.folder);
        let bytes = fs_err::read(&path).map_err(|error| CommandError::new(Exit::Settings, error.to_string()))?;
        let name = self.file.display();
        let text = String::from_utf8(bytes)
            .map_err(|_| CommandError::new(Exit::Settings, format!("{name} is no text (UTF-8)")))?;
        let imported = import(&text).map_err(|error| failed(context, &self.file, error))?;
        if !context.printer.is_json() {
            tell(context, &self.file, &imported.remarks);
        }
        if let Some(to) = &self.to {
            write_new(&locate(to, &context.folder), &imported.text)?;
        }
        context.printer.report(&Translation { imported, to: self.to });
        Ok(Exit::Done)
    }
}

fn tell(context: &Context, file: &Path, remarks: &[Remark]) {
    remarks.iter().for_each(|remark| context.printer.say(&format!("{}: {remark}", file.display())));
}

fn failed(context: &Context, file: &Path, error: ImportError) -> CommandError {
    if let ImportError::Nothing { remarks, .. } = &error {
        tell(context, file, remarks);
    }
    CommandError::new(Exit::Settings, format!("{}: {error}", file.display()))
}

/// A file that is there is somebody's.
fn write_new(path: &Path, text: &str) -> Result<(), CommandError> {
    let file = std::fs::OpenOptions::new().write(true).create_new(true).open(path);
    let mut file = file.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => {
            CommandError::new(Exit::Settings, format!("{} is there already", path.display()))
                .hint("without `--to` the text is printed")
        }
        _ => CommandError::new(Exit::Settings, format!("cannot write {}: {error}", path.display())),
    })?;
    Ok(file.write_all(text.as_bytes())?)
}

struct Translation {
    imported: Imported,
    to: Option<PathBuf>,
}

impl Report for Translation {
    fn json(&self) -> Value {
        let remark = |remark: &Remark| json!({ "line": remark.line, "what": remark.what });
        json!({
            "text": self.imported.text,
            "to": self.to,
            "remarks": self.imported.remarks.iter().map(remark).collect::<Vec<_>>(),
        })
    }

    fn text(&self, _: Style) -> String {
        match &self.to {
            Some(path) => format!("wrote {}; look it over, then `yard target check ray`\n", path.display()),
            None => self.imported.text.clone(),
        }
    }
}
