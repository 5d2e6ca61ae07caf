"""What the yardmaster costs while there is nothing to do."""

import time

from measure import processes, yard
from measure.record import megabytes, milliseconds

MOST_MEMORY = 20_000_000
# A thousandth of one core; nobody's battery notices less.
MOST_CPU = 0.001


def measure(report):
    watched = report.times(10.0, 2.0)
    report.row("after", "memory", "peak", f"CPU in {watched:.0f} s", "wake-ups", "agents")
    with yard.fresh(report.program) as home:
        for name, seeds in (("1 run", "1"), ("1,000 runs", "1-1000")):
            home.run("run", "t", "--seeds", seeds)
            look(report, name, home, watched)


def look(report, name, home, watched):
    master = home.yardmaster()
    if master is None:
        raise processes.Failed("no yardmaster to look at")
    # Agents are kept for five seconds; with them gone it is truly idle.
    deadline = time.monotonic() + 15
    while processes.children(master) and time.monotonic() < deadline:
        time.sleep(0.1)
    cpu, woken = processes.scheduled(master), processes.status_of(master, "voluntary_ctxt_switches")
    time.sleep(watched)
    cpu = processes.scheduled(master) - cpu
    woken = processes.status_of(master, "voluntary_ctxt_switches") - woken
    memory, peak = processes.status_of(master, "VmRSS"), processes.status_of(master, "VmHWM")
    agents = len(processes.children(master))
    for key, value in (("bytes", memory), ("peak bytes", peak), ("cpu s", cpu), ("wake-ups", woken)):
        report.sample(f"after {name}, {key}", value)
    report.row(name, megabytes(memory), megabytes(peak), milliseconds(cpu), woken, agents)
    report.limit(f"memory after {name}", megabytes(memory), memory < MOST_MEMORY, f"< {megabytes(MOST_MEMORY)}")
    share, most = cpu / watched, MOST_CPU
    report.limit(f"CPU after {name}", f"{share:.3%} of a core", share < most, f"< {most:.1%}")
