"""Yard's samplers beside the peers': `compare.py PROGRAM OUT [--peers FILE] [--seeds N] [--pairs ...] [--tasks ...]`.

PROGRAM is the example `samplers`, FILE what the peers reached (see peers.py). OUT gets a row for every pair, task and
budget: medians, their ratio, how many seeds each had, and two p-values of a one-sided Mann-Whitney test: that yard is worse,
and that it is more than twice as bad. What OUT has from the same PROGRAM is not measured again, so a run that was interrupted
goes on; rows of another PROGRAM are dropped. N caps the seeds.
"""

import argparse
import contextlib
import hashlib
import json
import signal
import sys
import time
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
# The design, settled before anything is looked at: so many seeds of yard in every cell of a sampler.
SEEDS = {"tpe": 60, "cmaes": 60, "gp": 60, "auto": 20}
# A Gaussian process up to 200 trials takes a hundred times as long as TPE: `auto` is set the tasks of its limit.
ONLY_IN = {"auto": ["seven"]}
# Optuna's GP is measured to 100 trials, and so is ours.
TRIALS = {"gp": 100}
EVERY = 30.0


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


class Progress:
    """A line now and then: how many studies have ended."""

    def __init__(self):
        self.began = self.said = time.monotonic()
        self.ended = self.all = 0

    def follow(self, job):
        self.all += 1
        job.add_done_callback(self.tell)
        return job

    def tell(self, _job):
        self.ended += 1
        now = time.monotonic()
        if now - self.said > EVERY:
            self.said = now
            print(f"{self.ended} of {self.all} studies in {(now - self.began) / 60:.1f} min", file=sys.stderr, flush=True)


def rows(program, record, seeds, pairs, chosen, workers, known):
    """Those that are not `known` with as many seeds on both sides."""
    with contextlib.ExitStack() as stack:
        pool = ProcessPoolExecutor(workers)
        # Who leaves early does not wait for what was not begun.
        stack.callback(pool.shutdown, cancel_futures=True)
        studies, progress = {}, Progress()
        has = lambda pair, task: record.regrets(pair.partition(":")[2], task.name, BUDGETS[0])
        is_due = lambda pair, task: task.group in ONLY_IN.get(pair.partition(":")[0], [task.group])
        count = lambda pair: min(seeds, SEEDS[pair.partition(":")[0]])
        is_known = lambda pair, task: [count(pair), len(has(pair, task))] in [
            row["seeds"] for row in known if (row["pair"], row["task"], row["budget"]) == (pair, task.name, BUDGETS[0])]
        wanted = [(pair, task) for pair in pairs for task in chosen
                  if has(pair, task) and is_due(pair, task) and not is_known(pair, task)]
        for pair, task in wanted:
            ours = pair.partition(":")[0]
            if (ours, task.name) not in studies:
                trials = TRIALS.get(ours, BUDGETS[-1])
                jobs = [pool.submit(study, "yard", ours, task.name, seed, trials, program) for seed in range(count(pair))]
                studies[ours, task.name] = [progress.follow(job) for job in jobs]
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
    parser.add_argument("--seeds", type=int, default=max(SEEDS.values()))
    parser.add_argument("--pairs", type=lambda text: text.split(","), default=PAIRS)
    parser.add_argument("--tasks", type=lambda text: text.split(","))
    parser.add_argument("--workers", type=int, default=2)
    wish = parser.parse_args()
    chosen = [task for task in tasks() if not wish.tasks or task.name in wish.tasks]
    program = hashlib.blake2b(Path(wish.program).read_bytes(), digest_size=8).hexdigest()
    known = json.loads(wish.out.read_text()) if wish.out.exists() else []
    known = [row for row in known if row.get("program") == program]
    found = []
    # Ended from outside, it still keeps what it has.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        for each in rows(wish.program, Record(wish.peers), wish.seeds, wish.pairs, chosen, wish.workers, known):
            print(line(each), flush=True)
            found.append(each | {"program": program})
    finally:
        write(wish.out, known, found)


def write(out, known, found):
    cell = lambda row: (row["pair"], row["task"], row["budget"])
    anew = {cell(row) for row in found}
    kept = [row for row in known if cell(row) not in anew]
    out.write_text("[\n" + ",\n".join(json.dumps(row) for row in kept + found) + "\n]\n")


if __name__ == "__main__":
    main()
