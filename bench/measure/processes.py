"""Processes and what they cost.

This process is a subreaper: a daemon that a measured command leaves behind becomes our child. So its whole cost comes
out of `wait4`, exact where /proc counts in ticks of 10 ms, and nothing we started can be left over.
"""

import contextlib
import ctypes
import dataclasses
import glob
import os
import pathlib
import signal
import time

PR_SET_CHILD_SUBREAPER = 36
PATIENCE = 10.0


@dataclasses.dataclass
class Finished:
    """A command that ended."""

    wall: float
    cpu: float
    peak_memory: int
    status: int
    output: bytes = b""


class Failed(Exception):
    """A measured command did not do its work, so its time means nothing."""


def adopt_orphans():
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def spawn(argv, env, stdin=None, stdout=None, stderr=None):
    """Starts without forking this interpreter. Each stream is a descriptor or, as None, /dev/null."""
    null = os.open("/dev/null", os.O_RDWR)
    streams = [null if stream is None else stream for stream in (stdin, stdout, stderr)]
    actions = [(os.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
    try:
        return os.posix_spawn(argv[0], argv, env, file_actions=actions)
    finally:
        os.close(null)


def run(argv, env, stdin=None, stdout=None, check=True):
    """Start to finish. Without `stdout`, what it prints is thrown away."""
    began = time.perf_counter()
    pid = spawn(argv, env, stdin, stdout)
    finished = wait(pid, began)
    if check and finished.status != 0:
        raise Failed(f"{' '.join(argv[:6])} ended with {finished.status}")
    return finished


def bounded(seconds, argv):
    """The same command, ended after so many seconds; its status is 124 then."""
    return ["/usr/bin/timeout", "--kill-after=10", str(seconds), *(str(word) for word in argv)]


def read(argv, env, check=True):
    """The same, with what it printed."""
    reader, writer = os.pipe()
    began = time.perf_counter()
    pid = spawn(argv, env, stdout=writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        output = stream.read()
    finished = wait(pid, began)
    finished.output = output
    if check and finished.status != 0:
        raise Failed(f"{' '.join(argv[:6])} ended with {finished.status}")
    return finished


def wait(pid, began):
    _, status, usage = os.wait4(pid, 0)
    ended = time.perf_counter()
    return Finished(ended - began, cpu_of(usage), usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status))


def peak_memory(argv, env):
    """Bytes. A child's `ru_maxrss` starts at what its parent had when it called exec, and a Python has 20 MB; so a
    small shell starts it, leaves, and we inherit the child."""
    pid = spawn(["/bin/sh", "-c", '"$@" &', "sh", *argv], env)
    wait(pid, 0.0)
    _, status, usage = os.wait4(-1, 0)
    if status != 0:
        raise Failed(f"{' '.join(argv)} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_maxrss * 1024


def cpu_of(usage):
    return usage.ru_utime + usage.ru_stime


def end_children():
    """Ends whatever we started that still lives, by pid, and returns the CPU seconds all of it had used."""
    spent, told, deadline = 0.0, set(), time.monotonic() + PATIENCE
    while True:
        try:
            pid, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return spent
        if pid:
            spent += cpu_of(usage)
            continue
        late = time.monotonic() > deadline
        for child in children(os.getpid()):
            if late or child not in told:
                told.add(child)
                signal_to(child, signal.SIGKILL if late else signal.SIGTERM)
        time.sleep(0.002)


def end(pid):
    """Ends one of our children and waits until it is gone."""
    signal_to(pid, signal.SIGTERM)
    os.wait4(pid, 0)


def signal_to(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def children(pid):
    found = []
    # Processes come and go while we look; `glob` does not mind, `pathlib` does.
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(OSError):
            found += [int(word) for word in pathlib.Path(path).read_text().split()]
    return found


def tree(pid):
    """The process and everything below it."""
    return [pid] + [below for child in children(pid) for below in tree(child)]


def ticks_of(pid):
    """CPU seconds of a living process and of the children it has waited for, to 10 ms."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def scheduled(pid):
    """CPU seconds of all threads of a living process, to the nanosecond."""
    tasks = pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def status_of(pid, key):
    """A number from /proc/PID/status; sizes in bytes."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name == key:
            words = value.split()
            return int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
    raise Failed(f"no {key} of {pid}")
