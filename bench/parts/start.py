"""How long a command takes that has nothing to do, and one that has a long ledger to look at."""

import json
import uuid

from measure import processes, yard
from measure.record import megabytes, median, milliseconds, p95

RUNS = 100_000
SEEDS = 10
FACTOR, MARGIN = 3, 0.020
MOST_MEMORY = 50_000_000


def measure(report):
    with yard.fresh(report.program) as home:
        fill(home, RUNS)
        commands = {
            "/bin/true": ["/bin/true"],
            "yard --version": [home.program, "--version"],
            "yard ps": home.argv("ps"),
        }
        for _ in range(report.times(101, 11)):
            for name, argv in commands.items():
                finished = processes.run(argv, home.env)
                report.sample(f"{name}, wall s", finished.wall)
                report.sample(f"{name}, cpu s", finished.cpu)
        tell(report, commands, home.env)


def tell(report, commands, env):
    report.row("", "median", "p95", "CPU median", "peak memory")
    floor = median(report.samples["/bin/true, wall s"])
    most = FACTOR * floor + MARGIN
    for name, argv in commands.items():
        wall, cpu = report.samples[f"{name}, wall s"], report.samples[f"{name}, cpu s"]
        memory = max(processes.peak_memory(argv, env) for _ in range(5))
        report.sample(f"{name}, peak bytes", memory)
        report.row(name, milliseconds(median(wall)), milliseconds(p95(wall)), milliseconds(median(cpu)), megabytes(memory))
        if name != "/bin/true":
            wanted = f"≤ {FACTOR}x /bin/true + {milliseconds(MARGIN)} = {milliseconds(most)}"
            report.limit(name, milliseconds(median(wall)), median(wall) <= most, wanted)
            report.limit(f"{name}, memory", megabytes(memory), memory < MOST_MEMORY, f"< {megabytes(MOST_MEMORY)}")


def fill(home, runs):
    """A long history: copies of runs that yard itself has written, nine that succeeded to one that failed."""
    home.run("run", "t", "--seeds", "1")
    home.run("run", "bad", "--seeds", "1", check=False)
    processes.end_children()
    with home.ledger() as db:
        good, bad = (Pattern(db, job) for job in ("t", "bad"))
        for first in range(2, runs, SEEDS):
            pattern = bad if first // SEEDS % 10 == 0 else good
            pattern.copy(db, range(first, min(first + SEEDS, runs)))
        db.commit()
    listed = len(home.json("ps", "-a")["runs"])
    if listed != runs:
        raise processes.Failed(f"yard lists {listed} of {runs} runs")


class Pattern:
    """A submission as the ledger holds it, to be written again under other names."""

    def __init__(self, db, job):
        one = lambda sql, *values: dict(db.execute(sql, values).fetchone())
        self.run = one("SELECT * FROM runs WHERE job = ?", job)
        self.batch = one("SELECT * FROM batches WHERE id = ?", self.run["batch"])
        self.attempt = one("SELECT * FROM attempts WHERE run = ?", self.run["seq"])
        self.events = [dict(row) for row in db.execute("SELECT * FROM events WHERE run = ?", (self.run["seq"],))]

    def copy(self, db, numbers):
        batch = insert(db, "batches", self.batch | {"id": None})
        for number in numbers:
            # Version 7 like yard's own: the time first, so neighbours share digits.
            identity = uuid.UUID(int=(self.run["created"] + number) << 80 | 0x7 << 76 | 0x2 << 62 | number).hex
            name = f"{self.run['job']}-s{number}"
            seq = insert(db, "runs", self.run | {"seq": None, "id": identity, "batch": batch, "name": name, "seed": number})
            token = f"yard-{identity}-1"
            result = json.dumps(json.loads(self.attempt["result"]) | {"token": token}, separators=(",", ":"))
            insert(db, "attempts", self.attempt | {"run": seq, "token": token, "result": result})
            for event in self.events:
                insert(db, "events", event | {"run": seq})


def insert(db, table, row):
    columns, marks = ", ".join(row), ", ".join("?" * len(row))
    return db.execute(f"INSERT INTO {table} ({columns}) VALUES ({marks})", list(row.values())).lastrowid
