//! `yard target add`: three questions, and the rest from the site itself.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use std::io::IsTerminal;
use trainyard_core::plan::slurm::{self, Facts, Partition};
use trainyard_core::spec::{TargetSpec, format_duration, format_size};
use trainyard_engine::host::{Host, Person, SshHost};
use trainyard_engine::pipe::PipeError;
use trainyard_engine::site::{Cluster, Survey, survey};

use super::write::{Existing, write};
use super::{gpus, summary};
use crate::context::Context;
use crate::errand;
use crate::error::{CommandError, Exit};
use crate::report::{Report, Style};

/// Add a place that runs can go to: asks for host, partition and folder, and finds out the rest
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// What to call it, as in `yard run JOB --on NAME`
    name: String,

    /// Any name `ssh` understands; `here` is this machine
    #[arg(long)]
    host: Option<String>,

    /// What it is; found out unless given
    #[arg(long, value_enum)]
    kind: Option<Kind>,

    /// SLURM: who pays
    #[arg(long)]
    account: Option<String>,

    /// SLURM: where to queue
    #[arg(long)]
    partition: Option<String>,

    /// SLURM: the quality of service
    #[arg(long)]
    qos: Option<String>,

    /// The folder there for code, images and runs
    #[arg(long)]
    depot: Option<String>,

    /// SLURM: how GPUs are asked for, such as `--gres=gpu:a100:{gpus}`
    #[arg(long, value_name = "OPTIONS", allow_hyphen_values = true)]
    gpu_request: Option<String>,

    /// Ray: the address of the dashboard; may be given several times
    #[arg(long, value_name = "URL", conflicts_with_all = ["host", "kind"])]
    address: Vec<String>,

    /// Ray: a file with the token
    #[arg(long, value_name = "FILE", requires = "address")]
    token_file: Option<String>,

    /// Ray: a file with the certificate authority to trust
    #[arg(long, value_name = "FILE", requires = "address")]
    ca: Option<String>,

    /// Ask nothing: take what is proposed
    #[arg(long, short)]
    yes: bool,

    /// Replace a target of that name
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    Slurm,
    Ssh,
}

impl Add {
    pub(crate) fn run(self, context: &Context) -> Result<Exit, CommandError> {
        self.check_words(context)?;
        if !self.address.is_empty() {
            let keys = self.ray(context)?;
            return self.write(context, &keys);
        }
        let name = self.host(context)?;
        let host = match &name {
            Some(name) => {
                let reach = context.reach()?;
                Host::Ssh(SshHost::new(name, &reach.ssh, &reach.sockets).map_err(PipeError::from)?)
            }
            None => Host::Here,
        };
        let person = if std::io::stdin().is_terminal() { Person::AtTerminal } else { Person::Nobody };
        host.connect(person, errand::PATIENCE).map_err(PipeError::from)?;
        let found = survey(&host)?;
        let kind = self.kind(&found, &host)?;
        let mut keys = vec![key("kind", if kind == Kind::Slurm { "slurm" } else { "ssh" })];
        keys.extend(name.as_deref().map(|name| key("host", name)));
        match (&found.slurm, kind) {
            (Cluster::Answers(facts), Kind::Slurm) => {
                context.printer.say(&format!("{}: {}", host.name(), summary(facts)));
                self.slurm(context, facts, &found, &mut keys)?;
            }
            _ => {
                context.printer.say(&format!("{}: a plain machine; it gets a queue of its own", host.name()));
                keys.push(key("depot", &self.depot(context, &found)?));
            }
        }
        self.write(context, &keys)
    }

    fn write(self, context: &Context, keys: &[String]) -> Result<Exit, CommandError> {
        let existing = if self.force { Existing::Replaced } else { Existing::Kept };
        let path = context.home.settings();
        let table = write(&path, &self.name, keys, existing)?;
        context.printer.report(&Written { name: self.name, path: path.display().to_string(), table });
        Ok(Exit::Done)
    }

    /// One that nobody reaches is not written down.
    fn ray(&self, context: &Context) -> Result<Vec<String>, CommandError> {
        let mut keys = vec![key("kind", "ray")];
        match &self.address[..] {
            [only] => keys.push(key("address", only)),
            several => keys.push(format!("address = {}", Value::from(several.to_vec()))),
        }
        keys.extend(self.depot.as_deref().map(|depot| key("depot", depot)));
        keys.extend(self.token_file.as_deref().map(|path| format!("token = {{ file = {} }}", Value::from(path))));
        keys.extend(self.ca.as_deref().map(|path| key("ca", path)));
        super::ray::greet(context, &self.name, &keys)?;
        Ok(keys)
    }

    /// Before anybody is called.
    fn check_words(&self, context: &Context) -> Result<(), CommandError> {
        let usage = |message: String| CommandError::new(Exit::Usage, message);
        let fine = |letter: char| letter.is_ascii_alphanumeric() || "-_".contains(letter);
        if self.name.is_empty() || !self.name.chars().all(fine) {
            return Err(usage(format!("`{}` is not a name: letters, digits, `-` and `_`", self.name)));
        }
        if self.name == TargetSpec::LOCAL {
            return Err(usage("`local` is this machine, which is always there".to_owned()));
        }
        self.address.iter().try_for_each(|value| refuse_placeholder(value))?;
        let given = [&self.host, &self.account, &self.partition, &self.qos, &self.depot];
        given.into_iter().flatten().try_for_each(|value| refuse_placeholder(value))?;
        let known = context.load(None)?;
        if known.config.targets.contains_key(&self.name) && !self.force {
            let message = format!("there is a target `{}` already", self.name);
            return Err(CommandError::new(Exit::Settings, message).hint("`--force` replaces it; another name adds one"));
        }
        Ok(())
    }

    /// `None` is this machine.
    fn host(&self, context: &Context) -> Result<Option<String>, CommandError> {
        let answer = match &self.host {
            Some(host) => host.clone(),
            None => {
                let question = format!("Host of `{}`, as `ssh` knows it, or `here` for this machine", self.name);
                self.ask(context, &question, Some(&self.name), "--host")?
            }
        };
        let here = ["here", "this machine", "localhost"].contains(&answer.as_str());
        Ok((!here).then_some(answer))
    }

    fn kind(&self, found: &Survey, host: &Host) -> Result<Kind, CommandError> {
        let refused = |message: String, hint: &str| Err(CommandError::new(Exit::Refused, message).hint(hint));
        match (self.kind, &found.slurm, host) {
            (Some(Kind::Slurm), Cluster::Absent, _) => refused(
                format!("there is no `sbatch` on {}", host.name()),
                "is it the login node? `ssh HOST command -v sbatch` must find it",
            ),
            (Some(Kind::Ssh), _, Host::Here) | (None, Cluster::Absent, Host::Here) => refused(
                "there is no SLURM here, and `local` is this machine already".to_owned(),
                "`yard run JOB --on local`; for another machine give its name with `--host`",
            ),
            (Some(Kind::Ssh), ..) | (None, Cluster::Absent, _) => Ok(Kind::Ssh),
            (_, Cluster::Silent(why), _) => refused(
                format!("{}: {why}", host.name()),
                "try again when it answers; `--kind ssh` takes it as a plain machine",
            ),
            (_, Cluster::Answers(_), _) => Ok(Kind::Slurm),
        }
    }

    fn slurm(
        &self,
        context: &Context,
        facts: &Facts,
        found: &Survey,
        keys: &mut Vec<String>,
    ) -> Result<(), CommandError> {
        let partition = self.partition(context, facts)?;
        let account = self.account(context, facts)?;
        keys.push(key("depot", &self.depot(context, found)?));
        keys.extend(account.as_deref().map(|account| key("account", account)));
        keys.extend(partition.as_deref().map(|partition| key("partition", partition)));
        keys.extend(self.qos.as_deref().map(|qos| key("qos", qos)));
        let request = self.gpu_request.clone().or_else(|| slurm::gpu_request(facts, partition.as_deref()));
        keys.extend(request.map(|request| key("gpu-request", &request)));
        let runtime = |name: &'static str, version: &slurm::Answer<Option<String>>| {
            version.known().is_some_and(Option::is_some).then_some(name)
        };
        let pyxis = facts.pyxis.known().is_some_and(|there| *there).then_some("pyxis");
        let found = runtime("apptainer", &facts.apptainer).or(runtime("singularity", &facts.singularity)).or(pyxis);
        keys.extend(found.map(|name| key("container", name)));
        Ok(())
    }

    fn partition(&self, context: &Context, facts: &Facts) -> Result<Option<String>, CommandError> {
        let all = facts.partitions.known().map(Vec::as_slice).unwrap_or_default();
        if let Some(named) = &self.partition {
            check_names(named, all)?;
            return Ok(Some(named.clone()));
        }
        let Some(proposed) = slurm::partition(facts) else { return Ok(None) };
        if self.yes || all.len() == 1 {
            return Ok(Some(proposed.name.clone()));
        }
        all.iter().for_each(|one| context.printer.say(&format!("  {}", described(one))));
        loop {
            let answer = self.ask(context, "Partition", Some(&proposed.name), "--partition")?;
            match check_names(&answer, all) {
                Ok(()) => return Ok(Some(answer)),
                Err(error) => context.printer.say(&error.chain.join(": ")),
            }
        }
    }

    fn account(&self, context: &Context, facts: &Facts) -> Result<Option<String>, CommandError> {
        let own = slurm::accounts(facts);
        match (&self.account, &own[..]) {
            (Some(account), _) => Ok(Some(account.clone())),
            (None, []) => Ok(None),
            (None, [only]) => Ok(Some(only.clone())),
            (None, [first, ..]) if self.yes => Ok(Some(first.clone())),
            (None, [first, ..]) => {
                context.printer.say(&format!("  {}", own.join(", ")));
                self.ask(context, "Account that pays", Some(first), "--account").map(Some)
            }
        }
    }

    fn depot(&self, context: &Context, found: &Survey) -> Result<String, CommandError> {
        if let Some(depot) = &self.depot {
            return Ok(depot.clone());
        }
        let below = |path: &str| format!("{}/yard", path.trim_end_matches('/'));
        let proposed = found.folders.first().map(|folder| below(&folder.path));
        if self.yes {
            return proposed.ok_or_else(|| missing("--depot"));
        }
        for folder in &found.folders {
            let free = folder.free.map_or_else(String::new, |free| format!("  {} free", format_size(free)));
            context.printer.say(&format!("  {}{free}", below(&folder.path)));
        }
        self.ask(context, "Folder there for code and runs", proposed.as_deref(), "--depot")
    }

    /// An empty answer takes what is proposed.
    fn ask(
        &self,
        context: &Context,
        question: &str,
        proposed: Option<&str>,
        flag: &str,
    ) -> Result<String, CommandError> {
        if self.yes || !context.printer.can_ask() {
            return Err(missing(flag));
        }
        let shown = proposed.map(|proposed| format!(" [{proposed}]")).unwrap_or_default();
        loop {
            let Some(answer) = context.printer.ask_line(&format!("{question}{shown}:")) else {
                return Err(CommandError::new(Exit::Interrupted, "no answer; nothing was written"));
            };
            let answer = if answer.is_empty() { proposed.unwrap_or_default().to_owned() } else { answer };
            match refuse_placeholder(&answer) {
                Ok(()) if !answer.is_empty() => return Ok(answer),
                Ok(()) => {}
                Err(error) => context.printer.say(&error.chain.join(": ")),
            }
        }
    }
}

fn missing(flag: &str) -> CommandError {
    CommandError::new(Exit::Usage, format!("nobody is there to be asked, and `{flag}` is not given"))
        .hint("`--yes` takes what is proposed for all but the host")
}

/// What people copy from a guide and forget to replace.
fn refuse_placeholder(value: &str) -> Result<(), CommandError> {
    let plain = value.to_lowercase();
    let is_one = value.contains(['<', '>', '…'])
        || value.contains("...")
        || ["todo", "changeme", "change-me", "fixme", "xxx"].contains(&plain.as_str())
        || ["your-", "your_", "my-account", "my_account"].iter().any(|start| plain.starts_with(start));
    match is_one {
        true => Err(CommandError::new(Exit::Usage, format!("`{value}` stands for something; give the thing itself"))),
        false => Ok(()),
    }
}

fn check_names(named: &str, all: &[Partition]) -> Result<(), CommandError> {
    let unknown = named.split(',').map(str::trim).find(|name| !all.iter().any(|one| one.name == *name));
    match unknown.filter(|_| !all.is_empty()) {
        Some(name) => {
            let known: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
            let message = format!("there is no partition `{name}`; there are {}", known.join(", "));
            Err(CommandError::new(Exit::Refused, message))
        }
        None => Ok(()),
    }
}

fn described(one: &Partition) -> String {
    let alone = Facts { partitions: slurm::Answer::Known(vec![one.clone()]), ..Facts::default() };
    let gpus = gpus(&alone);
    let gpus = if gpus.is_empty() { "no GPUs".to_owned() } else { gpus.join(", ") };
    let limit =
        one.max_time.map_or_else(|| "no time limit".to_owned(), |limit| format!("{} at most", format_duration(limit)));
    let nodes: u32 = one.nodes.iter().map(|nodes| nodes.count).sum();
    let down = if one.is_up { "" } else { ", starts no jobs at the moment" };
    format!("{}: {nodes} nodes, {gpus}, {limit}{down}", one.name)
}

/// A string of JSON is one of TOML too.
fn key(name: &str, value: &str) -> String {
    format!("{name} = {}", Value::from(value))
}

struct Written {
    name: String,
    path: String,
    table: String,
}

impl Report for Written {
    fn json(&self) -> Value {
        json!({ "name": self.name, "file": self.path, "written": self.table })
    }

    fn text(&self, style: Style) -> String {
        let path = &self.path;
        format!(
            "{}\nwritten to {path}; next: {}\n",
            self.table,
            style.bold(&format!("yard target check {}", self.name))
        )
    }
}
