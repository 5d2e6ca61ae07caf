"""A project to a site, beside rsync over the same kept ssh connection on loopback.

Both start from nothing but the folder: yard's scan of the project counts, with its cache as it was left by the last
upload; before the first upload there is none. The pipe is opened while the project is scanned, as `yard run` does it
where the connection is kept already.
"""

import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time

from measure import disk, processes, sshd, yard
from measure.disk import ROOT
from measure.record import median, megabytes, milliseconds

FILES, BYTES = 10_000, 200_000_000
RSYNC = {"rsync -a": ["-a"], "rsync -az": ["-az"], "rsync --zc=zstd": ["-a", "-z", "--zc=zstd", "--zl=1"]}
FIRST, SAME, TEN = 0.8, 0.5, 0.7
MOST_MEMORY = 200_000_000


def measure(report):
    if not all(map(shutil.which, ("rsync", "ssh", "ssh-keygen"))) or not pathlib.Path("/usr/sbin/sshd").exists():
        report.note("skipped: rsync and openssh-server are not installed")
        return
    disk.become_calm()
    # Short, since sockets lie in it.
    with tempfile.TemporaryDirectory(prefix="y", dir="/tmp") as private, sshd.server(pathlib.Path(private)) as server:
        bench = Bench(report, server)
        for repetition in range(report.times(5, 1)):
            disk.probe(report)
            bench.once(repetition)
        bench.memory()
        disk.judge(report)
        tell(report)


class Bench:
    def __init__(self, report, server):
        self.report, self.server = report, server
        self.folder = disk.folder("upload")
        self.env = yard.environment(self.folder)
        self.sender = sender()
        self.project = self.folder / "project"
        make_project(self.project)
        empty = self.folder / "empty"
        empty.mkdir()
        # Makes the kept connection and, measured apart, brings the agent.
        self.empty = empty
        self.upload(self.folder / "depot-first", empty, self.folder / "cache-empty")

    def once(self, repetition):
        runners = [self.yard, *(self.rsync(name) for name in RSYNC)]
        turn = repetition % len(runners)
        for runner in runners[turn:] + runners[:turn]:
            runner(repetition)

    def upload(self, depot, project, cache=None):
        cache = cache or self.folder / "cache"
        argv = [self.sender, "site", str(depot), str(project), str(cache), str(self.report.program), str(self.server.sockets),
                *self.server.ssh()]
        finished = processes.read(argv, self.env)
        told = json.loads(finished.output)
        told["wall"] = finished.wall
        told["peak"] = finished.peak_memory
        return told

    def memory(self):
        """Apart from the rest, since looking costs time."""
        depot = self.folder / "depot-memory"
        with Watch(str(depot)) as watch:
            peak = self.upload(depot, self.project)["peak"]
        self.report.sample("yard, peak bytes of both ends", peak + watch.peak)

    def yard(self, repetition):
        depot = self.folder / f"depot-{repetition}"
        self.sample("agent", "yard", self.upload(depot, self.empty, self.folder / "cache-empty")["wall"])
        for name in ("cache", "cache.newest"):
            (self.folder / name).unlink(missing_ok=True)
        first = self.upload(depot, self.project)
        if first["files"] != FILES:
            raise processes.Failed(f"{first['files']} files were sent")
        self.sample("first", "yard", first["wall"])
        self.report.sample("yard, bytes on the wire", first["wire"])
        self.sample("same", "yard", self.upload(depot, self.project)["wall"])
        with changed(self.project, repetition):
            ten = self.upload(depot, self.project)
            if ten["files"] != 10:
                raise processes.Failed(f"{ten['files']} changed files were sent")
            self.sample("ten", "yard", ten["wall"])
        other = self.folder / f"other-{repetition}"
        make_other(self.project, other)
        shared = self.upload(depot, other, self.folder / "cache-other")
        self.sample("shared", "yard", shared["wall"])
        self.report.sample("yard, files sent of a project that shares 95 %", shared["files"])
        shutil.rmtree(other)

    def rsync(self, name):
        def once(repetition):
            place = self.folder / f"{name.replace(' ', '')}-{repetition}"
            shell = " ".join(self.server.kept())
            argv = [shutil.which("rsync"), *RSYNC[name], "--delete", "-e", shell, f"{self.project}/", f"site:{place}/"]
            self.sample("first", name, processes.run(argv, self.env).wall)
            self.sample("same", name, processes.run(argv, self.env).wall)
            with changed(self.project, repetition):
                self.sample("ten", name, processes.run(argv, self.env).wall)
        return once

    def sample(self, what, who, seconds):
        self.report.sample(f"{who}, {what}, wall s", seconds)


class Watch:
    """The most memory that the agent of a depot had."""

    def __init__(self, depot):
        self.mark, self.peak, self.ended = depot.encode(), 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()

    def look(self):
        found = None
        while not self.ended.wait(0.02):
            found = found or self.find()
            if found:
                self.peak = max(self.peak, peak_of(found))

    def find(self):
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                words = pathlib.Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[1:3] == [b"agent", b"serve"] and self.mark in words:
                return name
        return None


def peak_of(pid):
    try:
        lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)


def sender():
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    command = ["cargo", "build", "--release", "--quiet", "-p", "trainyard-engine", "--example", "upload"]
    subprocess.run(command, cwd=ROOT, check=True)
    found = [*target.glob("*/release/examples/upload"), *target.glob("release/examples/upload")]
    return str(max(found, key=lambda path: path.stat().st_mtime))


def make_project(folder):
    """Half noise, half text; sizes from 1 kB to 60 kB with the same mean everywhere."""
    chance = random.Random(1)
    words = [bytes(chance.choices(b"abcdefghijklmnopqrstuvwxyz_", k=chance.randint(2, 12))) for _ in range(3000)]
    mean = BYTES // FILES
    for number in range(FILES):
        place = folder / f"package{number // 100}"
        place.mkdir(parents=True, exist_ok=True)
        size = chance.randint(mean // 10, mean * 2 - mean // 10)
        if number % 2:
            content = chance.randbytes(size)
        else:
            content = b" ".join(chance.choices(words, k=size // 6))[:size].ljust(size)
        (place / f"file{number}").write_bytes(content)


class changed:
    """Ten files differ for a while."""

    def __init__(self, project, seed):
        self.files = [project / f"package{number * 7}" / f"file{number * 700}" for number in range(10)]
        self.seed = seed

    def __enter__(self):
        self.old = [file.read_bytes() for file in self.files]
        for number, file in enumerate(self.files):
            file.write_bytes(f"changed {self.seed} {number} {time.time()}".encode() + self.old[number])

    def __exit__(self, *_):
        for file, content in zip(self.files, self.old):
            file.write_bytes(content)


def make_other(project, other):
    """Another project with 95 % of the files of the first."""
    shutil.copytree(project, other, copy_function=os.link)
    for number in range(0, FILES, 20):
        file = other / f"package{number // 100}" / f"file{number}"
        file.unlink()
        file.write_bytes(f"{other} {number}".encode() * 100)


def tell(report):
    names = ["yard", *RSYNC]
    report.row("", "first", "nothing changed", "ten changed")
    times = {}
    for name in names:
        for what in ("first", "same", "ten"):
            times[name, what] = median(report.samples[f"{name}, {what}, wall s"])
        report.row(name, *(milliseconds(times[name, what]) for what in ("first", "same", "ten")))
    for what, most, words in (("first", FIRST, "first upload"), ("same", SAME, "nothing changed"), ("ten", TEN, "ten files changed")):
        best = min(RSYNC, key=lambda name: times[name, what])
        pairs = zip(report.samples[f"yard, {what}, wall s"], report.samples[f"{best}, {what}, wall s"])
        ratio = median([ours / theirs for ours, theirs in pairs])
        report.limit(words, f"{ratio:.2f}x of {best}", ratio <= most, f"≤ {most}x of the best rsync")
    peak = max(report.samples["yard, peak bytes of both ends"])
    report.limit("peak memory of both ends", megabytes(peak), peak < MOST_MEMORY, f"< {megabytes(MOST_MEMORY)}")
    shared = max(report.samples["yard, files sent of a project that shares 95 %"])
    report.limit("files of a project that shares 95 %", shared, shared <= FILES // 20, f"≤ {FILES // 20}")
    report.row("on the wire", megabytes(median(report.samples["yard, bytes on the wire"])))
    report.row("bringing the agent", milliseconds(median(report.samples["yard, agent, wall s"])))
    report.row("95 % shared", milliseconds(median(report.samples["yard, shared, wall s"])))
    report.note("yard with its scan of the project; the agent was there before the first upload")
