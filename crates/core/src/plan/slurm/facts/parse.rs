//! The probe's answer, section by section.

use std::collections::BTreeMap;

use thiserror::Error;

use super::{Answer, Association, Facts, GpuKind, Nodes, Partition, Settings};
use crate::plan::slurm::moment::{self, Limit};
use crate::time::Span;

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProbeError {
    #[error("the site answered nothing of what it was asked: {said:?}")]
    NoAnswer { said: String },
    #[error("the site's answer breaks off in the middle; is the connection gone?")]
    CutOff,
    #[error("SLURM is not found there: `sinfo` is not in PATH; is this the login node?")]
    NoSlurm,
    #[error("SLURM is there and does not answer: {said}")]
    Silent { said: String },
}

struct Section {
    text: String,
    /// `None` is a program that is not there.
    status: Option<i32>,
}

impl Section {
    /// What was said, if all went well.
    fn answer(&self) -> Result<&str, String> {
        match self.status {
            Some(0) => Ok(&self.text),
            Some(124) => Err("no answer within 20 seconds".to_owned()),
            Some(126 | 127) | None => Err("not found there".to_owned()),
            Some(status) => {
                let last = self.text.lines().map(str::trim).rfind(|line| !line.is_empty());
                Err(last.map_or_else(|| format!("ended with status {status}"), str::to_owned))
            }
        }
    }
}

pub(super) fn facts(text: &str) -> Result<Facts, ProbeError> {
    let sections = whole(text)?;
    let asked = |name: &str| match sections.get(name) {
        Some(section) => section.answer(),
        None => Err("not asked".to_owned()),
    };
    if sections.get("version").is_some_and(|version| matches!(version.status, Some(126 | 127))) {
        return Err(ProbeError::NoSlurm);
    }
    let partitions = answer(asked("partitions"), |text| Some(partitions(text)));
    if let Answer::Unknown(said) = partitions {
        return Err(ProbeError::Silent { said });
    }
    let settings = answer(asked("settings"), |text| Some(settings(text)));
    let storage = settings.known().and_then(|settings| settings.accounting_storage.as_deref());
    let keeps_none = matches!(storage, Some("accounting_storage/none" | "(null)" | ""));
    let version_of = |name: &str| version_in(&sections, name);
    Ok(Facts {
        version: answer(asked("version"), version),
        user: answer(asked("user"), |text| {
            text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
        }),
        partitions,
        settings,
        associations: if keeps_none {
            Answer::Known(Vec::new())
        } else {
            answer(asked("associations"), |text| Some(associations(text)))
        },
        accounting: if keeps_none { Answer::Known(false) } else { answer(asked("accounting"), |_| Some(true)) },
        apptainer: version_of("apptainer"),
        singularity: version_of("singularity"),
        enroot: version_of("enroot"),
        pyxis: answer(asked("pyxis"), |text| Some(text.contains("--container-image"))),
        ..Facts::default()
    })
}

pub(super) fn machine(text: &str) -> Result<Facts, ProbeError> {
    let sections = whole(text)?;
    let version_of = |name: &str| version_in(&sections, name);
    Ok(Facts {
        apptainer: version_of("apptainer"),
        singularity: version_of("singularity"),
        podman: version_of("podman"),
        docker: version_of("docker"),
        ..Facts::default()
    })
}

fn version_in(sections: &BTreeMap<&str, Section>, name: &str) -> Answer<Option<String>> {
    match sections.get(name) {
        Some(Section { status: None, .. }) => Answer::Known(None),
        Some(section) => answer(section.answer(), |text| version(text).map(Some)),
        None => Answer::default(),
    }
}

/// All sections of an answer that has not broken off.
fn whole(text: &str) -> Result<BTreeMap<&str, Section>, ProbeError> {
    let sections = sections(text);
    if sections.is_empty() {
        let said = text.chars().take(200).collect();
        return Err(ProbeError::NoAnswer { said });
    }
    if !text.lines().any(|line| line == "@yard-end") {
        return Err(ProbeError::CutOff);
    }
    Ok(sections)
}

fn answer<T>(said: Result<&str, String>, read: impl Fn(&str) -> Option<T>) -> Answer<T> {
    match said.map(read) {
        Ok(Some(value)) => Answer::Known(value),
        Ok(None) => Answer::Unknown("the answer could not be read".to_owned()),
        Err(reason) => Answer::Unknown(reason),
    }
}

/// Texts between the markers; a section that does not end is left out.
fn sections(text: &str) -> BTreeMap<&str, Section> {
    let mut found = BTreeMap::new();
    let mut open: Option<(&str, Vec<&str>)> = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("@yard-probe ") {
            open = Some((name, Vec::new()));
        } else if let Some(name) = line.strip_prefix("@yard-none ") {
            found.insert(name, Section { text: String::new(), status: None });
        } else if let Some((name, status)) = line.strip_prefix("@yard-answer ").and_then(|rest| rest.split_once(' ')) {
            if let Some((_, lines)) = open.take_if(|(opened, _)| *opened == name)
                && let Ok(status) = status.parse()
            {
                found.insert(name, Section { text: lines.join("\n"), status: Some(status) });
            }
        } else if let Some((_, lines)) = &mut open {
            lines.push(line);
        }
    }
    found
}

/// `slurm 22.05.8`, `apptainer version 1.3.4`, `singularity-ce version 4.1`: the first word that begins with a digit.
fn version(text: &str) -> Option<String> {
    let words = text.split_whitespace();
    words
        .map(|word| word.trim_start_matches('v'))
        .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
        .map(str::to_owned)
}

fn partitions(text: &str) -> Vec<Partition> {
    let mut found: Vec<Partition> = Vec::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.trim().splitn(10, '|').collect();
        let [name, up, max, default, count, state, cpus, memory, gres, features] = fields[..] else { continue };
        let is_default = name.ends_with('*');
        let name = name.trim_end_matches('*');
        let nodes = Nodes {
            count: count.parse().unwrap_or(0),
            state: state.to_owned(),
            cpus: leading(cpus),
            memory: leading(memory),
            gpus: gpus(gres),
            features: list(features),
        };
        if let Some(known) = found.iter_mut().find(|partition| partition.name == name) {
            known.nodes.push(nodes);
            continue;
        }
        found.push(Partition {
            name: name.to_owned(),
            is_default,
            is_up: up == "up",
            max_time: span(max),
            default_time: span(default),
            nodes: vec![nodes],
        });
    }
    for partition in &mut found {
        partition.nodes.retain(|nodes| nodes.count > 0);
    }
    found
}

fn span(text: &str) -> Option<Span> {
    match moment::limit(text)? {
        Limit::At(span) => Some(span),
        Limit::Unlimited => None,
    }
}

/// `4`, or `4+` where nodes differ: the number before.
fn leading<T: std::str::FromStr + Default>(text: &str) -> T {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end).0.parse().unwrap_or_default()
}

fn list(text: &str) -> Vec<String> {
    let parts = text.split(',').map(str::trim);
    parts.filter(|part| !part.is_empty() && *part != "(null)").map(str::to_owned).collect()
}

/// `gpu:a100:4(S:0,2),lscratch:100`, `gpu:2`, `(null)`.
fn gpus(text: &str) -> Vec<GpuKind> {
    let mut depth = 0_u32;
    let outside = |c: &char| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    let plain: String = text.chars().filter(outside).collect();
    let gpus = plain.split(',').filter_map(|gres| {
        let parts: Vec<&str> = gres.trim().split(':').collect();
        match parts[..] {
            ["gpu"] => Some((None, "1")),
            ["gpu", count] if count.starts_with(|c: char| c.is_ascii_digit()) => Some((None, count)),
            ["gpu", kind] => Some((Some(kind), "1")),
            ["gpu", kind, .., count] => Some((Some(kind), count)),
            _ => None,
        }
    });
    gpus.map(|(kind, count)| GpuKind { kind: kind.map(str::to_owned), count: leading(count) }).collect()
}

fn settings(text: &str) -> Settings {
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let pairs: BTreeMap<&str, &str> = pairs.map(|(key, value)| (key.trim(), value.trim())).collect();
    let get = |key: &str| pairs.get(key).copied().filter(|value| !["", "(null)", "N/A"].contains(value));
    let seconds = |key: &str| get(key).map(|value| Span::seconds(leading(value)));
    let scheduler = list(get("SchedulerParameters").unwrap_or_default());
    let max_array_tasks = scheduler.iter().find_map(|part| part.strip_prefix("max_array_tasks="));
    Settings {
        cluster: get("ClusterName").map(str::to_owned),
        max_array_size: get("MaxArraySize").and_then(|value| value.parse().ok()),
        max_array_tasks: max_array_tasks.and_then(|value| value.parse().ok()),
        max_job_count: get("MaxJobCount").and_then(|value| value.parse().ok()),
        requeue: get("JobRequeue").map(|value| value != "0"),
        kill_wait: seconds("KillWait"),
        min_job_age: seconds("MinJobAge"),
        accounting_storage: pairs.get("AccountingStorageType").map(|value| (*value).to_owned()),
        enforced: list(get("AccountingStorageEnforce").filter(|value| *value != "none").unwrap_or_default()),
        preempt_mode: get("PreemptMode").map(str::to_owned),
        enforces_limits: get("EnforcePartLimits").map(|value| value != "NO"),
    }
}

fn associations(text: &str) -> Vec<Association> {
    let line = |line: &str| {
        let fields: Vec<&str> = line.trim().split('|').collect();
        let [account, partition, qos, default_qos, max_submit] = fields[..] else { return None };
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Some(Association {
            account: given(account)?,
            partition: given(partition),
            qos: list(qos),
            default_qos: given(default_qos),
            max_submit: max_submit.parse().ok(),
        })
    };
    text.lines().filter_map(line).collect()
}
