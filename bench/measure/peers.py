"""Other programs that run many commands, each doing the same work: `/bin/true`, two at a time."""

import datetime
import json
import os
import shutil
import time

from . import processes, yard

WORK = "/bin/true"
SLOTS = 2


class Xargs:
    """The floor: no queue, no record, nothing but starting programs."""

    name, program, usual = "xargs -P2", "xargs", 1000

    @staticmethod
    def run(jobs, env, _folder):
        return fed(jobs, [shutil.which("xargs"), f"-P{SLOTS}", "-n1", WORK], env)


class Parallel:
    name, program, usual = "GNU parallel -j2", "parallel", 1000

    @staticmethod
    def run(jobs, env, _folder):
        return fed(jobs, [shutil.which("parallel"), f"-j{SLOTS}", WORK], env)


class TaskSpooler:
    """One call for each job, as it is used; its log of each job is kept, as ours is."""

    name, program, usual = "task-spooler", "tsp", 1000

    @staticmethod
    def run(jobs, env, folder):
        env = env | {"TS_SOCKET": str(folder / "tsp.socket"), "TS_MAXFINISHED": str(jobs + 1)}
        # Two at a time and in order: once the last few have ended, all have.
        script = f"""
            tsp -S {SLOTS}
            i=0; while [ $i -lt {jobs} ]; do tsp {WORK}; i=$((i + 1)); done
            i={jobs - 1}; while [ $i -ge {max(0, jobs - 4)} ]; do tsp -w $i; i=$((i - 1)); done"""
        finished = processes.run(["/bin/sh", "-c", script], env)
        listed = processes.read([shutil.which("tsp")], env).output.decode()
        ended = sum(1 for line in listed.splitlines() if line.split()[1:2] == ["finished"])
        if ended != jobs:
            raise processes.Failed(f"task-spooler finished {ended} of {jobs} jobs")
        return finished


class Pueue:
    """Its own daemon, started before the clock. It starts jobs on a tick, so a hundred tell as much as a thousand."""

    name, program, usual = "pueue", "pueue", 100

    @staticmethod
    def run(jobs, env, folder):
        env = env | {"XDG_RUNTIME_DIR": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)}
        daemon = processes.spawn([shutil.which("pueued", path=env["PATH"])], env)
        client = shutil.which("pueue", path=env["PATH"])
        until(lambda: processes.run([client, "status"], env, check=False).status == 0)
        processes.run([client, "parallel", str(SLOTS)], env)
        began = time.time()
        script = f"i=0; while [ $i -lt {jobs} ]; do pueue add {WORK}; i=$((i + 1)); done; pueue wait"
        finished = processes.run(["/bin/sh", "-c", script], env)
        # `pueue wait` looks every two seconds; the tasks know better when they ended.
        finished.wall = ended_last(client, env, jobs) - began
        if daemon not in processes.children(os.getpid()):
            raise processes.Failed("pueued left while it was measured")
        return finished


PEERS = [Xargs, TaskSpooler, Parallel, Pueue]


def available(peer):
    return shutil.which(peer.program, path=yard.environment("/")["PATH"]) is not None


def fed(jobs, argv, env):
    """Runs with the numbers 1 to `jobs` on its standard input."""
    reader, writer = os.pipe()
    # 1,000 numbers fit into a pipe's 64 kB, so nobody has to write while it runs.
    os.write(writer, b"".join(b"%d\n" % number for number in range(1, jobs + 1)))
    os.close(writer)
    try:
        return processes.run(argv, env, stdin=reader)
    finally:
        os.close(reader)


def ended_last(client, env, jobs):
    tasks = json.loads(processes.read([client, "status", "--json"], env).output)["tasks"].values()
    done = [task["status"]["Done"] for task in tasks if "Done" in task["status"]]
    if len(done) != jobs or any(one["result"] != "Success" for one in done):
        raise processes.Failed(f"pueue finished {len(done)} of {jobs} jobs")
    # Nanoseconds, of which Python reads six digits.
    moments = [one["end"][:26] + one["end"][-6:] for one in done]
    return max(datetime.datetime.fromisoformat(moment).timestamp() for moment in moments)


def until(condition):
    deadline = time.monotonic() + processes.PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise processes.Failed("waited in vain")
        time.sleep(0.02)

