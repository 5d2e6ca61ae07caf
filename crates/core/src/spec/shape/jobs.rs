//! `[jobs.NAME]`.

use crate::spec::preset::PRESETS;

use super::{Bond, COUNT, Names, Shape, TableShape, default, optional, required, table};

const PACK: Shape = Shape::Integer { least: 1, most: 1000 };
const NODES: Shape = Shape::Integer { least: 1, most: 10_000 };
const ARGUMENTS: Shape = Shape::List { of: &Shape::Text, least: 0 };

pub(super) static JOB: TableShape = TableShape {
    keys: &[
        optional(
            "command",
            Shape::List { of: &Shape::Text, least: 1 },
            "The program and its arguments, each one item; no shell reads them.",
        ),
        optional("shell", Shape::Text, "Lines for `/bin/sh`, instead of `command`."),
        optional(
            "env",
            Shape::Map { of: &Shape::Either(&[Shape::Text, Shape::Secret]), names: Names::Variable },
            "Environment variables: text, or where a secret is found.",
        ),
        optional(
            "params",
            Shape::Map { of: &Shape::Any, names: Names::Any },
            "Parameters that are added to the command; a sweep may set them, and `{total_gpus}` may stand in them.",
        ),
        default(
            "params-style",
            Shape::Choice(&["flags", "hydra", "env", "file"]),
            "\"flags\"",
            "How parameters reach the program: `--lr=0.1`, `agent.lr=0.1`, as environment variables, or in `params-file`.",
        ),
        optional(
            "params-file",
            Shape::Table(&PARAMS_FILE),
            "The file that holds the parameters, with `params-style = \"file\"`.",
        ),
        optional("image", Shape::Line, "The image to run in, by its name in `[images]`; `\"none\"` runs without one."),
        optional("target", Shape::Line, "The target this job runs at unless `--on` says otherwise."),
        default(
            "gpus",
            Shape::Gpus,
            "0",
            "GPUs of one run, on each of its nodes; `0.25` lets four runs share one GPU, on every kind of target.",
        ),
        optional("pack", PACK, "Runs in one allocation where they share a GPU; as many as fill it unless given."),
        default("nodes", NODES, "1", "Machines of one run, on targets that give several."),
        default(
            "tasks",
            Shape::Choice(&["per-node", "per-gpu"]),
            "\"per-node\"",
            "Processes of one run: one on each node, or one for each GPU; each is told its rank.",
        ),
        default("cpus", COUNT, "1", "Processor cores of one run, on each of its nodes."),
        optional("memory", Shape::Size, "Memory of one run, such as `\"32GB\"`, on each of its nodes."),
        optional(
            "node",
            Shape::Line,
            "The only node to run on: its name, or on Ray its address or id; `\"any\"` is any.",
        ),
        optional(
            "resources",
            Shape::Map { of: &Shape::Number, names: Names::Any },
            "What one run holds of a Ray cluster's own resources, such as `{ a100 = 0.01 }`.",
        ),
        optional(
            "per-node",
            PACK,
            "Runs to a node of a Ray cluster: each gets this part of its GPUs, CPUs and memory, instead of `gpus`, \
             `cpus` and `memory`.",
        ),
        optional("time", Shape::Duration { least: 1 }, "How long one attempt may take, such as `\"24h\"`."),
        default(
            "outputs",
            Shape::List { of: &Shape::Output, least: 0 },
            "[]",
            "Folders and files inside the working folder that are results; a run without them has failed.",
        ),
        default(
            "seeds",
            Shape::Seeds,
            "[]",
            "One run for each seed: `[1, 2, 3]` or `\"1-3\"`; `{seed}` in the command.",
        ),
        default(
            "in-place",
            Shape::Bool,
            "false",
            "Runs in the project folder itself instead of a copy; local targets only.",
        ),
        default(
            "copy",
            Shape::Bool,
            "false",
            "Copies all files of a large project for every run instead of laying them under its working folder; for \
             programs that hand that folder to others, as with `docker run -v`.",
        ),
        default(
            "grace",
            Shape::Duration { least: 0 },
            "\"10s\"",
            "How long the program may take to end when it is asked to, before it is killed.",
        ),
        optional("resume", Shape::Table(&RESUME), "When and how a run goes on after an interruption."),
        optional(
            "metrics",
            Shape::Either(&[Shape::Choice(PRESETS), Shape::Table(&METRICS)]),
            "Where the numbers of the training are found: the library that writes them, or the places.",
        ),
    ],
    bonds: &[Bond::OneOf(&["command", "shell"])],
};

static PARAMS_FILE: TableShape = table(&[
    required(
        "template",
        Shape::Output,
        "A file of the project in which `{param.NAME}` stands for a parameter and `{seed}` for the seed.",
    ),
    required("to", Shape::Output, "The file that is made of it in the working folder, before the program starts."),
]);

static RESUME: TableShape = table(&[
    default("attempts", Shape::Integer { least: 1, most: 10_000 }, "3", "Attempts in all, the first included."),
    default(
        "on",
        Shape::List { of: &Shape::Choice(&["time-limit", "preempted", "node-failure", "failed"]), least: 1 },
        "[\"time-limit\", \"preempted\", \"node-failure\"]",
        "What a run is resumed after.",
    ),
    optional(
        "checkpoint",
        Shape::Inside,
        "A glob inside one of `outputs`; the newest file that matches is `{checkpoint}` of the next attempt.",
    ),
    default("args", ARGUMENTS, "[]", "Arguments that are added when there is a checkpoint."),
    optional("warn", Shape::Table(&WARN), "The signal that tells the program to write a checkpoint."),
]);

static WARN: TableShape = table(&[
    required("signal", Shape::Choice(&["USR1", "USR2", "TERM", "INT", "HUP"]), "The signal to send."),
    required("before", Shape::Duration { least: 1 }, "How long before the time limit it is sent."),
]);

static METRICS: TableShape = TableShape {
    keys: &[
        optional(
            "preset",
            Shape::Choice(PRESETS),
            "The library that writes them, or `report` for a program that says them by itself.",
        ),
        optional("tensorboard", Shape::Inside, "A folder of TensorBoard event files."),
        optional("jsonl", Shape::Inside, "A file, or a glob, with one JSON object a line; `step` is the step."),
        optional(
            "csv",
            Shape::Inside,
            "A file, or a glob, with a header line; the step is the column `step`, or one of a like name.",
        ),
        optional(
            "stdout",
            Shape::Pattern,
            "A regular expression over the log; each named group, as in `(?<reward>\\S+)`, is a metric.",
        ),
        optional("headline", Shape::Line, "The metric to show where there is room for one only."),
    ],
    bonds: &[Bond::AnyOf(&["preset", "tensorboard", "jsonl", "csv", "stdout"])],
};
