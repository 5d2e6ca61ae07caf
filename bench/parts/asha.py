"""Training steps until a good configuration is through, beside Ray Tune's ASHA, on learning curves that cross."""

import json
import subprocess

from measure import disk, examples, install, processes
from measure.disk import ROOT
from measure.record import median

HERE = ROOT / "bench" / "asha"
VENV = ROOT / "target" / "bench-ray"
PEER = "ray[tune]==2.60.0"
MOST = 1.1
# A hundred seeds take some minutes on an idle machine.
LONGEST = 3600
MOST_MILLISECONDS = {"decision": 0.1, "importance": 5.0}


def measure(report):
    folder = disk.folder("asha")
    result = folder / "asha.json"
    program = examples.built("asha")
    decisions(report, program)
    # Of an environment of its own: Ray is large.
    command = [install.python([PEER], VENV), HERE / "simulate.py", program, result, "--seeds", report.times(100, 5)]
    done = subprocess.run(processes.bounded(report.times(LONGEST, LONGEST // 6), command), check=False)
    if done.returncode != 0:
        raise processes.Failed(f"the simulation ended with {done.returncode}")
    content = json.loads(result.read_text())
    report.note(f"Ray {content['ray']}; the same curves in the same order, {content['workers']} at a time")
    report.row("", "", "yard stop", "yard pause", "ray", "yard stop / ray")
    for name, found in content["settings"].items():
        report.samples[name] = found
        good = {who: steps["good"] for who, steps in found.items()}
        ratio = sum(good["stop"]) / sum(good["ray"])
        report.row(name, "steps to one of the best hundredth", *(f"{median(steps):,.0f}" for steps in good.values()), f"{ratio:.2f}x")
        report.limit(f"steps, {name}", f"{ratio:.2f}x Ray Tune's", ratio <= MOST, f"<= {MOST}x")
        spent = {who: [all_steps for _, all_steps in steps["best"]] for who, steps in found.items()}
        ratio = sum(spent["stop"]) / sum(spent["ray"])
        report.row("", "steps of a hundred, or to the best of them", *(f"{median(steps):,.0f}" for steps in spent.values()), f"{ratio:.2f}x")
        hits = [sum(hit is not None for hit, _ in steps["best"]) / len(steps["best"]) for steps in found.values()]
        report.row("", "best of a hundred found", *(f"{share:.0%}" for share in hits))


def decisions(report, program):
    """CPU time of one decision among 10,000 trials, and of the importance of ten parameters."""
    report.row("ms of CPU", "", "")
    for line in processes.read([program, "time"], {}).output.decode().splitlines():
        name, spent = line.split("\t")
        most = MOST_MILLISECONDS["importance" if name == "importance" else "decision"]
        report.sample(f"{name}, ms", float(spent))
        report.row("", name, f"{float(spent):.4f}")
        report.limit(f"CPU, {name}", f"{float(spent):.4f} ms", float(spent) <= most, f"<= {most} ms")
    report.row("")
