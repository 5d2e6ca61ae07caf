//! A job and one run's values → what `execve` gets: a list of arguments and an environment. Nothing is quoted
//! for a shell here; extra arguments pass through untouched.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

use super::hydra::{self, HydraError};
use crate::spec::{Command, JobSpec, ParamStyle, ParamsFile, Setting};
use crate::template::{self, TemplateError, Values, plain};
use crate::value::{Params, Value};

/// How a program is started. Secrets in `env` are still references.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invocation {
    pub argv: Vec<String>,
    pub env: BTreeMap<String, Setting>,
}

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ArgumentError {
    #[error("cannot fill in `{place}`")]
    Template { place: String, source: TemplateError },
    #[error("cannot write the parameter `{param}` for Hydra")]
    Hydra { param: String, source: HydraError },
    #[error("{name:?} cannot be the name of an argument: it is empty or holds `=`")]
    Name { name: String },
    #[error("{first} and {second} both set the environment variable `{variable}`; rename one of them")]
    SameVariable { variable: String, first: String, second: String },
    #[error("{text:?} holds a NUL character, which no argument and no environment variable can carry")]
    Nul { text: String },
    #[error(
        "the parameter `{param}` is nowhere in `{template}`, so the program would never see it; \
         write `{{param.{param}}}` where it belongs"
    )]
    Unplaced { param: String, template: String },
    #[error(
        "`shell` never reads its arguments, so {what} would be lost; \
         write `\"$@\"` where they belong, as in `shell = \"python train.py \\\"$@\\\"\"`"
    )]
    Unread { what: &'static str },
}

/// The command with its placeholders filled in, then parameters, then `resume.args` if there is a checkpoint,
/// then `extra` byte for byte. A parameter that the command or the environment names as `{param.NAME}` is not
/// added a second time.
///
/// The parameters are those of `values`; those of `job` are expected to be among them.
pub fn command_line(job: &JobSpec, values: &Values<'_>, extra: &[String]) -> Result<Invocation, ArgumentError> {
    let params = sized(values);
    let values = &Values { params: &params, ..values.clone() };
    let left = unplaced(job, values.params);
    let (params, variables) = match job.style {
        ParamStyle::Flags => (flags(&left)?, BTreeMap::new()),
        ParamStyle::Hydra => (overrides(&left)?, BTreeMap::new()),
        ParamStyle::Env => (Vec::new(), environment(&left)?),
        ParamStyle::File => (Vec::new(), BTreeMap::new()),
    };
    if let Command::Shell(text) = &job.command {
        refuse_unread(text, &params, &job.resume.args, extra)?;
    }
    let mut argv = filled_command(&job.command, values)?;
    argv.extend(params);
    if values.checkpoint.is_some() {
        argv.extend(filled_list("resume.args", &job.resume.args, values)?);
    }
    argv.extend_from_slice(extra);
    let env = merged(filled_env(&job.env, values)?, variables)?;
    refuse_nul(&argv, &env)?;
    Ok(Invocation { argv, env })
}

/// The arguments that hand these parameters to the job's program; `None` where they go another way: through the
/// environment, a file, or the midst of the command.
pub fn added(job: &JobSpec, params: &Params) -> Result<Option<Vec<String>>, ArgumentError> {
    let all_left = unplaced(job, params).len() == params.len();
    match job.style {
        ParamStyle::Flags if all_left => flags(params).map(Some),
        ParamStyle::Hydra if all_left => overrides(params).map(Some),
        _ => Ok(None),
    }
}

/// The file that `template`, the text of `file.template`, becomes. Every parameter must have its place, there or in the
/// command.
pub fn parameter_file(
    job: &JobSpec,
    file: &ParamsFile,
    template: &str,
    values: &Values<'_>,
) -> Result<String, ArgumentError> {
    let params = sized(values);
    let values = &Values { params: &params, ..values.clone() };
    let placed = template::names_in_file(template);
    if let Some(param) = unplaced(job, &params).into_keys().find(|param| !placed.contains(&param.as_str())) {
        return Err(ArgumentError::Unplaced { param, template: file.template.clone() });
    }
    let in_file = |source| ArgumentError::Template { place: file.template.clone(), source };
    template::fill_file(template, values).map_err(in_file)
}

/// `--name=value`; a null leaves the flag out, since no text stands for it in all programs.
pub fn flags(params: &Params) -> Result<Vec<String>, ArgumentError> {
    let set = params.iter().filter(|(_, value)| **value != Value::Null);
    set.map(|(name, value)| Ok(format!("--{}={}", checked(name)?, plain(value)))).collect()
}

/// `name=value` in Hydra's grammar, the name as the user wrote it.
pub fn overrides(params: &Params) -> Result<Vec<String>, ArgumentError> {
    let write = |(name, value): (&String, &Value)| {
        let written = hydra::assignment(checked(name)?, value);
        written.map_err(|source| ArgumentError::Hydra { param: name.clone(), source })
    };
    params.iter().map(write).collect()
}

/// `agent.lr` as `AGENT_LR`; a null leaves the variable out.
pub fn environment(params: &Params) -> Result<BTreeMap<String, String>, ArgumentError> {
    let mut from: BTreeMap<String, &str> = BTreeMap::new();
    let mut variables = BTreeMap::new();
    for (name, value) in params {
        let variable = variable_name(name)?;
        if let Some(first) = from.insert(variable.clone(), name) {
            let (first, second) = (format!("the parameters `{first}`"), format!("`{name}`"));
            return Err(ArgumentError::SameVariable { variable, first, second });
        }
        if *value != Value::Null {
            variables.insert(variable, plain(value));
        }
    }
    Ok(variables)
}

/// Upper case, `_` for what is no ASCII letter or digit, and `_` before a leading digit, which shells refuse.
fn variable_name(param: &str) -> Result<String, ArgumentError> {
    if param.is_empty() {
        return Err(ArgumentError::Name { name: String::new() });
    }
    let upper = |c: char| {
        if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }
    };
    let lead = if param.starts_with(|c: char| c.is_ascii_digit()) { "_" } else { "" };
    Ok(lead.chars().chain(param.chars().map(upper)).collect())
}

fn checked(name: &str) -> Result<&str, ArgumentError> {
    if name.is_empty() || name.contains('=') {
        return Err(ArgumentError::Name { name: name.to_owned() });
    }
    Ok(name)
}

/// The parameters with the run's size filled in: `{total_gpus}` and its like, and nothing else in braces. A text
/// that is one placeholder alone becomes the number, which Hydra tells from a text.
fn sized(values: &Values<'_>) -> Params {
    let fill = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::Text(text) => values.size.fill_in(text),
            other => other.clone(),
        };
        (name.clone(), value)
    };
    values.params.iter().map(fill).collect()
}

/// The parameters that no `{param.NAME}` in the command or the environment names.
fn unplaced(job: &JobSpec, params: &Params) -> Params {
    let command = match &job.command {
        Command::Argv(words) => words.as_slice(),
        Command::Shell(text) => std::slice::from_ref(text),
    };
    let texts = command.iter().chain(job.env.values().filter_map(setting_text));
    let placed: BTreeSet<&str> =
        texts.flat_map(|text| template::names(text)).filter_map(|name| name.strip_prefix("param.")).collect();
    let left = params.iter().filter(|(name, _)| !placed.contains(name.as_str()));
    left.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn filled_command(command: &Command, values: &Values<'_>) -> Result<Vec<String>, ArgumentError> {
    match command {
        Command::Argv(words) => filled_list("command", words, values),
        Command::Shell(text) => {
            let in_shell = |source| ArgumentError::Template { place: "shell".to_owned(), source };
            let text = template::fill_shell(text, values).map_err(in_shell)?;
            // The word after the text is `$0`, the name that the shell's own messages begin with.
            Ok(vec!["/bin/sh".to_owned(), "-c".to_owned(), text, "sh".to_owned()])
        }
    }
}

fn filled_list(place: &str, texts: &[String], values: &Values<'_>) -> Result<Vec<String>, ArgumentError> {
    texts.iter().map(|text| filled(place, text, values)).collect()
}

fn filled_env(
    env: &BTreeMap<String, Setting>,
    values: &Values<'_>,
) -> Result<BTreeMap<String, Setting>, ArgumentError> {
    let fill = |(name, setting): (&String, &Setting)| {
        let setting = match setting {
            Setting::Text(text) => Setting::Text(filled(&format!("env.{name}"), text, values)?),
            Setting::Secret(secret) => Setting::Secret(secret.clone()),
        };
        Ok((name.clone(), setting))
    };
    env.iter().map(fill).collect()
}

fn filled(place: &str, text: &str, values: &Values<'_>) -> Result<String, ArgumentError> {
    let in_place = |source| ArgumentError::Template { place: place.to_owned(), source };
    template::fill(text, values).map_err(in_place)
}

fn merged(
    mut env: BTreeMap<String, Setting>,
    variables: BTreeMap<String, String>,
) -> Result<BTreeMap<String, Setting>, ArgumentError> {
    for (variable, value) in variables {
        if env.contains_key(&variable) {
            let (first, second) = (format!("`env.{variable}`"), "a parameter".to_owned());
            return Err(ArgumentError::SameVariable { variable, first, second });
        }
        env.insert(variable, Setting::Text(value));
    }
    Ok(env)
}

/// A sweep whose parameters never reach the program looks like one in which they do not matter.
fn refuse_unread(shell: &str, params: &[String], resume: &[String], extra: &[String]) -> Result<(), ArgumentError> {
    let positional = |c| matches!(c, '@' | '*' | '1'..='9');
    let mut after_dollar = shell.split('$').skip(1);
    if after_dollar.any(|rest| rest.trim_start_matches('{').starts_with(positional)) {
        return Ok(());
    }
    let what = match (params, resume, extra) {
        ([], [], []) => return Ok(()),
        ([_, ..], _, _) => "the parameters",
        (_, [_, ..], _) => "`resume.args`",
        _ => "the arguments after `--`",
    };
    Err(ArgumentError::Unread { what })
}

fn refuse_nul(argv: &[String], env: &BTreeMap<String, Setting>) -> Result<(), ArgumentError> {
    let settings = env.values().filter_map(setting_text);
    match argv.iter().chain(env.keys()).chain(settings).find(|text| text.contains('\0')) {
        Some(text) => Err(ArgumentError::Nul { text: text.clone() }),
        None => Ok(()),
    }
}

fn setting_text(setting: &Setting) -> Option<&String> {
    match setting {
        Setting::Text(text) => Some(text),
        Setting::Secret(_) => None,
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests;
