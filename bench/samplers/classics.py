"""Well-known test functions where they are usually tried, and some with mixed parameters, whose optimum is known."""

import math

import numpy as np

from task import Task, box, exact, vector


def levy(p):
    w = 1 + (vector(p) - 1) / 4
    ends = math.sin(math.pi * w[0]) ** 2 + (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return float(ends + ((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(math.pi * w[:-1] + 1) ** 2)).sum())


def griewank(p):
    x = vector(p)
    return float((x * x).sum() / 4000 - np.cos(x / np.sqrt(np.arange(1, len(x) + 1))).prod() + 1)


def styblinski(p):
    x = vector(p)
    return float((x**4 - 16 * x * x + 5 * x).sum() / 2)


def michalewicz(p):
    x = vector(p)
    return float(-(np.sin(x) * np.sin(np.arange(1, len(x) + 1) * x * x / math.pi) ** 20).sum())


def camel(p):
    x, y = vector(p)
    return float((4 - 2.1 * x * x + x**4 / 3) * x * x + x * y + (4 * y * y - 4) * y * y)


def goldstein(p):
    x, y = vector(p)
    a = 1 + (x + y + 1) ** 2 * (19 - 14 * x + 3 * x * x - 14 * y + 6 * x * y + 3 * y * y)
    return float(a * (30 + (2 * x - 3 * y) ** 2 * (18 - 32 * x + 12 * x * x + 48 * y - 36 * x * y + 27 * y * y)))


def schwefel(p):
    x = vector(p)
    return float(418.9828872724338 * len(x) - (x * np.sin(np.sqrt(np.abs(x)))).sum())


SHEKEL = np.array([[4, 4, 4, 4], [1, 1, 1, 1], [8, 8, 8, 8], [6, 6, 6, 6], [3, 7, 3, 7], [2, 9, 2, 9], [5, 3, 5, 3], [8, 1, 8, 1],
                   [6, 2, 6, 2], [7, 3.6, 7, 3.6]])
SHEKEL_WIDTHS = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10


def shekel(p):
    return float(-(1 / (((vector(p) - SHEKEL) ** 2).sum(1) + SHEKEL_WIDTHS)).sum())


def rastrigin(p):
    x = vector(p)
    return float(10 * len(x) + (x * x - 10 * np.cos(2 * math.pi * x)).sum())


def zakharov(p):
    x = vector(p)
    slope = float((np.arange(1, len(x) + 1) * x).sum() / 2)
    return float((x * x).sum()) + slope**2 + slope**4


def dixon_price(p):
    x = vector(p)
    return float((x[0] - 1) ** 2 + (np.arange(2, len(x) + 1) * (2 * x[1:] ** 2 - x[:-1]) ** 2).sum())


BOOSTING = {
    "rate": ("log-uniform", 1e-3, 1.0), "trees": ("log-int", 10, 2000), "depth": ("int", 1, 12), "rows": ("uniform", 0.3, 1.0),
    "penalty": ("log-uniform", 1e-4, 1e2), "bins": ("power-of-two", 16, 512), "grow": ("choice", "level", "leaf"),
    "booster": ("choice", "tree", "dart", "linear"),
}


def boosting(p):
    """Rate and number of trees make up for each other; what depth is good depends on how a tree grows."""
    steps = math.log10(p["rate"] * p["trees"]) - 1.3
    depth = (p["depth"] - {"level": 6, "leaf": 9}[p["grow"]]) / 4
    smooth = steps**2 + 0.3 * (math.log10(p["rate"]) + 1.5) ** 2 + 0.5 * depth**2 + 2 * (p["rows"] - 0.8) ** 2
    rest = 0.05 * (math.log10(p["penalty"]) - 0.5 * depth) ** 2 + 0.02 * (math.log2(p["bins"]) - 7) ** 2
    return smooth + rest + {"tree": 0.0, "dart": 0.05, "linear": 0.5}[p["booster"]] + (0.03 if p["grow"] == "leaf" else 0.0)


PATTERN = "bcebdcac"
CHOICES = {f"x{i}": ("choice", *"abcde"[: 3 + i % 3]) for i in range(8)}


def choices(p):
    """Each right choice counts, and a right one after a right one counts again."""
    hits = [p[f"x{i}"] == right for i, right in enumerate(PATTERN)]
    return float(14.3 - sum((1 + 0.1 * i) * hit for i, hit in enumerate(hits)) - 0.5 * sum(a and b for a, b in zip(hits, hits[1:])))


def mixed_ackley_space():
    return {"x0": ("uniform", -3.0, 3.0), "x1": ("uniform", -3.0, 3.0), "x2": ("int", -6, 6), "x3": ("int", -6, 6),
            "x4": ("choice", "far", "near", "there"), "x5": ("choice", "there", "near", "far")}


def mixed_ackley(p):
    steps = {"there": 0.0, "near": 1.0, "far": 2.0}
    x = np.array([p["x0"] - 0.7, p["x1"] + 1.3, (p["x2"] - 2) / 2, (p["x3"] + 3) / 2, steps[p["x4"]], steps[p["x5"]]])
    return float(-20 * math.exp(-0.2 * math.sqrt((x * x).mean())) - math.exp(np.cos(2 * math.pi * x).mean()) + 20 + math.e)


def classics():
    plane = {"x0": ("uniform", -3.0, 3.0), "x1": ("uniform", -2.0, 2.0)}
    return [
        Task("levy4", "held out", box(4, -10.0, 10.0), exact(levy)),
        Task("griewank6", "held out", box(6, -600.0, 600.0), exact(griewank)),
        Task("styblinski5", "held out", box(5, -5.0, 5.0), exact(styblinski, 5 * -39.16616570377142)),
        Task("michalewicz5", "held out", box(5, 0.0, math.pi), exact(michalewicz, -4.687658179)),
        Task("camel2", "held out", plane, exact(camel, -1.0316284534898774)),
        Task("goldstein2", "held out", box(2, -2.0, 2.0), exact(goldstein, 3.0)),
        Task("schwefel4", "held out", box(4, -500.0, 500.0), exact(schwefel)),
        Task("shekel4", "held out", box(4, 0.0, 10.0), exact(shekel, -10.536443153483534)),
        Task("rastrigin4", "held out", box(4, -5.12, 5.12), exact(rastrigin)),
        Task("zakharov6", "held out", box(6, -5.0, 10.0), exact(zakharov)),
        Task("dixon_price5", "held out", box(5, -10.0, 10.0), exact(dixon_price)),
        Task("boosting", "held out", BOOSTING, exact(boosting)),
        Task("choices8", "held out", CHOICES, exact(choices)),
        Task("mixed_ackley6", "held out", mixed_ackley_space(), exact(mixed_ackley)),
    ]
