"""A long queue: how fast it is accepted, and whether its length or the ledger's slows down each run."""

import time

from measure import processes, yard
from measure.record import megabytes, median, milliseconds

RUNS = 10_000
STEP = 1_000
MOST_SECONDS = 2.0
# The first quarter has the longest queue, the last the longest ledger. Between them the machine may have had a bad
# moment; a cost that grows with either would double over ten steps.
MOST_DRIFT = 1.25
WIDTH = 40


def measure(report):
    runs, step = report.times((RUNS, STEP), (1000, 100))
    for _ in range(report.times(4, 1)):
        with yard.fresh(report.program) as home:
            accept(report, home, runs)
    with yard.fresh(report.program) as home:
        accept(report, home, runs)
        report.sample("one more behind all, s", home.run("run", "t", "--seeds", "0", "--detach").wall)
        watched = drain(home)
        tell_curve(report, home, step, watched)
        master = home.yardmaster()
        report.note(f"yardmaster afterwards: {megabytes(processes.status_of(master, 'VmRSS'))}, "
                    f"at most {megabytes(processes.status_of(master, 'VmHWM'))}")
    accepted = median(report.samples["accepted, s"])
    later = report.samples["one more behind all, s"][0]
    report.note(f"one more run behind {runs:,} others: accepted in {milliseconds(later)}")
    wanted = MOST_SECONDS * runs / RUNS
    report.limit(f"{runs:,} runs accepted", f"{accepted:.2f} s", accepted < wanted, f"< {wanted:g} s")


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


def tell_curve(report, home, step, watched):
    with home.ledger() as db:
        if db.execute("SELECT count(*) FROM runs WHERE state <> 'succeeded'").fetchone()[0]:
            raise processes.Failed("not all runs succeeded")
        ends = [row[0] / 1000 for row in db.execute("SELECT ended FROM runs ORDER BY ended")]
        began = db.execute("SELECT min(started) FROM runs").fetchone()[0] / 1000
    marks = [began, *ends[step - 1 :: step]]
    rates = [step / (after - before) for before, after in zip(marks, marks[1:])]
    costs = [(cpu_at(watched, after) - cpu_at(watched, before)) / step for before, after in zip(marks, marks[1:])]
    report.row("ended", "rate", "CPU per run", "")
    for number, (rate, cost) in enumerate(zip(rates, costs), 1):
        bar = "#" * round(WIDTH * rate / max(rates))
        report.row(f"{number * step:>6,}", f"{rate:.0f}/s", milliseconds(cost), bar.ljust(WIDTH))
        report.sample("runs/s of each step", rate)
        report.sample("cpu s/run of each step", cost)
    quarter = max(1, len(rates) // 4 + 1)
    drift = median(rates[:quarter]) / median(rates[-quarter:])
    report.limit("rate of the first steps to that of the last", f"{drift:.2f}x", 1 / MOST_DRIFT <= drift <= MOST_DRIFT,
                 f"between {1 / MOST_DRIFT:.2f}x and {MOST_DRIFT}x")


def cpu_at(watched, moment):
    """Between two looks, in proportion."""
    for (before, low), (after, high) in zip(watched, watched[1:]):
        if before <= moment <= after:
            return low + (high - low) * (moment - before) / (after - before)
    return watched[0][1] if moment < watched[0][0] else watched[-1][1]
