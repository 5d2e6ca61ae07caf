"""Runs to a SLURM cluster over loopback ssh, beside `ssh host sbatch script`; many runs at once; a poll of many."""

import os
import pathlib
import re
import sqlite3
import subprocess
import time

from measure import cluster, disk, processes, yard
from measure.record import median, milliseconds

ONE = 1.5
MANY, MOST_CALLS, MOST_SECONDS = 1000, 3, 5.0
KNOWN, MOST_CPU = 10_000, 1.0
NOBODY = ["-c", "user.name=bench", "-c", "user.email=bench@localhost"]
# What `sbatch` and `squeue` are to the controller.
SUBMISSIONS = {"REQUEST_SUBMIT_BATCH_JOB"}
QUESTIONS = {"REQUEST_JOB_INFO", "REQUEST_JOB_USER_INFO", "REQUEST_JOB_INFO_SINGLE"}


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
        # As people have it: a repository of its own, not a folder of ours.
        for words in (["init", "--quiet"], ["add", "."], [*NOBODY, "commit", "--quiet", "--message", "code"]):
            subprocess.run(["git", "-C", self.project, *words], check=True)
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
        for _ in range(self.report.times(40, 3)):
            self.report.sample("ssh host sbatch script, wall s", processes.run(plain, self.env).wall)
            self.report.sample("yard run --detach, wall s", self.yard(*ours).wall)
        theirs = self.report.samples["ssh host sbatch script, wall s"]
        mine = self.report.samples["yard run --detach, wall s"]
        ratio = median([ours / theirs for ours, theirs in zip(mine, theirs)])
        self.report.row("ssh host sbatch script", milliseconds(median(theirs)))
        self.report.row("yard run --detach", milliseconds(median(mine)))
        self.report.limit("one run", f"{ratio:.2f}x", ratio <= ONE, f"≤ {ONE}x of ssh host sbatch, connection kept")

    def many(self):
        handed, asked = self.jobs(), self.requests(SUBMISSIONS)
        finished = self.yard("run", "hold", "--on", "site", "--seeds", f"1-{MANY}", "--detach")
        handed, asked = self.jobs() - handed, self.requests(SUBMISSIONS) - asked
        self.report.sample(f"{MANY} runs, wall s", finished.wall)
        self.report.limit(f"{MANY} runs, sbatch calls", asked, handed <= asked <= MOST_CALLS,
                          f"≤ {MOST_CALLS}, as the controller counts them")
        self.report.limit(f"{MANY} runs", milliseconds(finished.wall), finished.wall <= MOST_SECONDS, f"≤ {MOST_SECONDS} s")

    def ask(self, *words):
        env = {**self.env, "SLURM_CONF": self.site.slurm_conf}
        return subprocess.run(words, env=env, capture_output=True, text=True, check=True).stdout

    def jobs(self):
        """Jobs that SLURM was handed, one number each; tasks of an array have their array's."""
        return len(set(self.ask("squeue", "-h", "-o", "%F").split()))

    def requests(self, kinds):
        """How many of these the controller has had since it began, by its own count."""
        counted = re.findall(r"^\s*(\w+)\s*\(\s*\d+\)\s*count:(\d+)", self.ask("sdiag"), re.MULTILINE)
        return sum(int(count) for kind, count in counted if kind in kinds)

    def poll(self):
        """What the yardmaster uses for one look at everything it knows, and what it asks the controller for that."""
        self.yard("run", "hold", "--on", "site", "--seeds", f"1-{KNOWN - MANY}", "--detach")
        pid = self.yardmaster()
        # The looks right after a submission are hurried.
        self.next_look(self.next_look(None))
        seen, asked = self.next_look(None), self.requests(QUESTIONS)
        start = cpu_of(pid)
        self.next_look(seen)
        spent, asked = cpu_of(pid) - start, self.requests(QUESTIONS) - asked
        self.report.sample(f"a poll of {KNOWN} known runs, cpu s", spent)
        self.report.limit(f"a poll of {KNOWN} known runs, squeue calls", asked, asked == 1, "1, as the controller counts them")
        self.report.limit(f"a poll of {KNOWN} known runs, CPU", milliseconds(spent), spent < MOST_CPU, f"< {MOST_CPU} s")
        self.yard("cancel", "--all")

    def next_look(self, last):
        """When the site answered next."""
        last = last or looks(self.home)
        until = time.monotonic() + 200
        while looks(self.home) == last:
            if time.monotonic() > until:
                raise processes.Failed("the site was not asked")
            time.sleep(0.1)
        return looks(self.home)

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
    with sqlite3.connect(f"file:{home}/ledger.db?mode=ro", uri=True) as ledger:
        return ledger.execute("SELECT seen FROM sites").fetchone()
