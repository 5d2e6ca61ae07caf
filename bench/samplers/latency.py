"""CPU of one suggestion with a history of N trials: `latency.py OUT MOST`, for Optuna and Rustuna, in memory, N up to MOST.

Ten parameters like those of PPO, the same as in the example `samplers`; CMA-ES without the choices, as it cannot take them.
"""

import json
import random
import statistics
import sys
import time
import warnings
from pathlib import Path

RELU, FIXED = ("relu", "elu", "tanh"), ("fixed", "linear", "adaptive")
LENGTHS = [100, 1_000, 10_000]
LEAST_REPEATS, LONGEST = 5, 2.0


def suggest(trial, choices):
    for name, low, high in [("clip", 0.1, 0.4), ("gamma", 0.9, 0.999), ("lambda", 0.8, 1.0), ("value", 0.1, 4.0)]:
        trial.suggest_float(name, low, high)
    trial.suggest_float("rate", 1e-5, 1e-2, log=True)
    trial.suggest_float("entropy", 1e-6, 1e-1, log=True)
    trial.suggest_int("epochs", 1, 20)
    trial.suggest_int("horizon", 8, 512, log=True)
    if choices:
        trial.suggest_categorical("activation", RELU)
        trial.suggest_categorical("schedule", FIXED)


def milliseconds(module, sampler, length, choices):
    """The history comes from a random sampler; then every ask is told, so that nothing is pending."""
    past = module.create_study(sampler=module.samplers.RandomSampler(seed=1))
    draw = random.Random(1)
    for _ in range(length):
        trial = past.ask()
        suggest(trial, choices)
        past.tell(trial.number, draw.random())
    study = module.create_study(sampler=sampler)
    for trial in past.trials:
        study.add_trial(trial)
    spent, began = [], time.process_time()
    while len(spent) < LEAST_REPEATS or (time.process_time() - began < LONGEST and len(spent) < 50):
        start = time.process_time()
        trial = study.ask()
        suggest(trial, choices)
        spent.append(1e3 * (time.process_time() - start))
        study.tell(trial.number, draw.random())
    return statistics.median(spent)


def peers():
    import optuna
    import rustuna

    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield "optuna tpe", optuna, optuna.samplers.TPESampler, LENGTHS, True
    yield "optuna cmaes", optuna, optuna.samplers.CmaEsSampler, LENGTHS, False
    yield "rustuna tpe", rustuna, rustuna.samplers.TPESampler, LENGTHS, True
    yield "rustuna cmaes", rustuna, rustuna.samplers.CmaEsSampler, LENGTHS, False
    try:
        import torch

        torch.set_num_threads(1)
        yield "optuna gp", optuna, optuna.samplers.GPSampler, LENGTHS[:1], True
    except ImportError:
        return


def main():
    most = int(sys.argv[2])
    found = {name: {length: milliseconds(module, make(seed=1), length, choices) for length in lengths if length <= most}
             for name, module, make, lengths, choices in peers()}
    Path(sys.argv[1]).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
