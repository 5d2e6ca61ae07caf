"""Runs to a SLURM cluster over loopback ssh, beside `ssh host sbatch script`; many runs at once; a poll of many."""

import json
import os
import pathlib
import subprocess
import time

from measure import cluster, disk, processes, yard
from measure.record import median, milliseconds

ONE = 1.5
MANY, MOST_CALLS, MOST_SECONDS = 1000, 3, 5.0
KNOWN, MOST_CPU = 10_000, 1.0


def measure(report):
    if not cluster.is_possible():
        report.note("skipped: slurm, munge and openssh-server are not installed")
        return
    with cluster.cluster("MaxJobCount=30000", "MaxArraySize=20001") as site:
        bench = Bench(report, site)
        bench.one()
        bench.many()
        bench.poll()


class Bench:
    def __init__(self, report, site):
        self.report, self.site = report, site
        self.folder = disk.folder("slurm")
        self.home, self.project = self.folder / "home", self.folder / "project"
        self.project.mkdir()
        (self.project / "trainyard.toml").write_text(f"""\
[jobs.hold]
command = ["true"]
memory = "10MB"

[targets.site]
kind = "slurm"
host = "{site.host}"
depot = "{site.home}/depot"
directives = ["--hold"]
""")
        for number in range(20):
            (self.project / f"code{number}.py").write_text(f"print({number})\n" * 50)
        self.env = {**yard.environment(self.folder), "YARD_HOME": str(self.home), "YARD_SSH": " ".join(site.ssh_command)}
        script = "#!/bin/sh\n#SBATCH --hold\n#SBATCH --output=/dev/null\ntrue\n"
        (site.home / "plain.sh").write_text(script)

    def yard(self, *words):
        return processes.run([str(self.report.program), "-C", str(self.project), *words], self.env)

    def one(self):
        """One run, with everything warm on both sides, taking turns."""
        plain = [*self.site.ssh(), "sbatch", "--parsable", f"{self.site.home}/plain.sh"]
        ours = ["run", "hold", "--on", "site", "--detach"]
        for _ in range(3):
            processes.run(plain, self.env)
            self.yard(*ours)
        for _ in range(self.report.times(20, 3)):
            self.report.sample("ssh host sbatch script, wall s", processes.run(plain, self.env).wall)
            self.report.sample("yard run --detach, wall s", self.yard(*ours).wall)
        theirs = self.report.samples["ssh host sbatch script, wall s"]
        mine = self.report.samples["yard run --detach, wall s"]
        ratio = median([ours / theirs for ours, theirs in zip(mine, theirs)])
        self.report.row("ssh host sbatch script", milliseconds(median(theirs)))
        self.report.row("yard run --detach", milliseconds(median(mine)))
        self.report.limit("one run", f"{ratio:.2f}x", ratio <= ONE, f"≤ {ONE}x of ssh host sbatch, connection kept")

    def many(self):
        before = self.calls("sbatch")
        finished = self.yard("run", "hold", "--on", "site", "--seeds", f"1-{MANY}", "--detach")
        calls = self.calls("sbatch") - before
        self.report.sample(f"{MANY} runs, wall s", finished.wall)
        self.report.limit(f"{MANY} runs, sbatch calls", calls, calls <= MOST_CALLS, f"≤ {MOST_CALLS}")
        self.report.limit(f"{MANY} runs", milliseconds(finished.wall), finished.wall <= MOST_SECONDS, f"≤ {MOST_SECONDS} s")

    def calls(self, _command):
        """Jobs that SLURM was handed, one number each; tasks of an array have their array's."""
        env = {**self.env, "SLURM_CONF": self.site.slurm_conf}
        listed = subprocess.run(["squeue", "-h", "-o", "%F"], env=env, capture_output=True, text=True, check=True)
        return len(set(listed.stdout.split()))

    def poll(self):
        """What the yardmaster uses for one look at everything it knows."""
        more = KNOWN - MANY
        self.yard("run", "hold", "--on", "site", "--seeds", f"1-{more}", "--detach")
        pid = self.yardmaster()
        time.sleep(10)
        before, began = cpu_of(pid), looks(self.home)
        until = time.monotonic() + 120
        while looks(self.home) == began and time.monotonic() < until:
            time.sleep(0.2)
        start, first = cpu_of(pid), looks(self.home)
        while looks(self.home) == first and time.monotonic() < until + 200:
            time.sleep(0.2)
        spent = cpu_of(pid) - start
        self.report.sample(f"a poll of {KNOWN} known runs, cpu s", spent)
        self.report.limit(f"a poll of {KNOWN} known runs, CPU", milliseconds(spent), spent < MOST_CPU, f"< {MOST_CPU} s")
        self.yard("cancel", "--all")
        del before

    def yardmaster(self):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
                home = f"YARD_HOME={self.home}".encode() in pathlib.Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if home and words[1:2] == [b"yardmaster"]:
                return name
        raise processes.Failed("there is no yardmaster")


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def looks(home):
    """When the site last answered."""
    import sqlite3
    with sqlite3.connect(f"file:{home}/ledger.db?mode=ro", uri=True) as ledger:
        return ledger.execute("SELECT seen FROM sites").fetchone()
