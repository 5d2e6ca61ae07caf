//! `[targets.NAME]`.

use super::shares;
use crate::spec::problem::Problem;
use crate::spec::read::{Choice, FromNode, Reader, Size};
use crate::spec::target::{
    GpuLimit, KubernetesSpec, Limits, RaySpec, RunaiSpec, SlurmSpec, SshSpec, TargetKind, TargetSpec,
};
use crate::spec::tree::{Node, Raw};

pub(super) fn target(name: &str, target: &Reader<'_>) -> Result<TargetSpec, Problem> {
    let kind: String = target.need("kind")?;
    let kind = match kind.as_str() {
        "local" => TargetKind::Local(limits(target)?),
        "ssh" => TargetKind::Ssh(ssh(target)?),
        "slurm" => TargetKind::Slurm(Box::new(slurm(target)?)),
        "kubernetes" => TargetKind::Kubernetes(kubernetes(target)?),
        "runai" => TargetKind::Runai(runai(target)?),
        "ray" => TargetKind::Ray(ray(target)?),
        _ => return Err(target.problem("kind", "unknown kind")),
    };
    Ok(TargetSpec { name: name.to_owned(), depot: target.get("depot")?, kind })
}

fn limits(target: &Reader<'_>) -> Result<Limits, Problem> {
    Ok(Limits {
        gpus: target.get("gpus")?,
        cpus: target.get("cpus")?,
        memory: target.get::<Size>("memory")?.map(|size| size.0),
    })
}

impl FromNode for GpuLimit {
    fn from_node(node: &Node) -> Option<Self> {
        match node.raw {
            Raw::List(_) => Vec::from_node(node).map(Self::Devices),
            _ => u32::from_node(node).map(Self::Count),
        }
    }
}

fn ssh(target: &Reader<'_>) -> Result<SshSpec, Problem> {
    Ok(SshSpec {
        host: target.need("host")?,
        limits: limits(target)?,
        setup: target.need("setup")?,
        container: choice(target, "container")?,
    })
}

fn slurm(target: &Reader<'_>) -> Result<SlurmSpec, Problem> {
    Ok(SlurmSpec {
        host: target.get("host")?,
        account: target.get("account")?,
        partition: target.get("partition")?,
        qos: target.get("qos")?,
        constraint: target.get("constraint")?,
        reservation: target.get("reservation")?,
        gpu_request: target.need("gpu-request")?,
        memory_request: target.need::<Choice<_>>("memory-request")?.0,
        container: choice(target, "container")?,
        binds: target.need("binds")?,
        writable: target.need::<Choice<_>>("writable")?.0,
        cache: target.need("cache")?,
        scratch: target.get("scratch")?,
        env: target.get("env")?.unwrap_or_default(),
        setup: target.need("setup")?,
        modules: target.need("modules")?,
        directives: target.need("directives")?,
        mail: target.get("mail")?,
        mail_type: target.get("mail-type")?.unwrap_or_default(),
        max_time: target.get("max-time")?,
        resume_by: choice(target, "resume-by")?,
    })
}

fn kubernetes(target: &Reader<'_>) -> Result<KubernetesSpec, Problem> {
    Ok(KubernetesSpec {
        context: target.get("context")?,
        namespace: target.get("namespace")?,
        image_pull_secret: target.get("image-pull-secret")?,
        queue: target.get("queue")?,
        node_selector: target.get("node-selector")?.unwrap_or_default(),
    })
}

fn runai(target: &Reader<'_>) -> Result<RunaiSpec, Problem> {
    Ok(RunaiSpec {
        url: target.need("url")?,
        project: target.need("project")?,
        token: target.need("token")?,
        ca: target.get("ca")?,
    })
}

struct Addresses(Vec<String>);

impl FromNode for Addresses {
    fn from_node(node: &Node) -> Option<Self> {
        match &node.raw {
            Raw::Text(text) => Some(Self(vec![text.clone()])),
            _ => Vec::from_node(node).map(Self),
        }
    }
}

fn ray(target: &Reader<'_>) -> Result<RaySpec, Problem> {
    Ok(RaySpec {
        addresses: target.get::<Addresses>("address")?.map(|all| all.0).unwrap_or_default(),
        clusters: target.get("clusters")?,
        token: target.get("token")?,
        ca: target.get("ca")?,
        node: target.get("node")?,
        shares: shares(target)?,
        pip: target.need("pip")?,
        py_modules: target.need("py-modules")?,
        env: target.get("env")?.unwrap_or_default(),
    })
}

fn choice<T: serde::de::DeserializeOwned>(target: &Reader<'_>, key: &str) -> Result<Option<T>, Problem> {
    Ok(target.get::<Choice<T>>(key)?.map(|choice| choice.0))
}
