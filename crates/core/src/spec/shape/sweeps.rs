//! `[sweeps.NAME]`.

use super::{Bond, COUNT, LINES, Names, Shape, TableShape, default, optional, required, table};

pub(super) static SWEEP: TableShape = table(&[
    required("job", Shape::Line, "The job whose parameters are searched."),
    required("metric", Shape::Line, "The metric that says how good a run is."),
    required("goal", Shape::Choice(&["maximize", "minimize"]), "Which way the metric should go."),
    default(
        "sampler",
        Shape::Choice(&["auto", "grid", "random", "sobol", "tpe", "cmaes", "gp"]),
        "\"auto\"",
        "How the next configuration is chosen.",
    ),
    optional("trials", COUNT, "How many configurations are tried; a finite grid and a `budget` need no number."),
    optional("budget", Shape::Table(&BUDGET), "What the sweep may spend; it ends when that is gone."),
    default("parallel", COUNT, "1", "How many runs go on at once."),
    default(
        "repeats",
        Shape::Either(&[COUNT, Shape::Choice(&["adaptive"])]),
        "\"adaptive\"",
        "Seeds per configuration, or `\"adaptive\"`: one while searching, then a race among the best with fresh seeds.",
    ),
    optional(
        "aggregate",
        Shape::Choice(&["mean", "median", "iqm"]),
        "How fixed `repeats` become one number: `mean` unless given, `median`, or the mean of the middle half.",
    ),
    default(
        "value",
        Shape::Choice(&["last", "best", "tail"]),
        "\"tail\"",
        "What counts of a run's course: its last value, its best, or the mean over the last tenth of its steps.",
    ),
    optional("stop", Shape::Table(&STOP), "When poor trials are ended early."),
    default(
        "seed",
        Shape::Integer { least: 0, most: i64::MAX },
        "0",
        "The seed of the search itself; the same seed searches the same way.",
    ),
    required(
        "space",
        Shape::Map { of: &Shape::Table(&DIMENSION), names: Names::Any },
        "What is searched: each parameter and the values it may take.",
    ),
    default("constraints", LINES, "[]", "Conditions on the parameters that every configuration keeps."),
    default(
        "points",
        Shape::List { of: &Shape::Map { of: &Shape::Any, names: Names::Any }, least: 0 },
        "[]",
        "Configurations that are tried first; what one leaves open is drawn.",
    ),
    default(
        "from",
        LINES,
        "[]",
        "Earlier sweeps, by name, and `.csv` or `.json` files of trials, whose results are known from the start.",
    ),
    default(
        "retries",
        Shape::Integer { least: 0, most: 1000 },
        "2",
        "How often a run is made again that was lost to the machine, not to its program.",
    ),
    default("give-up", COUNT, "10", "So many trials that fail one after another end the sweep."),
]);

static BUDGET: TableShape = TableShape {
    keys: &[
        optional("gpu-hours", Shape::Number, "GPUs times hours, of all runs together."),
        optional("time", Shape::Duration { least: 1 }, "How long the sweep may take, such as `\"24h\"`."),
    ],
    bonds: &[Bond::AnyOf(&["gpu-hours", "time"])],
};

static STOP: TableShape = table(&[
    required("scheduler", Shape::Choice(&["none", "median", "asha", "hyperband", "pbt"]), "The rule that ends trials."),
    default(
        "first",
        STEPS,
        "1",
        "The training step, as the metric reports it, at which a trial is judged for the first time.",
    ),
    default(
        "factor",
        Shape::Integer { least: 2, most: 100 },
        "3",
        "One in this many trials goes on to the next level, which has this many times the steps.",
    ),
    optional(
        "mode",
        Shape::Choice(&["stop", "pause"]),
        "What `asha` and `hyperband` do with the others: `stop` unless given, or `pause`, to go on from the checkpoint \
         if the rest is worse.",
    ),
    optional("last", STEPS, "The training step at which a training is complete; `hyperband` needs it."),
    optional(
        "every",
        STEPS,
        "Training steps from one judgement to the next with `median` and `pbt`; as many as `first` unless given.",
    ),
    optional(
        "quantile",
        Shape::Number,
        "With `pbt`, the share at the bottom that goes on from the checkpoints of the same share at the top; 0.25 \
         unless given.",
    ),
    optional(
        "threshold",
        Shape::Number,
        "With `pbt`, by how many standard deviations of the population a leader must be better; 0.1 unless given.",
    ),
    optional("mutate", Shape::Table(&MUTATE), "With `pbt`, how the parameters of a copy differ from the leader's."),
]);

static MUTATE: TableShape = table(&[
    default("rate", Shape::Number, "0.25", "The chance of each parameter to change."),
    default(
        "range",
        Shape::Tuple { of: &Shape::Number, names: &["low", "high"] },
        "[1.1, 2.0]",
        "The range of the factor that a number is multiplied or divided by.",
    ),
]);

const STEPS: Shape = Shape::Integer { least: 1, most: i64::MAX };
const NUMBERS: Shape = Shape::Tuple { of: &Shape::Number, names: &["low", "high"] };
const WHOLES: Shape = Shape::Tuple { of: &WHOLE, names: &["low", "high"] };
const WHOLE: Shape = Shape::Integer { least: i64::MIN, most: i64::MAX };
const VALUES: Shape = Shape::List { of: &Shape::Any, least: 1 };

/// The keys of which each parameter has one.
pub(in crate::spec) const DOMAINS: &[&str] = &[
    "uniform",
    "log-uniform",
    "quantized",
    "int",
    "log-int",
    "power-of-two",
    "choice",
    "ordinal",
    "boolean",
    "fixed",
    "derived",
];

static DIMENSION: TableShape = TableShape {
    keys: &[
        optional("uniform", NUMBERS, "Any number from low to high."),
        optional("log-uniform", NUMBERS, "Any number from low to high, each power of ten equally likely."),
        optional(
            "quantized",
            Shape::Tuple { of: &Shape::Number, names: &["low", "high", "step"] },
            "Numbers from low to high in steps.",
        ),
        optional("int", WHOLES, "Whole numbers from low to high, both included."),
        optional("log-int", WHOLES, "Whole numbers from low to high, each power of ten equally likely."),
        optional(
            "power-of-two",
            Shape::Tuple { of: &Shape::Integer { least: 1, most: 1 << 62 }, names: &["low", "high"] },
            "Powers of two from low to high, both included.",
        ),
        optional("choice", VALUES, "One of these, in no order."),
        optional("ordinal", VALUES, "One of these, in this order, so that neighbours are alike."),
        optional("boolean", Shape::Yes, "`true` or `false`."),
        optional("fixed", Shape::Any, "Always this."),
        optional("derived", Shape::Line, "Computed from the other parameters by this expression."),
        optional("when", Shape::Line, "Searched only where this condition on other parameters holds."),
    ],
    bonds: &[Bond::OneOf(DOMAINS)],
};
