"""Samplers beside Optuna's and Rustuna's: the regret they reach on the same tasks, and what a suggestion costs."""

import json
import os
import statistics
import subprocess

from measure import disk, examples, install, processes
from measure.disk import ROOT
from measure.record import RESULTS

HERE = ROOT / "bench" / "samplers"
LEVEL = 0.05
MOST_MILLISECONDS = {("tpe", 100): 0.3, ("tpe", 1_000): 0.6, ("tpe", 10_000): 1.0, ("tpe", 100_000): 1.0,
                     ("gp", 100): 50.0}
# Those whose limit is what Optuna's takes in the same run.
BESIDE_OPTUNA = [("cmaes", 100), ("cmaes", 10_000)]
TIMED = [("tpe", 100), ("tpe", 1_000), ("tpe", 10_000), ("tpe", 100_000), ("cmaes", 100), ("cmaes", 1_000),
         ("cmaes", 10_000), ("gp", 100)]
GP_WITHIN = 2.0
LEAST_TASKS = 5


def measure(report):
    python = install.python(install.COMPARISON + (install.PEERS if report.peers else []))
    program, folder = examples.built("samplers"), disk.folder("samplers")
    latencies(report, python, program, folder)
    peers = HERE / "peers.json"
    if report.peers:
        peers = folder / "peers.json"
        run(python, HERE / "peers.py", peers)
    few = ["--seeds", "3", "--tasks", "branin2,branches,hpobench_car"] if report.quick else []
    # Kept after the end: a run that was interrupted goes on from it.
    compared = folder / "compared.json" if report.quick else ROOT / "target" / "samplers-compared.json"
    run(python, HERE / "compare.py", program, compared, "--peers", peers, *few)
    content = json.loads(peers.read_text())
    versions = ", ".join(f"{name} {version}" for name, version in content["versions"].items())
    report.note(f"peers measured {content['date']}: {versions}")
    rows = json.loads(compared.read_text())
    judge(report, rows)
    if not report.quick:
        report.note("every cell is in samplers-compared.json")
        (RESULTS / "samplers-compared.json").write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")


def run(*argv):
    done = subprocess.run([str(arg) for arg in argv], check=False, env=os.environ | {"OMP_NUM_THREADS": "1"})
    if done.returncode != 0:
        raise processes.Failed(f"{argv[1]} ended with {done.returncode}")


def latencies(report, python, program, folder):
    run(python, HERE / "latency.py", folder / "latency.json", report.times(10_000, 100))
    peers = json.loads((folder / "latency.json").read_text())
    report.row("ms of CPU per suggestion", "history", "yard", "optuna", "rustuna")
    for sampler, length in TIMED:
        ours = suggestion(report, program, sampler, length)
        theirs = [peers.get(f"{peer} {sampler}", {}).get(str(length)) for peer in ("optuna", "rustuna")]
        report.row(sampler, f"{length:,}", f"{ours:.3f}", *("" if ms is None else f"{ms:.3g}" for ms in theirs))
        most = MOST_MILLISECONDS.get((sampler, length))
        if most is not None:
            report.limit(f"{sampler} suggestion, {length:,} trials", f"{ours:.3f} ms", ours <= most, f"<= {most} ms of CPU")
        if (sampler, length) in BESIDE_OPTUNA and theirs[0]:
            ratio = ours / theirs[0]
            report.limit(f"{sampler} suggestion, {length:,} trials", f"{ratio:.2f}x", ratio <= 1, "<= 1x Optuna's CPU")
    report.samples["peers, ms per suggestion"] = peers
    report.row("")


def suggestion(report, program, sampler, length):
    """Median of five; without the time it takes to make the history."""
    repeats = 20 if sampler == "gp" else 300
    cpu = lambda count: processes.run([program, "time", sampler, str(length), str(count)], {}).cpu
    for _ in range(report.times(5, 2)):
        report.sample(f"{sampler} {length}, ms", 1e3 * (cpu(repeats) - cpu(0)) / repeats)
    return statistics.median(report.samples[f"{sampler} {length}, ms"])


def judge(report, rows):
    """Of many cells of equal samplers one in twenty has a p below 5 %. So a family of cells (one sampler, one peer) is judged
    by Benjamini and Hochberg: of what it calls worse, one in twenty is so by chance."""
    mark(rows)
    report.row("compared", "cells", "better", "p < 5 %", "worse", "median ratio")
    for pair in dict.fromkeys(row["pair"] for row in rows):
        cells = [row for row in rows if row["pair"] == pair]
        ratios = [row["ratio"] for row in cells if row["ratio"] is not None]
        low, better = [row for row in cells if row["p_worse"] < LEVEL], [row for row in cells if row["p_worse"] > 1 - LEVEL]
        worse = [row for row in cells if is_worse(row)]
        report.row(pair.replace(":", " : "), len(cells), len(better), len(low), len(worse), f"{statistics.median(ratios):.2f}")
        for row in low:
            seeds = " and ".join(map(str, row["seeds"]))
            report.note(f"{pair}: {row['task']} at {row['budget']}: {row['yard']:.3g} to {row['peer']:.3g}, "
                        f"p = {row['p_worse']:.3f} with {seeds} seeds{', worse' if is_worse(row) else ''}")
    not_worse(report, "tpe", [row for row in rows if row["pair"] == "tpe:optuna tpe"])
    not_worse(report, "cmaes", [row for row in rows if row["pair"] == "cmaes:optuna cmaes" and row["continuous"]])
    within(report, [row for row in rows if row["pair"] == "gp:optuna gp"])
    for budget in (50, 100, 200):
        best_of_all(report, [row for row in rows if row["pair"].startswith("auto:") and row["group"] == "seven"], budget)


def mark(rows):
    for pair in {row["pair"] for row in rows}:
        for chance, verdict in (("p_worse", "worse"), ("p_twice", "twice")):
            cells = sorted((row for row in rows if row["pair"] == pair), key=lambda row: row[chance])
            passed = [rank for rank, row in enumerate(cells, 1) if row[chance] <= LEVEL * rank / len(cells)]
            for rank, row in enumerate(cells, 1):
                row[verdict] = rank <= max(passed, default=0)


def is_worse(row):
    return row["worse"]


def named(rows):
    return ", ".join(f"{row['task']}@{row['budget']}" for row in rows) or "none"


def not_worse(report, sampler, rows):
    worse = [row for row in rows if is_worse(row)]
    report.limit(f"{sampler} no worse than Optuna's", f"worse in {len(worse)} of {len(rows)} cells ({named(worse)})",
                 not worse, f"rank tests, false discoveries at {LEVEL:.0%}")


def within(report, rows):
    """Ten seeds of which some end in another optimum say little about a median: the rank test asks whether it is twice as bad."""
    far = [row for row in rows if row["twice"]]
    largest = max((row for row in rows if row["ratio"] is not None), key=lambda row: row["ratio"])
    report.row("gp : optuna gp", "trials", "yard", "optuna", "ratio", "twice?")
    for row in rows:
        over = row["ratio"] is not None and row["ratio"] > GP_WITHIN
        report.row(f"gp : {row['task']}", row["budget"], f"{row['yard']:.3g}", f"{row['peer']:.3g}",
                   "" if row["ratio"] is None else f"{row['ratio']:.2f}x", f"p = {row['p_twice']:.2f}", "OVER 2x" if over else "")
    report.limit("gp within 2x of Optuna's", f"farther in {len(far)} of {len(rows)} cells ({named(far)}); largest ratio of medians "
                 f"{largest['ratio']:.2f} ({named([largest])}, p = {largest['p_twice']:.2f})", not far, "rank test, 100 trials or fewer")


def best_of_all(report, rows, budget):
    """The best single sampler of Optuna on each task, by its median."""
    cells = [row for row in rows if row["budget"] == budget]
    tasks = list(dict.fromkeys(row["task"] for row in cells))
    best = [min((row for row in cells if row["task"] == task), key=lambda row: row["peer"]) for task in tasks]
    lost = [row for row in best if is_worse(row)]
    kept = len(best) - len(lost)
    report.limit(f"auto as good as the best of Optuna at {budget}", f"{kept} of {len(best)} tasks (not {named(lost)})",
                 kept >= min(LEAST_TASKS, len(best)), f"{LEAST_TASKS} of 7")
