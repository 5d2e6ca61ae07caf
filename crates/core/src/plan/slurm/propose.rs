//! What a new target could say, from what its site has told.

use super::facts::{Facts, Partition};

/// Accounts that the user may charge.
pub fn accounts(facts: &Facts) -> Vec<String> {
    let associations = facts.associations.known().map(Vec::as_slice).unwrap_or_default();
    let mut accounts: Vec<String> = associations.iter().map(|one| one.account.clone()).collect();
    accounts.sort_unstable();
    accounts.dedup();
    accounts
}

/// Where a training would go: the site's default if it has GPUs, else the first that has and starts jobs.
pub fn partition(facts: &Facts) -> Option<&Partition> {
    let all = facts.partitions.known()?;
    let default = all.iter().find(|one| one.is_default);
    let with_gpus = |one: &&Partition| one.is_up && gpu_count(one) > 0;
    default.filter(with_gpus).or_else(|| all.iter().find(with_gpus)).or(default).or_else(|| all.first())
}

fn gpu_count(partition: &Partition) -> u32 {
    partition.nodes.iter().map(|nodes| nodes.gpu_count().saturating_mul(nodes.count)).sum()
}

/// How GPUs are asked for there: by type where the partition has several, since SLURM would give any of them; `None`
/// where it has none.
pub fn gpu_request(facts: &Facts, partition: Option<&str>) -> Option<String> {
    let partitions = facts.partitions_for(partition)?;
    let mut kinds: Vec<(Option<&str>, u32)> = Vec::new();
    for nodes in partitions.iter().flat_map(|one| &one.nodes) {
        for gpu in &nodes.gpus {
            let count = gpu.count.saturating_mul(nodes.count);
            match kinds.iter_mut().find(|(kind, _)| *kind == gpu.kind.as_deref()) {
                Some((_, sum)) => *sum = sum.saturating_add(count),
                None => kinds.push((gpu.kind.as_deref(), count)),
            }
        }
    }
    kinds.retain(|(_, count)| *count > 0);
    let most = kinds.iter().max_by_key(|(_, count)| *count)?;
    Some(match (&kinds[..], most.0) {
        ([_], _) | (_, None) => "--gres=gpu:{gpus}".to_owned(),
        (_, Some(kind)) => format!("--gres=gpu:{kind}:{{gpus}}"),
    })
}

/// Why a QOS cannot be had; `None` also where the site could not be asked.
pub fn unknown_qos(facts: &Facts, qos: &str) -> Option<String> {
    let associations = facts.associations.known().filter(|all| !all.is_empty())?;
    let mut known: Vec<&str> = associations.iter().flat_map(|one| &one.qos).map(String::as_str).collect();
    known.sort_unstable();
    known.dedup();
    if known.is_empty() || known.contains(&qos) {
        return None;
    }
    let known: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    Some(format!("you may not use the QOS `{qos}`; yours are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::slurm::facts::{Answer, GpuKind, Nodes};

    type Gpus<'a> = &'a [(Option<&'a str>, u32)];

    fn facts(partitions: &[(&str, Gpus<'_>)]) -> Facts {
        let gpu = |(kind, count): &(Option<&str>, u32)| GpuKind { kind: kind.map(str::to_owned), count: *count };
        let nodes = |gpus: Gpus<'_>| Nodes {
            count: 2,
            state: "idle".to_owned(),
            cpus: 8,
            memory: 1000,
            gpus: gpus.iter().map(gpu).collect(),
            features: Vec::new(),
        };
        let partition = |(place, (name, gpus)): (usize, &(&str, Gpus<'_>))| Partition {
            name: (*name).to_owned(),
            is_default: place == 0,
            is_up: true,
            max_time: None,
            default_time: None,
            nodes: vec![nodes(gpus)],
        };
        let partitions = partitions.iter().enumerate().map(partition).collect();
        Facts { partitions: Answer::Known(partitions), ..Facts::default() }
    }

    #[test]
    fn gpus_are_asked_for_by_type_only_where_there_are_several() {
        let site =
            facts(&[("cpu", &[]), ("one", &[(Some("a100"), 4)]), ("two", &[(Some("a100"), 1), (Some("v100"), 8)])]);
        assert_eq!(gpu_request(&site, Some("cpu")), None);
        assert_eq!(gpu_request(&site, Some("one")).as_deref(), Some("--gres=gpu:{gpus}"));
        assert_eq!(gpu_request(&site, Some("two")).as_deref(), Some("--gres=gpu:v100:{gpus}"));
        assert_eq!(partition(&site).map(|one| one.name.as_str()), Some("one"), "trainings want GPUs");
        assert_eq!(partition(&facts(&[("cpu", &[])])).map(|one| one.name.as_str()), Some("cpu"));
    }
}
