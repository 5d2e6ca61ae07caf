"""Yard's samplers beside the peers': `compare.py PROGRAM OUT [--peers FILE] [--seeds N] [--pairs ...] [--tasks ...]`.

PROGRAM is the example `samplers`, FILE what the peers reached (see peers.py). OUT gets a row for every pair, task and
budget: medians, their ratio, how many seeds each had, and two p-values of a one-sided Mann-Whitney test: that yard is worse,
and that it is more than twice as bad. Rows of other pairs or tasks that OUT has stay there.
"""

import argparse
import json
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from scipy.stats import mannwhitneyu

from peers import Record
from studies import BUDGETS, study
from tasks import tasks

PAIRS = ["tpe:optuna tpe", "tpe:rustuna tpe", "tpe:optuna group", "cmaes:optuna cmaes", "cmaes:rustuna cmaes", "gp:optuna gp",
         "auto:optuna tpe", "auto:optuna cmaes", "auto:optuna gp"]
LEVEL = 0.05
# A Gaussian process up to 200 trials takes a hundred times as long as TPE: fewer seeds, and not on the tasks held out.
SLOW, FEWER_SEEDS = "auto", 20


def compared(ours, theirs):
    """Medians, their ratio, and how likely yard would look at least as bad if it were not worse."""
    a, b = float(np.median(ours)), float(np.median(theirs))
    return {"yard": a, "peer": b, "ratio": a / b if b > 0 else None, "seeds": [len(ours), len(theirs)],
            "p_worse": chance(ours, theirs), "p_twice": chance(ours, [2 * regret for regret in theirs])}


def chance(ours, theirs):
    """Equal to the last digit shown is equal; without this a tie at zero would be decided by rounding."""
    ours, theirs = ([float(f"{x:.5g}") for x in side] for side in (ours, theirs))
    return float(mannwhitneyu(ours, theirs, alternative="greater").pvalue) if ours != theirs else 0.5


def row(pair, task, budget, ours, theirs):
    found = compared(ours, theirs)
    return {"pair": pair, "task": task.name, "group": task.group, "continuous": task.is_continuous, "budget": budget} | found


def rows(program, record, seeds, pairs, chosen, workers):
    with ProcessPoolExecutor(workers) as pool:
        studies = {}
        has = lambda pair, task: record.regrets(pair.partition(":")[2], task.name, BUDGETS[0])
        is_due = lambda pair, task: task.group != "held out" or pair.partition(":")[0] != SLOW
        wanted = [(pair, task) for pair in pairs for task in chosen if has(pair, task) and is_due(pair, task)]
        for pair, task in wanted:
            ours = pair.partition(":")[0]
            if (ours, task.name) not in studies:
                # Optuna's GP is measured to 100 trials, and so is ours.
                trials = 100 if ours == "gp" else BUDGETS[-1]
                count = min(seeds, FEWER_SEEDS) if ours == SLOW else seeds
                jobs = [pool.submit(study, "yard", ours, task.name, seed, trials, program) for seed in range(count)]
                studies[ours, task.name] = jobs
        for pair, task in wanted:
            ours, _, peer = pair.partition(":")
            curves = [job.result() for job in studies[ours, task.name]]
            for budget in BUDGETS:
                theirs = record.regrets(peer, task.name, budget)
                if theirs and budget in curves[0]:
                    yield row(pair, task, budget, [curve[budget] for curve in curves], theirs)


def line(found):
    mark = "WORSE" if found["p_worse"] < LEVEL else "better" if found["p_worse"] > 1 - LEVEL else ""
    return (f"{found['task']:24} {found['pair']:20} {found['budget']:4} {found['yard']:10.3g} {found['peer']:10.3g} "
            f"{found['p_worse']:7.3f} {mark}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("out", type=Path)
    parser.add_argument("--peers", default=Path(__file__).with_name("peers.json"))
    parser.add_argument("--seeds", type=int, default=60)
    parser.add_argument("--pairs", type=lambda text: text.split(","), default=PAIRS)
    parser.add_argument("--tasks", type=lambda text: text.split(","))
    parser.add_argument("--workers", type=int, default=2)
    wish = parser.parse_args()
    chosen = [task for task in tasks() if not wish.tasks or task.name in wish.tasks]
    known = json.loads(wish.out.read_text()) if wish.out.exists() else []
    found = []
    for each in rows(wish.program, Record(wish.peers), wish.seeds, wish.pairs, chosen, wish.workers):
        print(line(each), flush=True)
        found.append(each)
    cell = lambda row: (row["pair"], row["task"], row["budget"])
    anew = {cell(row) for row in found}
    kept = [row for row in known if cell(row) not in anew]
    wish.out.write_text("[\n" + ",\n".join(json.dumps(row) for row in kept + found) + "\n]\n")


if __name__ == "__main__":
    main()
