"""TensorBoard event files, beside TensorBoard's own two readers, and a long log that a run's agent follows."""

import os
import pathlib
import re
import signal
import subprocess
import time

from measure import disk, install, processes, yard
from measure.disk import MEMORY, ROOT
from measure.record import median, megabytes

TAGS = 20
STEPS, SAMPLE = 130_000, 13_000
OVER_PYTHON, OVER_SERVER = 200, 4
MOST_PER_POINT = 25
LOG = 500_000_000
MOST_AGENT = 30_000_000

# The Python reader needs minutes for what the others read in a second: it gets a tenth of the file.
ACCUMULATE = """
import sys, time
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
reader = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
began = time.process_time()
reader.Reload()
spent = time.process_time() - began
print(spent, sum(len(reader.Scalars(tag)) for tag in reader.Tags()["scalars"]))
"""

WRITE = """
line = '{"step": %d, "reward": 1.5, "text": "' + "x" * 960 + '"}\\n'
with open("metrics.jsonl", "w") as out:
    for step in range(500_000):
        out.write(line % step)
"""


def measure(report):
    speed = built()
    # In memory where there is some: what is measured is reading, not the disk.
    folder = pathlib.Path(MEMORY if MEMORY.exists() else disk.folder("events")) / f"yard-bench-{os.getpid()}"
    try:
        files(report, speed, folder)
    finally:
        subprocess.run(["rm", "-rf", str(folder)], check=True)
    long_log(report)


def files(report, speed, folder):
    env = yard.environment(folder)
    whole, sample = folder / "whole", folder / "sample"
    processes.run([speed, "write", str(whole), str(report.times(STEPS, SAMPLE))], env)
    processes.run([speed, "write", str(sample), str(report.times(SAMPLE, SAMPLE // 10))], env)
    peers = install.PYTHON.exists()
    for repetition in range(report.times(5, 1)):
        readers = [ours] + ([server] if peers else [])
        for reader in readers[repetition % len(readers):] + readers[: repetition % len(readers)]:
            reader(report, speed, whole, env)
        if peers and repetition < report.times(3, 1):
            python(report, sample, env)
    tell(report, peers)
    once = processes.peak_memory([speed, "read", str(whole), "1"], env)
    least = processes.peak_memory([speed, "read", str(folder / "nothing"), "1"], env)
    points = TAGS * report.times(STEPS, SAMPLE)
    each = (once - least) / points
    report.sample("bytes per point", each)
    report.limit("memory of the process, per point", f"{each:.1f} bytes", each <= MOST_PER_POINT, f"{MOST_PER_POINT} bytes")
    grown = processes.read([speed, "follow", str(whole)], env).output.decode()
    read, there = map(int, re.search(r"(\d+) bytes read of (\d+) in the file", grown).groups())
    # The first record of a file is read before the clock.
    report.row("following a file", grown.strip())
    report.limit("bytes read of a file that grew", f"{read:,} of {there:,}", read <= there, "no more than it has")


def ours(report, speed, folder, env):
    said = processes.read([speed, "read", str(folder), "1"], env).output.decode()
    report.sample("yard, MB per processor second", float(re.search(r"(\d+) MB per processor second", said)[1]))


def server(report, _, folder, env):
    """Loads once and goes on serving; its log says when it has loaded."""
    find = "import tensorboard_data_server as server; print(server.server_binary())"
    program = processes.read([str(install.PYTHON), "-c", find], env).output.decode().strip()
    argv = [program, "--logdir", str(folder), "--port", "0", "--reload", "once", "--checksum", "-v", "-v"]
    with subprocess.Popen(argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as child:
        loaded = any("Finished load cycle" in line for line in child.stderr)
        ticks = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()
        spent = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
        child.send_signal(signal.SIGKILL)
        child.stderr.read()
    if not loaded:
        raise processes.Failed("the data server ended before it had loaded")
    report.sample("data server, MB per processor second", size(folder) / 1e6 / spent)


def python(report, folder, env):
    said = processes.read([str(install.PYTHON), "-c", ACCUMULATE, str(folder)], env).output.decode()
    report.sample("EventAccumulator, MB per processor second", size(folder) / 1e6 / float(said.split()[0]))


def size(folder):
    return sum(path.stat().st_size for path in folder.iterdir())


def tell(report, peers):
    for name, samples in report.samples.items():
        report.row(name, f"{median(samples):.1f}")
    if not peers:
        report.note("TensorBoard is not installed (`bench/run --install events`): nothing to compare with")
        return
    rate = median(report.samples["yard, MB per processor second"])
    for name, least in (("EventAccumulator", OVER_PYTHON), ("data server", OVER_SERVER)):
        times = rate / median(report.samples[f"{name}, MB per processor second"])
        report.limit(f"yard over {name}", f"{times:.1f} x", times >= least, f"{least} x")


def long_log(report):
    """The agent of a run whose program writes half a gigabyte of metrics."""
    with yard.scratch() as scratch:
        env = yard.environment(scratch)
        project = scratch / "project"
        project.mkdir()
        (project / "write.py").write_text(WRITE if not report.quick else WRITE.replace("500_000", "20_000"))
        (project / "trainyard.toml").write_text('[jobs.long]\ncommand = ["python3", "write.py"]\nmetrics.jsonl = "metrics.jsonl"\n')
        env |= {"YARD_HOME": str(scratch / "home")}
        began = time.perf_counter()
        processes.run([str(report.program), "-C", str(project), "run", "long"], env)
        took = time.perf_counter() - began
        peaks = [peak(pid) for pid in agents(scratch / "home")]
    report.row("a run that writes 500 MB of JSON lines", f"{took:.1f} s", f"agent {megabytes(max(peaks, default=0))}")
    report.sample("agent's peak memory", max(peaks, default=0))
    report.limit("memory of the agent", megabytes(max(peaks, default=0)), 0 < max(peaks, default=0) <= MOST_AGENT, megabytes(MOST_AGENT))


def agents(home):
    """Agents of this yard that still wait for work."""
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            theirs = (entry / "environ").read_bytes() if b"lane" in words else b""
        except OSError:
            continue
        if str(home).encode() in theirs:
            yield int(entry.name)


def peak(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def built():
    subprocess.run(["cargo", "build", "--release", "-q", "-p", "trainyard-tfevents", "--example", "speed"], cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = [*target.glob("*/release/examples/speed"), *target.glob("release/examples/speed")]
    return str(max(found, key=lambda path: path.stat().st_mtime))
