"""One study: a sampler, ours or a peer's, works on a task; the regret of its incumbent at each budget is kept."""

import json
import os
import subprocess
import warnings

from tasks import named

BUDGETS = [50, 100, 200]


class Incumbent:
    """The configuration with the best observed value, which is what a user would take."""

    def __init__(self, task, seed):
        self.observe, self.regret = task.play(seed)
        self.best, self.found, self.curve = float("inf"), None, {}
        self.trials = 0

    def tell(self, params):
        value = self.observe(params)
        if value < self.best or self.found is None:
            self.best, self.found = min(value, self.best), dict(params)
        self.trials += 1
        if self.trials in BUDGETS:
            self.curve[self.trials] = self.regret(self.found)
        return value


def study(who, sampler, name, seed, trials, program=None):
    """Regrets by budget. `who` is `yard` or a peer."""
    incumbent = Incumbent(named(name), seed)
    {"yard": yard, "optuna": optuna, "rustuna": rustuna}[who](named(name), sampler, seed, trials, incumbent, program)
    return incumbent.curve


def dimension(task, name):
    kind, *rest = task.space[name]
    domain = {kind: rest} if kind in ("choice", "ordinal") else {kind: dict(zip(("low", "high", "step"), rest))}
    when = task.when.get(name)
    return {"domain": domain, "when": when and f"{when[0]} == '{when[1]}'"}


drivers = {}


def driver(program):
    """The process that asks our samplers, kept from study to study."""
    found = drivers.get(program)
    if found is None or found.poll() is not None:
        found = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        drivers[program] = found
    return found


def yard(task, sampler, seed, trials, incumbent, program):
    process = driver(program)

    def exchange(line):
        process.stdin.write(line + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    space = {name: dimension(task, name) for name in task.space}
    params = exchange(json.dumps({"space": space, "sampler": sampler, "trials": trials, "seed": seed}))
    for number in range(trials):
        value = incumbent.tell(params)
        if number + 1 < trials:
            params = exchange(repr(value))


def optuna(task, sampler, seed, trials, incumbent, _program):
    os.environ["OMP_NUM_THREADS"] = "1"
    import optuna

    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    if sampler == "gp":
        import torch

        torch.set_num_threads(1)
    made = {"tpe": optuna.samplers.TPESampler, "cmaes": optuna.samplers.CmaEsSampler, "gp": optuna.samplers.GPSampler,
            "group": lambda seed: optuna.samplers.TPESampler(seed=seed, group=True),
            "random": optuna.samplers.RandomSampler}
    suggest_all(optuna.create_study(sampler=made[sampler](seed=seed)), task, trials, incumbent)


def rustuna(task, sampler, seed, trials, incumbent, _program):
    import rustuna

    made = {"tpe": rustuna.samplers.TPESampler, "cmaes": rustuna.samplers.CmaEsSampler}
    suggest_all(rustuna.create_study(sampler=made[sampler](seed=seed)), task, trials, incumbent)


def suggest_all(study, task, trials, incumbent):
    for _ in range(trials):
        trial, params = study.ask(), {}
        for name, domain in task.space.items():
            when = task.when.get(name)
            if when is None or params[when[0]] == when[1]:
                params[name] = suggest(trial, name, *domain)
        study.tell(trial.number, incumbent.tell(params))


def suggest(trial, name, kind, *rest):
    if kind == "uniform":
        return trial.suggest_float(name, *rest)
    if kind == "log-uniform":
        return trial.suggest_float(name, *rest, log=True)
    if kind == "int":
        return trial.suggest_int(name, *rest)
    if kind == "log-int":
        return trial.suggest_int(name, *rest, log=True)
    if kind == "power-of-two":
        return 2 ** trial.suggest_int(name, rest[0].bit_length() - 1, rest[1].bit_length() - 1)
    if kind == "ordinal":
        return rest[trial.suggest_int(name, 0, len(rest) - 1)]
    return trial.suggest_categorical(name, rest)
