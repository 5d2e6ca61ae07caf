//! `yard image build` and `yard image push`.

use clap::Args;
use serde_json::{Value, json};
use trainyard_core::spec::{ImageSpec, TargetKind, TargetSpec, round_size};
use trainyard_engine::images::{Built, Form, Pushed, Wanted};
use trainyard_engine::site::Known;
use trainyard_engine::submit;

use crate::command::run::{named_target, no_image};
use crate::context::{Context, Project};
use crate::errand::{Errand, build_image};
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};

/// Convert an image of the file, unless that was done before
#[derive(Debug, Args)]
pub(crate) struct Build {
    /// The image, as named in trainyard.toml; the only one, or `[image]`, unless given
    profile: Option<String>,

    /// Convert it for this target, which may want another form
    #[arg(long = "on", value_name = "TARGET")]
    target: Option<String>,
}

/// Bring an image of the file to a target; only what it lacks is sent
#[derive(Debug, Args)]
pub(crate) struct Push {
    /// The image, as named in trainyard.toml; the only one, or `[image]`, unless given
    profile: Option<String>,

    /// Where to bring it
    #[arg(long = "on", value_name = "TARGET")]
    target: String,
}

impl Build {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let project = context.project()?;
        let form = match &self.target {
            Some(name) => {
                let target = named_target(&project, name)?;
                form_at(&mut Errand::new(context, target), target)?
            }
            None => Form::default(),
        };
        let wanted = wanted(&project, self.profile.as_deref(), form)?;
        let built = build_image(context, &project.folder, &wanted)?;
        context.printer.report(&Made { profile: &wanted.profile, built: &built, pushed: None });
        Ok(Exit::Done)
    }
}

impl Push {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        let project = context.project()?;
        let target = named_target(&project, &self.target)?;
        if matches!(target.kind, TargetKind::Local(_)) {
            let error = CommandError::new(Exit::Usage, "jobs on this machine use the image where it was made");
            return Err(error.hint("`yard image build` makes it"));
        }
        let mut errand = Errand::new(context, target);
        let wanted = wanted(&project, self.profile.as_deref(), form_at(&mut errand, target)?)?;
        let built = build_image(context, &project.folder, &wanted)?;
        let (path, pushed) = errand.push_image(&built)?;
        let pushed = Some((target.name.as_str(), path, pushed));
        context.printer.report(&Made { profile: &wanted.profile, built: &built, pushed });
        Ok(Exit::Done)
    }
}

fn form_at(errand: &mut Errand<'_>, target: &TargetSpec) -> Result<Form, CommandError> {
    let is_site = !matches!(target.kind, TargetKind::Local(_));
    let known = if is_site { errand.known(false)? } else { None };
    let facts = known.as_ref().and_then(Known::about);
    Ok(submit::image_form(target, facts)?)
}

fn wanted(project: &Project, named: Option<&str>, form: Form) -> Result<Wanted, CommandError> {
    let images = &project.loaded.config.images;
    let name = match (named, images.len()) {
        (Some(name), _) => name,
        (None, 1) => images.keys().next().map_or(ImageSpec::DEFAULT, String::as_str),
        (None, _) => ImageSpec::DEFAULT,
    };
    let Some(spec) = images.get(name) else {
        if named.is_none() && !images.is_empty() {
            let known = images.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            let error = CommandError::new(
                Exit::Usage,
                "which image? trainyard.toml has several, and none of them is `[image]`",
            );
            return Err(error.hint(format!("name one of them: {known}")));
        }
        return Err(no_image(images.keys(), name));
    };
    Ok(Wanted { profile: name.to_owned(), spec: spec.clone(), form })
}

struct Made<'a> {
    profile: &'a str,
    built: &'a Built,
    /// Where, and what was sent.
    pushed: Option<(&'a str, String, Pushed)>,
}

impl Report for Made<'_> {
    fn json(&self) -> Value {
        let Built { path, name, size, blocks } = self.built;
        let pushed = self.pushed.as_ref().map(|(target, path, pushed)| {
            json!({ "target": target, "path": path, "sent_bytes": pushed.wire, "was_there": pushed.wire == 0 })
        });
        json!({
            "image": self.profile,
            "digest": name.digest(),
            "path": path,
            "bytes": size,
            "was_made_before": blocks.is_none(),
            "blocks": blocks.map(|(all, _)| all),
            "reused_blocks": blocks.map(|(_, reused)| reused),
            "pushed": pushed,
        })
    }

    fn text(&self, _: Style) -> String {
        let Built { name, size, blocks, path } = self.built;
        let made = match blocks {
            None => "unchanged".to_owned(),
            Some((_, 0)) => "converted".to_owned(),
            Some((all, reused)) => format!("converted, {reused} of {all} blocks as before"),
        };
        let digest = name.digest().get(..12).unwrap_or_default();
        let mut text = format!("{}  {digest}  {}, {made}\n", self.profile, round_size(*size));
        match &self.pushed {
            None => text.push_str(&format!("{}\n", path.display())),
            Some((target, path, Pushed { wire: 0, .. })) => text.push_str(&format!("{target} has it: {path}\n")),
            Some((target, path, pushed)) => {
                text.push_str(&format!("{} sent to {target}: {path}\n", round_size(pushed.wire)));
            }
        }
        text
    }
}
