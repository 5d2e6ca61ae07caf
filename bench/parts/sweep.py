"""Sweeps: trials that do nothing but report a number, beside Ray Tune; opening a large study again; one step of it."""

import json
import tempfile

from measure import disk, examples, processes, yard
from measure.disk import ROOT
from measure.record import median, per_second

TRIALS = 300
RAY = ROOT / "target" / "bench-ray" / "bin" / "python"
# 40 trivial function trials of Ray Tune 2.60 on a quiet machine with two cores took 55.5 s.
RECORDED = 0.72
# Ray starts in seconds where there is room, and in minutes where there is none.
LONGEST = 600
LEAST = 100
STUDY = 10_000
MOST_TO_OPEN = 100.0
# Optuna's TPE alone takes 122 ms there; ours may take 1 ms, and two writes to the disk.
MOST_TO_TURN = 1.0

PROJECT = r"""
[targets.local]
kind = "local"
cpus = 2

[jobs.t]
command = ["/bin/echo"]
metrics = { stdout = 'x=(?<reward>\S+)' }

[sweeps.t]
job = "t"
metric = "reward"
goal = "maximize"
sampler = "tpe"
repeats = 1
parallel = 2
trials = TRIALS

[sweeps.t.space]
x = { uniform = [0.0, 1.0] }
"""

PEER = """
import json, sys, time
import ray
from ray import tune
ray.init(include_dashboard=False, log_to_driver=False)
began = time.time()
tuner = tune.Tuner(
    lambda config: tune.report({"reward": config["x"]}),
    param_space={"x": tune.uniform(0, 1)},
    tune_config=tune.TuneConfig(num_samples=int(sys.argv[1]), max_concurrent_trials=2, metric="reward", mode="max"),
    run_config=tune.RunConfig(storage_path=sys.argv[2], verbose=0),
)
found = tuner.fit()
assert len(found) == int(sys.argv[1]) and not found.num_errors
print("RATE " + json.dumps(len(found) / (time.time() - began)))
"""


def measure(report):
    disk.become_calm()
    for _ in range(report.times(5, 2)):
        disk.probe(report)
        trivial(report, report.times(TRIALS, TRIALS // 3))
    disk.judge(report)
    tell_trials(report, peer(report))
    study(report)


def trivial(report, trials):
    with yard.fresh(report.program) as home:
        (home.project / "trainyard.toml").write_text(PROJECT.replace("TRIALS", str(trials)))
        finished = home.run("sweep", "t")
        with home.ledger() as db:
            created, ended, state = db.execute("SELECT created, ended, state FROM sweeps").fetchone()
            done = db.execute("SELECT count(*) FROM trials WHERE fate LIKE '%done%'").fetchone()[0]
        if (state, done) != ("done", trials):
            raise processes.Failed(f"the sweep is {state} with {done} of {trials} trials")
        home.check_books(trials)
    report.sample("yard, trials/s", trials / ((ended - created) / 1000))
    report.sample("yard, trials/s to the command's end", trials / finished.wall)


def peer(report):
    """Trials per second of Ray Tune, measured if it is here."""
    if not RAY.exists():
        report.note(f"Ray Tune is not in target/bench-ray (`bench/run asha` puts it there): its recorded {RECORDED}/s is taken")
        return RECORDED
    # Ray's sockets are below its temporary folder, and the path of a socket has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp", ignore_cleanup_errors=True) as short, yard.scratch() as folder:
        script = folder / "peer.py"
        script.write_text(PEER)
        argv = processes.bounded(LONGEST, [RAY, script, report.times(40, 10), folder])
        said = processes.read(argv, yard.environment(folder) | {"TMPDIR": short}).output
    rate = json.loads(said.decode().rpartition("RATE ")[2])
    report.sample("Ray Tune, trials/s", rate)
    return rate


def tell_trials(report, ray):
    ours = report.samples["yard, trials/s"]
    report.row("", "median", "slowest", "fastest")
    for name in ("yard, trials/s", "yard, trials/s to the command's end"):
        report.row(name, *(per_second(of(report.samples[name])) for of in (median, min, max)))
    report.row("Ray Tune, trials/s", f"{ray:.2f}/s")
    ratio = median(ours) / ray
    report.limit("trivial trials beside Ray Tune", f"{ratio:.0f}x", ratio >= LEAST, f"≥ {LEAST}x")


def study(report):
    program = examples.built("sweeps", "trainyard-engine")
    for _ in range(report.times(3, 1)):
        said = processes.read([program, str(STUDY), str(disk.folder("study"))], {}).output.decode()
        for line in said.splitlines():
            name, spent = line.split("\t")
            report.sample(f"{name}, ms", float(spent))
    opened, turn, sync = (median(report.samples[f"{name}, ms"]) for name in ("re-open", "tell and ask, durable", "one write and fsync"))
    report.row(f"a study of {STUDY:,} trials, opened again", f"{opened:.1f} ms")
    report.row("the same, CPU", f"{median(report.samples['re-open, CPU, ms']):.1f} ms")
    report.row("tell and ask with TPE, on the disk", f"{turn:.2f} ms")
    report.row("one write and fsync", f"{sync:.2f} ms")
    report.limit(f"opening {STUDY:,} trials", f"{opened:.1f} ms", opened <= MOST_TO_OPEN, f"≤ {MOST_TO_OPEN:g} ms")
    most = MOST_TO_TURN + 2 * sync
    report.limit("tell and ask, durable", f"{turn:.2f} ms", turn <= most, f"≤ {MOST_TO_TURN:g} ms and two fsyncs, {most:.2f} ms")
