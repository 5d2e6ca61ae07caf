"""From `yard run` to the first line of the program's own output."""

import os
import time

from measure import disk, processes, yard
from measure.record import median, milliseconds, p95

LIMITS = {"yardmaster up, agent idle": 0.050, "yardmaster up": 0.050, "cold": 0.150}
FLOOR = "echo alone"


def measure(report):
    disk.become_calm()
    with yard.fresh(report.program) as home:
        argv = home.argv("run", "hi")
        first_line(argv, home.env)
        for _ in range(report.times(51, 7)):
            disk.probe(report)
            report.sample(FLOOR, first_line(["/bin/echo", "hi"], home.env))
            # The run before has left both.
            report.sample("yardmaster up, agent idle", first_line(argv, home.env))
            send_agents_away(home)
            report.sample("yardmaster up", first_line(argv, home.env))
            end_yardmaster(home)
            report.sample("cold", first_line(argv, home.env))
    report.row("", "median", "p95", "least")
    for name in (FLOOR, *LIMITS):
        samples = report.samples[name]
        report.row(name, *(milliseconds(of(samples)) for of in (median, p95, min)))
    disk.judge(report)
    for name, most in LIMITS.items():
        typical = median(report.samples[name])
        report.limit(f"first line, {name}", milliseconds(typical), typical <= most, f"≤ {milliseconds(most)}")


def first_line(argv, env):
    """Seconds; returns after the command has ended."""
    reader, writer = os.pipe()
    began = time.perf_counter()
    pid = processes.spawn(argv, env, stdout=writer)
    os.close(writer)
    with os.fdopen(reader, "rb", buffering=0) as stream:
        line = stream.read(3)
        seen = time.perf_counter() - began
        stream.read()
    finished = processes.wait(pid, began)
    if line != b"hi\n" or finished.status != 0:
        raise processes.Failed(f"{argv} printed {line!r} and ended with {finished.status}")
    return seen


def send_agents_away(home):
    """A yardmaster that has been idle for some seconds has no agent; nobody waits that long fifty times."""
    master = home.yardmaster()
    for agent in processes.children(master):
        processes.signal_to(agent, processes.signal.SIGTERM)
    wait_until(lambda: not processes.children(master))


def end_yardmaster(home):
    master = home.yardmaster()
    if master is None:
        raise processes.Failed("no yardmaster to end")
    processes.end(master)
    # Its agents leave with it and become our children.
    processes.end_children()


def wait_until(condition):
    deadline = time.monotonic() + processes.PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise processes.Failed("an agent does not leave")
        time.sleep(0.001)
