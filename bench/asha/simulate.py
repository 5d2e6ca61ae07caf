"""Workers that take configurations from the same list, under yard's scheduler and under Ray Tune's.

`simulate.py PROGRAM RESULT [--seeds 100]`. No training takes place: a step is a point of a curve
`y(t) = a - b * t^-c + noise`, in which quick starters (large c) often end low, so that curves cross. What is counted are
all steps of all configurations until one whose `y(last)` belongs to the best hundredth has been taken to its end; and, of
the first hundred alone, whether and when the very best one is.
"""

import argparse
import heapq
import json
import subprocess
import time
from types import SimpleNamespace

import numpy as np

WORKERS = 8
POOL = 20_000
GOOD = 0.01
FEW = 100
NOISE = 0.02
# first, factor, last
SETTINGS = {"factor 3 to 81": (1, 3, 81), "factor 4 to 100": (1, 4, 100), "factor 3 to 243": (3, 3, 243)}


class Curves:
    """One stream of configurations; both schedulers see the same values."""

    def __init__(self, seed, last):
        rng = np.random.default_rng(seed)
        self.a, self.b = rng.normal(0.5, 0.15, POOL), rng.uniform(0.2, 0.6, POOL)
        # Quick to start and high in the end do not go together.
        self.c = np.clip(rng.uniform(0.2, 1.2, POOL) - 0.8 * (self.a - 0.5), 0.1, 2.0)
        self.noise = np.random.default_rng([seed, 1]).normal(0, NOISE, (POOL, last + 1)).astype(np.float32)
        ends = self.truth(np.arange(POOL), last)
        self.good = set(np.flatnonzero(ends >= np.quantile(ends, 1 - GOOD)).tolist())

    def best_of(self, few, last):
        return int(np.argmax(self.truth(np.arange(few), last)))

    def truth(self, trial, step):
        return self.a[trial] - self.b[trial] * step ** -self.c[trial]

    def seen(self, trial, step):
        return float(self.truth(trial, step) + self.noise[trial, step])


class Yard:
    def __init__(self, program, mode, first, factor, last):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.process.stdin.write(f"{mode} {first} {factor} {last}\n")

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def begin(self, trial):
        self.ask(f"begin {trial}")

    def next_step(self, trial, _now):
        said = self.ask(f"next {trial}")
        return int(said) if said else None

    def judge(self, trial, step, value):
        return self.ask(f"judge {trial} {step} {-value!r}")

    def promote(self, outlook="more"):
        said = self.ask(f"promote {outlook}")
        return int(said) if said else None

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Ray:
    """Ray's own class without a cluster: it wants to know of trials nothing but their names."""

    def __init__(self, _program, _mode, first, factor, last):
        from ray.tune.schedulers import ASHAScheduler

        self.inner = ASHAScheduler(time_attr="step", metric="y", mode="max", max_t=last, grace_period=first, reduction_factor=factor)
        self.steps = [first * factor**level for level in range(64) if first * factor**level < last]
        self.trials = {}

    def begin(self, trial):
        self.trials[trial] = SimpleNamespace(trial_id=str(trial), status="RUNNING")
        self.inner.on_trial_add(None, self.trials[trial])

    def next_step(self, _trial, now):
        """Between these it answers `CONTINUE` without looking at the value."""
        return next((step for step in self.steps if step > now), None)

    def judge(self, trial, step, value):
        return {"CONTINUE": "continue", "STOP": "stop"}[self.inner.on_trial_result(None, self.trials[trial], {"step": step, "y": value})]

    def promote(self, _outlook="more"):
        return None

    def close(self):
        pass


def run(scheduler, curves, last, most, until):
    """Each worker takes the next of `most` configurations, or one that was promoted, and goes on to where it is judged. All
    steps until one of `until` is through; `None` if that never happens."""
    spent, fresh, at = 0, 0, {}
    free, busy = [(0, worker) for worker in range(WORKERS)], []
    while True:
        idle = []
        while free:
            now, worker = heapq.heappop(free)
            trial = scheduler.promote("more" if fresh < most or busy else "last")
            if trial is None and fresh == most:
                idle.append((now, worker))
                continue
            if trial is None:
                trial, fresh = fresh, fresh + 1
                scheduler.begin(trial)
                at[trial] = 0
            heapq.heappush(busy, go_on(scheduler, trial, at[trial], now, last, worker))
        if not busy:
            return None, spent
        free = idle
        now, worker, trial, step = heapq.heappop(busy)
        spent += step - at[trial]
        at[trial] = step
        if step == last and trial in until:
            return spent, spent
        if step < last and scheduler.judge(trial, step, curves.seen(trial, step)) == "continue":
            heapq.heappush(busy, go_on(scheduler, trial, step, now, last, worker))
        else:
            heapq.heappush(free, (now, worker))


def once(program, who, numbers, curves, most, until):
    scheduler = (Ray if who == "ray" else Yard)(program, who, *numbers)
    try:
        return run(scheduler, curves, numbers[-1], most, until)
    finally:
        scheduler.close()


def go_on(scheduler, trial, step, now, last, worker):
    until = scheduler.next_step(trial, step) or last
    return (now + until - step, worker, trial, until)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("result")
    parser.add_argument("--seeds", type=int, default=100)
    args = parser.parse_args()
    import ray

    settings, began = {}, time.monotonic()
    for name, numbers in SETTINGS.items():
        found = settings[name] = {who: {"good": [], "best": []} for who in ("stop", "pause", "ray")}
        for seed in range(args.seeds):
            curves = Curves(seed, numbers[-1])
            for who, steps in found.items():
                steps["good"].append(once(args.program, who, numbers, curves, POOL, curves.good)[0])
                steps["best"].append(once(args.program, who, numbers, curves, FEW, {curves.best_of(FEW, numbers[-1])}))
            if (seed + 1) % 10 == 0 or seed + 1 == args.seeds:
                print(f"{name}: {seed + 1} of {args.seeds} seeds, {time.monotonic() - began:.0f} s", flush=True)
    with open(args.result, "w") as file:
        json.dump({"ray": ray.__version__, "workers": WORKERS, "settings": settings}, file)


if __name__ == "__main__":
    main()
