//! What the probe already knows can never run. Each is one sentence that says what exists instead.

use crate::plan::slurm::facts::{Facts, Nodes, Partition};
use crate::plan::slurm::fit;
use crate::spec::{Gpus, JobSpec, ResumeReason, SlurmSpec, format_duration};

/// Why no node of the site would ever start this; `None` also where the site could not be asked.
pub fn refuse(job: &JobSpec, target: &SlurmSpec, facts: &Facts) -> Option<String> {
    fit::conflict(job, target).or_else(|| account(target, facts)).or_else(|| {
        let partitions = match partitions(target, facts) {
            Ok(partitions) => partitions?,
            Err(sentence) => return Some(sentence),
        };
        too_long(job, target, facts, &partitions)
            .or_else(|| gpu_kind(job, target, &partitions))
            .or_else(|| no_gpus(job, facts, &partitions))
            .or_else(|| too_large(job, &partitions))
            .or_else(|| feature(target, &partitions))
    })
}

fn account(target: &SlurmSpec, facts: &Facts) -> Option<String> {
    let account = target.account.as_ref()?;
    let associations = facts.associations.known()?;
    let is_enforced = facts.settings.known()?.enforced.iter().any(|what| what == "associations");
    if !is_enforced || associations.iter().any(|one| one.account.eq_ignore_ascii_case(account)) {
        return None;
    }
    let mut own: Vec<&str> = associations.iter().map(|one| one.account.as_str()).collect();
    own.sort_unstable();
    own.dedup();
    Some(match own[..] {
        [] => format!("you have no account there, so `{account}` cannot be charged; ask the site for one"),
        _ => format!("the account `{account}` is not yours; yours are {}", names(&own)),
    })
}

/// `Ok(None)` where nothing is known.
fn partitions<'f>(target: &SlurmSpec, facts: &'f Facts) -> Result<Option<Vec<&'f Partition>>, String> {
    let Some(all) = facts.partitions.known() else { return Ok(None) };
    let exist = || {
        let own: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
        names(&own)
    };
    let named = target.partition.as_deref();
    for name in named.into_iter().flat_map(|names| names.split(',')).map(str::trim) {
        if !all.iter().any(|one| one.name == name) {
            let near = crate::spec::nearest(name, all.iter().map(|one| one.name.as_str()));
            let near = near.map(|near| format!("did you mean `{near}`? ")).unwrap_or_default();
            return Err(format!("there is no partition `{name}`; {near}there are {}", exist()));
        }
    }
    let partitions = facts.partitions_for(named).unwrap_or_default();
    if partitions.is_empty() {
        return Err(format!("the site has no default partition; set `partition` to one of {}", exist()));
    }
    if partitions.iter().all(|one| !one.is_up) {
        let up: Vec<&str> = all.iter().filter(|one| one.is_up).map(|one| one.name.as_str()).collect();
        let name = named.unwrap_or("default");
        return Err(format!("the partition `{name}` starts no jobs at the moment; up are {}", names(&up)));
    }
    Ok(Some(partitions))
}

fn too_long(job: &JobSpec, target: &SlurmSpec, facts: &Facts, partitions: &[&Partition]) -> Option<String> {
    let time = job.time?;
    let allocation = fit::allocation_time(job, target, facts)?;
    let goes_on = job.resume.attempts > 1 && job.resume.on.contains(&ResumeReason::TimeLimit);
    if goes_on || time <= allocation {
        return None;
    }
    let place = match partitions {
        _ if target.max_time.is_some_and(|most| most <= allocation) => "`max-time` of the target".to_owned(),
        [one] => format!("the limit of the partition `{}`", one.name),
        _ => "the limit of these partitions".to_owned(),
    };
    Some(format!(
        "`time` is {}, and {place} is {}; shorten it, or let the run go on in several attempts with \
         `[jobs.{}.resume]`",
        format_duration(time),
        format_duration(allocation),
        job.name
    ))
}

/// `--gpus=rtx_3090:{gpus}`, `--gres=gpu:a100:{gpus}`, `--gpus-per-node=…`: the word before the count.
fn gpu_kind(job: &JobSpec, target: &SlurmSpec, partitions: &[&Partition]) -> Option<String> {
    if job.gpus == Gpus::Whole(0) {
        return None;
    }
    let known: Vec<&str> = kinds(partitions);
    let asked = asked_kind(&target.gpu_request)?;
    if known.is_empty() || known.contains(&asked.as_str()) {
        return None;
    }
    Some(format!("no node there has a GPU of type `{asked}`; there are {}", names(&known)))
}

fn kinds<'f>(partitions: &[&'f Partition]) -> Vec<&'f str> {
    let nodes = partitions.iter().flat_map(|one| &one.nodes);
    let mut kinds: Vec<&str> = nodes.flat_map(|nodes| &nodes.gpus).filter_map(|gpu| gpu.kind.as_deref()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

fn asked_kind(request: &str) -> Option<String> {
    let value = request.split_whitespace().find_map(|word| {
        let (option, value) = word.split_once('=')?;
        ["--gres", "--gpus", "--gpus-per-node", "--gpus-per-task"].contains(&option).then_some(value)
    })?;
    let gres = value.split(',').find(|gres| gres.contains('{'))?;
    let parts: Vec<&str> = gres.strip_prefix("gpu:").unwrap_or(gres).split(':').collect();
    match parts[..] {
        [kind, _count] if !kind.contains('{') => Some(kind.to_owned()),
        _ => None,
    }
}

fn no_gpus(job: &JobSpec, facts: &Facts, partitions: &[&Partition]) -> Option<String> {
    let has_gpus = |one: &&Partition| one.nodes.iter().any(|nodes| nodes.gpu_count() > 0);
    if job.gpus == Gpus::Whole(0) || partitions.iter().any(has_gpus) {
        return None;
    }
    let others: Vec<&str> = facts.partitions.known()?.iter().filter(has_gpus).map(|one| one.name.as_str()).collect();
    Some(match (partitions, &others[..]) {
        (_, []) => "no node of the site has a GPU that SLURM knows of".to_owned(),
        ([one], others) => format!("the partition `{}` has no GPUs; those that have are {}", one.name, names(others)),
        (_, others) => format!("these partitions have no GPUs; those that have are {}", names(others)),
    })
}

fn too_large(job: &JobSpec, partitions: &[&Partition]) -> Option<String> {
    let gpus = match job.gpus {
        Gpus::Whole(gpus) => gpus,
        Gpus::Share(_) => 1,
    };
    let lanes = fit::lanes(job);
    let memory = job.memory.unwrap_or(0).saturating_mul(u64::from(lanes)).div_ceil(1 << 20);
    let most = |of: fn(&Nodes) -> u64| partitions.iter().flat_map(|one| &one.nodes).map(of).max();
    let checks = [
        (u64::from(gpus), most(|nodes| u64::from(nodes.gpu_count())), "GPUs"),
        (u64::from(job.cpus.saturating_mul(lanes)), most(|nodes| u64::from(nodes.cpus)), "cores"),
        (memory, most(|nodes| nodes.memory), "MiB of memory"),
    ];
    for (wanted, most, what) in checks {
        let most = most?;
        if wanted > most {
            return Some(format!("a run wants {wanted} {what} on one node, and the largest node has {most}"));
        }
    }
    let count = partitions.iter().map(|one| one.nodes.iter().map(|nodes| nodes.count).sum::<u32>()).max()?;
    (job.nodes > count).then(|| format!("a run wants {} nodes, and there are {count}", job.nodes))
}

/// One plain feature; expressions such as `a&b` are left to SLURM.
fn feature(target: &SlurmSpec, partitions: &[&Partition]) -> Option<String> {
    let feature = target.constraint.as_deref()?;
    let is_plain = feature.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    let nodes = partitions.iter().flat_map(|one| &one.nodes);
    let mut known: Vec<&str> = nodes.flat_map(|nodes| &nodes.features).map(String::as_str).collect();
    known.sort_unstable();
    known.dedup();
    if !is_plain || known.contains(&feature) {
        return None;
    }
    Some(match known[..] {
        [] => format!("no node there has the feature `{feature}`, nor any other"),
        _ => format!("no node there has the feature `{feature}`; there are {}", names(&known)),
    })
}

fn names(names: &[&str]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
