"""A long queue: how fast it is accepted, and whether its length or the ledger's slows down each run."""

import time

from measure import disk, processes, yard
from measure.record import megabytes, median, milliseconds

from .idle import MOST_MEMORY

RUNS = 10_000
STEP = 1_000
MOST_SECONDS = 2.0
# The first quarter has the longest queue, the last the longest ledger. Between them the machine may have had a bad
# moment; a cost that grows with either would double over ten steps.
MOST_DRIFT = 1.25
WIDTH = 40


def measure(report):
    disk.become_calm()
    runs, step = report.times((RUNS, STEP), (1000, 100))
    for _ in range(report.times(2, 1)):
        with yard.fresh(report.program) as home:
            accept(report, home, runs)
    curves = []
    for _ in range(report.times(3, 1)):
        disk.probe(report)
        with yard.fresh(report.program) as home:
            accept(report, home, runs)
            report.sample("one more behind all, s", home.run("run", "t", "--seeds", "0", "--detach").wall)
            curves.append(curve(home, step, drain(home)))
            master = home.yardmaster()
            report.sample("yardmaster afterwards, bytes", processes.status_of(master, "VmRSS"))
            report.sample("yardmaster at most, bytes", processes.status_of(master, "VmHWM"))
    disk.judge(report)
    tell(report, runs)
    tell_curve(report, step, curves)


def accept(report, home, runs):
    report.sample("accepted, s", home.run("run", "t", "--seeds", f"1-{runs}", "--detach").wall)


def drain(home):
    """Until nothing is open: (moment, CPU seconds of yardmaster, agents and programs so far)."""
    watched, master = [], home.yardmaster()
    while True:
        watched.append((time.time(), sum(map(processes.ticks_of, processes.tree(master)))))
        if home.count() == 0:
            return watched
        time.sleep(0.25)


def curve(home, step, watched):
    """Rate and CPU seconds per run of each step, by the ends that the ledger has."""
    with home.ledger() as db:
        if db.execute("SELECT count(*) FROM runs WHERE state <> 'succeeded'").fetchone()[0]:
            raise processes.Failed("not all runs succeeded")
        ends = [row[0] / 1000 for row in db.execute("SELECT ended FROM runs ORDER BY ended")]
        began = db.execute("SELECT min(started) FROM runs").fetchone()[0] / 1000
    marks = [began, *ends[step - 1 :: step]]
    spans = list(zip(marks, marks[1:]))
    costs = [(cpu_at(watched, after) - cpu_at(watched, before)) / step for before, after in spans]
    return [step / (after - before) for before, after in spans], costs


def tell(report, runs):
    middle = {name: median(samples) for name, samples in report.samples.items()}
    report.note(f"one more run behind {runs:,} others: accepted in {milliseconds(middle['one more behind all, s'])}")
    memory, peak = middle["yardmaster afterwards, bytes"], middle["yardmaster at most, bytes"]
    report.note(f"yardmaster, at most: {megabytes(peak)}")
    report.limit("yardmaster afterwards", megabytes(memory), memory < MOST_MEMORY, f"< {megabytes(MOST_MEMORY)}")
    wanted = MOST_SECONDS * runs / RUNS
    accepted = middle["accepted, s"]
    report.limit(f"{runs:,} runs accepted", f"{accepted:.2f} s", accepted < wanted, f"< {wanted:g} s")


def tell_curve(report, step, curves):
    for rates, costs in curves:
        report.sample("runs/s of each step", rates)
        report.sample("cpu s/run of each step", costs)
    rates = [median(same) for same in zip(*(rates for rates, _ in curves))]
    costs = [median(same) for same in zip(*(costs for _, costs in curves))]
    report.row("ended", "rate", "CPU per run", "")
    for number, (rate, cost) in enumerate(zip(rates, costs), 1):
        bar = "#" * round(WIDTH * rate / max(rates))
        report.row(f"{number * step:>6,}", f"{rate:.0f}/s", milliseconds(cost), bar.ljust(WIDTH))
    quarter = len(rates) // 4 + 1
    drift = median(rates[:quarter]) / median(rates[-quarter:])
    report.limit("rate of the first steps to that of the last", f"{drift:.2f}x", 1 / MOST_DRIFT <= drift <= MOST_DRIFT,
                 f"between {1 / MOST_DRIFT:.2f}x and {MOST_DRIFT}x")


def cpu_at(watched, moment):
    """Between two looks, in proportion."""
    for (before, low), (after, high) in zip(watched, watched[1:]):
        if before <= moment <= after:
            return low + (high - low) * (moment - before) / (after - before)
    return watched[0][1] if moment < watched[0][0] else watched[-1][1]
