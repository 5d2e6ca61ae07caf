"""A thousand runs of `/bin/true`, two at a time, beside programs that do the same with less or more of a record."""

from measure import disk, processes, yard
from measure.peers import PEERS, available
from measure.record import median, milliseconds, per_second

RUNS = 1000
MOST_CPU = 0.005
# How many times the peer's rate.
LEAST = {"xargs -P2": 0.5, "task-spooler": 1.0, "GNU parallel -j2": 2.0, "pueue": 30.0}


class Yard:
    """From nothing: home, ledger, yardmaster and agents are made within the measured time."""

    name, usual = "yard", RUNS

    def __init__(self, program):
        self.program = program

    def run(self, jobs, _env, folder):
        home = yard.Yard(self.program, folder)
        finished = home.run("run", "t", "--seeds", f"1-{jobs}")
        home.check_books(jobs)
        return finished


def measure(report):
    disk.become_calm()
    runners = [Yard(report.program), *(peer for peer in PEERS if available(peer))]
    for peer in PEERS:
        if not available(peer):
            report.note(f"skipped {peer.name}: `{peer.program}` is not installed; `bench/run --install` gets it")
    for repetition in range(report.times(7, 2)):
        disk.probe(report)
        # Another one goes first each time: what one leaves to the disk must not always hit the same next one.
        turn = repetition % len(runners)
        for runner in runners[turn:] + runners[:turn]:
            once(report, runner, report.times(runner.usual, runner.usual // 5))
    disk.judge(report)
    tell(report, [runner.name for runner in runners])


def once(report, runner, jobs):
    with yard.scratch() as folder:
        finished = runner.run(jobs, yard.environment(folder), folder)
        spent = finished.cpu + processes.end_children()
    report.sample(f"{runner.name}, runs/s", jobs / finished.wall)
    report.sample(f"{runner.name}, cpu s/run", spent / jobs)


def tell(report, names):
    report.row("", "rate", "slowest", "fastest", "CPU per run", "yard is")
    ours = report.samples["yard, runs/s"]
    for name in names:
        rates, cpu = report.samples[f"{name}, runs/s"], median(report.samples[f"{name}, cpu s/run"])
        # Neighbours in time are compared, so a slow minute of the machine hits both.
        ratio = median([mine / theirs for mine, theirs in zip(ours, rates)])
        report.row(name, *(per_second(of(rates)) for of in (median, min, max)), milliseconds(cpu), f"{ratio:.2f}x")
        if name == "yard":
            report.limit("CPU per run", milliseconds(cpu), cpu <= MOST_CPU, f"≤ {milliseconds(MOST_CPU)}")
        else:
            report.limit(f"rate beside {name}", f"{ratio:.2f}x", ratio >= LEAST[name], f"≥ {LEAST[name]:g}x")
