"""What was measured: a table for people, a file with every sample for later."""

import datetime
import json
import os
import pathlib
import platform
import statistics
import subprocess

from . import processes
from .disk import ROOT

RESULTS = ROOT / "bench" / "results"
MILLI = 1e3


def median(samples):
    return statistics.median(samples)


def p95(samples):
    """The smallest sample that 95 of 100 do not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, -(-95 * len(ordered) // 100) - 1)]


def milliseconds(seconds):
    return f"{seconds * MILLI:.1f} ms"


def megabytes(size):
    return f"{size / 1e6:.1f} MB"


def per_second(rate):
    return f"{rate:.0f}/s" if rate >= 20 else f"{rate:.1f}/s"


class Report:
    """One part, while it is measured and after."""

    def __init__(self, name, program, quick, peers=False):
        self.name, self.program, self.quick, self.peers = name, program, quick, peers
        self.samples, self.rows, self.checks, self.notes = {}, [], [], []
        self.began, self.load = datetime.datetime.now(datetime.UTC), os.getloadavg()[0]

    def times(self, usual, quick):
        return quick if self.quick else usual

    def open(self):
        print(f"\n== {self.name}  (load {self.load:.1f})", flush=True)

    def sample(self, name, value):
        self.samples.setdefault(name, []).append(value)

    def row(self, *cells):
        self.rows.append([str(cell) for cell in cells])

    def note(self, text):
        self.notes.append(text)

    def limit(self, what, measured, kept, wanted):
        """`measured` and `wanted` are texts for people; `kept` is the verdict."""
        self.checks.append({"what": what, "measured": measured, "limit": wanted, "kept": bool(kept)})

    def close(self):
        """Prints, writes, and returns the limits that were missed."""
        print_table(self.rows)
        for note in self.notes:
            print(note)
        for check in self.checks:
            word = "ok    " if check["kept"] else "MISSED"
            print(f"{word}  {check['what']}: {check['measured']} (limit {check['limit']})")
        if not self.quick:
            self.write()
        told = "{what}: {measured} (limit {limit})".format_map
        return [f"{self.name}: {told(check)}" for check in self.checks if not check["kept"]]

    def write(self):
        content = {
            "part": self.name,
            "date": self.began.isoformat(timespec="seconds"),
            "machine": machine() | {"load_before": self.load, "load_after": os.getloadavg()[0]},
            "yard": build(self.program),
            "limits": self.checks,
            "table": self.rows,
            "notes": self.notes,
            "samples": self.samples,
        }
        RESULTS.mkdir(exist_ok=True)
        path = RESULTS / f"{self.name}.json"
        beside = path.with_suffix(".tmp")
        beside.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
        beside.rename(path)


def print_table(rows):
    widths = [max(len(row[at]) for row in rows if at < len(row)) for at in range(max(map(len, rows), default=0))]
    for row in rows:
        padded = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]
        print("  ".join([row[0].ljust(widths[0]), *padded]).rstrip())


def machine():
    model = next((line.partition(":")[2].strip() for line in lines("/proc/cpuinfo") if line.startswith("model name")), "")
    memory = next((int(line.split()[1]) * 1024 for line in lines("/proc/meminfo") if line.startswith("MemTotal")), 0)
    return {"cpu": model, "cores": os.cpu_count(), "memory": memory, "kernel": platform.release()}


def lines(path):
    return pathlib.Path(path).read_text().splitlines()


def build(program):
    version = processes.read([str(program), "--version"], {}).output.decode().strip()
    said = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True, check=False)
    return {"version": version, "tree": said.stdout.strip(), "bytes": program.stat().st_size}
