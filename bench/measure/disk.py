"""Where measured programs keep their files, and whether the disk is fit for measuring.

ext4 does not hand out an inode again for one to five minutes after its file was removed, and looks at every such
inode on its way to a free one: next to a removed tree of 50,000 files, making a file costs 30 times as much. So
nothing is removed before the last measurement, the files are kept away from the busy /tmp, and the cost of making a
file is measured first.
"""

import contextlib
import mmap
import os
import pathlib
import shutil
import statistics
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRATCH = ROOT / "target" / "bench-scratch"
MEMORY = pathlib.Path("/dev/shm")
PAIRS = 200
# An undisturbed ext4 takes about three times as long as memory, a disturbed one more than ten times.
CALM = 6.0
PATIENCE = 120.0
COST = "cost of making files, in that of making them in memory"

# What a measured command may write before memory has to come from the host.
WARM = 1 << 30

_rooms = []


@contextlib.contextmanager
def room():
    """All folders are made below one, which is removed in the end."""
    SCRATCH.mkdir(parents=True, exist_ok=True)
    place = pathlib.Path(tempfile.mkdtemp(prefix="", dir=SCRATCH))
    _rooms.append(place)
    try:
        yield
    finally:
        shutil.rmtree(_rooms.pop())


def folder(name):
    return pathlib.Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_rooms[-1]))


def become_calm():
    """Waits a while for the disk to recover from what others removed."""
    deadline = time.monotonic() + PATIENCE
    while cost_of_files() > CALM and time.monotonic() < deadline:
        time.sleep(10)


def warm_memory():
    """A virtual machine gives memory back to its host two seconds after it was freed, and pages that come from there anew cost five
    times as much to write to. So whoever writes more would pay for who was before, unless all begin with memory that was just freed."""
    mmap.mmap(-1, WARM, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()


def read_through(paths):
    """Files, and all files of folders, are in the page cache afterwards: some machines take them out of it after seconds."""
    for path in paths:
        files = (file for file in path.rglob("*") if file.is_file() and not file.is_symlink()) if path.is_dir() else [path]
        for file in files:
            with file.open("rb", buffering=0) as opened:
                while opened.read(1 << 20):
                    pass


def probe(report):
    """Beside each measurement that makes files: new folders are spread over the disk, and so are removed ones."""
    report.sample(COST, cost_of_files())


def judge(report):
    cost = statistics.median(report.samples[COST])
    if cost > CALM:
        report.note(f"the disk was disturbed: making a file cost {cost:.0f} times what it costs in memory, "
                    f"where {CALM:.0f} is normal; rates of whatever keeps files are too low")


def cost_of_files():
    """CPU time of making folders with a file on the disk, as a multiple of making them in memory."""
    if not MEMORY.is_dir():
        return 0.0
    with tempfile.TemporaryDirectory(dir=MEMORY) as memory:
        return make(folder("probe")) / make(pathlib.Path(memory))


def make(place):
    spent = []
    for number in range(PAIRS):
        began = time.thread_time()
        inner = place / str(number)
        inner.mkdir()
        os.close(os.open(inner / "file", os.O_CREAT | os.O_WRONLY))
        spent.append(time.thread_time() - began)
    return statistics.median(spent)
