"""What a task is, and the pieces that tasks are made of."""

import numpy as np


class Task:
    """`space` maps names to (kind, ...), `when` the conditional ones among them to (name, value they need).

    `play(seed)` gives two functions of the parameters: what a trial observes, and the regret no sampler sees.
    """

    def __init__(self, name, group, space, play, when=None):
        self.name, self.group, self.space, self.play, self.when = name, group, space, play, when or {}
        # All numbers and no conditions: what CMA-ES is made for.
        self.is_continuous = all(kind[0] in ("uniform", "log-uniform") for kind in space.values()) and not when


def exact(truth, best=0.0):
    return lambda _seed: (truth, lambda p: truth(p) - best)


def noisy(draw, regret):
    """`draw` takes the parameters and a generator that belongs to the study."""

    def play(seed):
        rng = np.random.default_rng(seed + 77)
        return (lambda p: draw(p, rng)), regret

    return play


def box(d, low, high):
    return {f"x{i}": ("uniform", low, high) for i in range(d)}


def vector(params):
    return np.array([params[k] for k in sorted(params, key=lambda k: int(k[1:]))])
