//! `[sweeps.NAME]`.

use super::{Bond, COUNT, Names, Shape, TableShape, default, optional, required, table};

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
    optional("trials", COUNT, "How many configurations are tried; a finite grid needs no number."),
    default("parallel", COUNT, "1", "How many runs go on at once."),
    default(
        "repeats",
        Shape::Either(&[COUNT, Shape::Choice(&["adaptive"])]),
        "1",
        "Seeds per configuration, or `\"adaptive\"`: more for the promising ones.",
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
]);

static STOP: TableShape = table(&[
    required("scheduler", Shape::Choice(&["none", "median", "asha", "hyperband", "pbt"]), "The rule that ends trials."),
    default(
        "first",
        Shape::Integer { least: 1, most: i64::MAX },
        "1",
        "The number of reports after which a trial is judged for the first time.",
    ),
    default(
        "factor",
        Shape::Integer { least: 2, most: 100 },
        "3",
        "One in this many trials goes on to the next level, which is this many times longer.",
    ),
]);

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
