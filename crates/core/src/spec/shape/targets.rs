//! `[targets.NAME]`: what each kind of target can be told.

use super::{Bond, COUNT, Key, Kind, LINES, Names, Shape, TableShape, default, optional, required, table};

const GPU_COUNT: Shape = Shape::Integer { least: 0, most: 1024 };
const GPU_DOC: &str = "How many GPUs may be used, or which, as a list of device ids; all of them unless given.";
const CA_DOC: &str = "A file with the certificate authority to trust, for private ones.";

const fn kind(name: &'static str, doc: &'static str, keys: &'static [Key]) -> Kind {
    Kind { name, doc, table: table(keys) }
}

const fn gpus() -> Key {
    let devices = &[GPU_COUNT, Shape::List { of: &Shape::Line, least: 0 }];
    optional("gpus", Shape::Either(devices), GPU_DOC)
}

const fn cpus() -> Key {
    optional("cpus", COUNT, "How many processor cores may be used; all of them unless given.")
}

const fn memory() -> Key {
    optional("memory", Shape::Size, "How much memory may be used; all of it unless given.")
}

const fn depot() -> Key {
    optional("depot", Shape::Line, DEPOT_DOC)
}

const GPU_REQUEST_DOC: &str = "How GPUs are asked for, such as `--gpus=rtx_3090:{total_gpus}`; `{gpus}` are those \
                               of one node, `{gpus_per_task}` those of one process.";
const MAIL_DOC: &str = "What SLURM writes about; `END` and `FAIL` unless given.";
const MAIL_TYPES: &[&str] = &[
    "BEGIN",
    "END",
    "FAIL",
    "REQUEUE",
    "INVALID_DEPEND",
    "STAGE_OUT",
    "TIME_LIMIT",
    "TIME_LIMIT_90",
    "TIME_LIMIT_80",
    "TIME_LIMIT_50",
    "ARRAY_TASKS",
    "ALL",
    "NONE",
];
const DEPOT_DOC: &str = "The folder at the site for code, images and runs.";

const fn setup() -> Key {
    default("setup", Shape::List { of: &Shape::Text, least: 0 }, "[]", "Shell lines that are run before the job.")
}

pub(super) static KINDS: &[Kind] = &[
    kind("local", "This machine.", &[gpus(), cpus(), memory(), depot()]),
    kind(
        "ssh",
        "A machine behind `ssh`.",
        &[
            required("host", Shape::Host, "Any name `ssh` understands, from `ssh_config` too."),
            depot(),
            gpus(),
            cpus(),
            memory(),
            setup(),
            optional(
                "container",
                Shape::Choice(&["docker", "podman", "apptainer", "singularity", "none"]),
                "What runs images there; the first one found unless given.",
            ),
        ],
    ),
    kind(
        "slurm",
        "A SLURM cluster.",
        &[
            optional("host", Shape::Host, "The login node, as `ssh` knows it; this machine unless given."),
            required("depot", Shape::Line, DEPOT_DOC),
            optional("account", Shape::Line, "Who pays: `--account`."),
            optional("partition", Shape::Line, "Where to queue: `--partition`."),
            optional("qos", Shape::Line, "The quality of service: `--qos`."),
            optional("constraint", Shape::Line, "Features the nodes must have: `--constraint`."),
            optional("reservation", Shape::Line, "The reservation to run in: `--reservation`."),
            default("gpu-request", Shape::Line, "\"--gres=gpu:{gpus}\"", GPU_REQUEST_DOC),
            default(
                "memory-request",
                Shape::Choice(&["node", "cpu"]),
                "\"node\"",
                "How a job's memory is asked for: for each node, `--mem`, or shared out over its cores, `--mem-per-cpu`.",
            ),
            optional(
                "container",
                Shape::Choice(&["apptainer", "singularity", "pyxis", "none"]),
                "What runs images there; the first one found unless given.",
            ),
            default("binds", LINES, "[]", "Folders of the site that containers see, such as `/scratch:/scratch:ro`."),
            default(
                "writable",
                Shape::Choice(&["tmpfs", "overlay", "none"]),
                "\"tmpfs\"",
                "What a program may write into its image: into memory, into a layer kept with the run, or nothing.",
            ),
            default(
                "cache",
                LINES,
                "[]",
                "Folders in the container that are kept from run to run, such as `/root/.cache/ov`.",
            ),
            optional(
                "scratch",
                Shape::Line,
                "A folder on the node's own disk to work in, such as `$TMPDIR`; results are brought back from there.",
            ),
            optional(
                "env",
                Shape::Map { of: &Shape::Text, names: Names::Variable },
                "Environment variables that all jobs get there, before `modules` and `setup`.",
            ),
            setup(),
            default("modules", LINES, "[]", "Environment modules that are loaded before the job."),
            default("directives", LINES, "[]", "Further `#SBATCH` options, such as `--exclusive`."),
            optional("mail", Shape::Line, "The address SLURM writes to."),
            optional("mail-type", Shape::List { of: &Shape::Choice(MAIL_TYPES), least: 1 }, MAIL_DOC),
            optional("max-time", Shape::Duration { least: 1 }, "The longest time limit the site allows."),
            optional(
                "resume-by",
                Shape::Choice(&["requeue", "array", "chain"]),
                "How a run goes on with this machine switched off; what the site allows unless given.",
            ),
        ],
    ),
    kind(
        "kubernetes",
        "A Kubernetes cluster.",
        &[
            optional("context", Shape::Line, "The context in the kubeconfig; the current one unless given."),
            optional("namespace", Shape::Line, "The namespace; that of the context unless given."),
            optional("image-pull-secret", Shape::Line, "The name of the cluster's secret for pulling images."),
            depot(),
            optional("queue", Shape::Line, "The Kueue queue that admits the jobs."),
            optional(
                "node-selector",
                Shape::Map { of: &Shape::Text, names: Names::Any },
                "Labels the nodes must have.",
            ),
        ],
    ),
    kind(
        "runai",
        "A Run:ai cluster.",
        &[
            required("url", Shape::Url, "The address of the Run:ai control plane."),
            required("project", Shape::Line, "The Run:ai project that the runs belong to."),
            depot(),
            required("token", Shape::Secret, "Where the access token is found."),
            optional("ca", Shape::Line, CA_DOC),
        ],
    ),
    Kind {
        name: "ray",
        doc: "A Ray cluster.",
        table: TableShape {
            bonds: &[Bond::OneOf(&["address", "clusters"])],
            keys: &[
                optional(
                    "address",
                    Shape::Either(&[Shape::Line, Shape::List { of: &Shape::Line, least: 1 }]),
                    "The address of the dashboard, or several.",
                ),
                optional(
                    "clusters",
                    Shape::Line,
                    "A file with a line `name: NAME address: URL` for each cluster, such as `~/.cluster_config`, instead of `address`.",
                ),
                depot(),
                optional("token", Shape::Secret, "Where the access token is found."),
                optional("ca", Shape::Line, CA_DOC),
                optional("node", Shape::Line, "The only node to run on: its name, address or id."),
                optional(
                    "resources",
                    Shape::Map { of: &Shape::Number, names: Names::Any },
                    "What every run holds of the cluster's own resources, such as `{ disk = 0.5 }`.",
                ),
                default("pip", LINES, "[]", "Python packages that Ray installs for every run."),
                default("py-modules", LINES, "[]", "Addresses of packages that Ray puts on the path of every run."),
                optional(
                    "env",
                    Shape::Map { of: &Shape::Text, names: Names::Variable },
                    "Environment variables that all jobs get there.",
                ),
            ],
        },
    },
];
