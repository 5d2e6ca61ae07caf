"""A Docker archive to a SIF, beside apptainer's own build, mksquashfs on the unpacked tree, and the codec alone; then an
image of 3 GB that changes a little, pushed to a site behind ssh on loopback.

The images are made of files of this machine. All outputs are for one codec at one level in a comparison: zstd 3, and what
everybody takes for gzip. What is read lies in the page cache for all of them.
"""

import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

from image import layers
from image.delta import Delta
from measure import disk, processes, sshd
from measure.disk import ROOT
from measure.record import median, megabytes, milliseconds

BYTES, QUICK = 1_300_000_000, 150_000_000
LARGE, LARGE_QUICK = 3_000_000_000, 200_000_000
# Of the codec alone and the conversion, each time.
PAIRS = 3
ZSTD = ["-comp", "zstd", "-Xcompression-level", "3"]
MOST_MEMORY = 600_000_000
MOST_SENT, MOST_WAIT = 0.01, 1.0
# The output itself, and a block that is on its way.
MOST_DISK = 1.01


def measure(report):
    apptainer = install()
    disk.become_calm()
    bench = Bench(report, apptainer)
    for _ in range(report.times(3, 1)):
        bench.once()
    bench.disk()
    bench.memory()
    bench.apptainer_build("apptainer, gzip", [])
    tell(report, bench)
    # Short, since sockets lie in it.
    with tempfile.TemporaryDirectory(prefix="y", dir="/tmp") as private, sshd.server(pathlib.Path(private)) as server:
        tell_delta(report, Delta(report, server, os.path.dirname(apptainer)).run(report.times(LARGE, LARGE_QUICK)))


def install():
    """Apptainer, squashfs-tools and an sshd, as the tests have them."""
    found = subprocess.run([ROOT / "test", "--apptainer"], check=True, capture_output=True, text=True)
    return str(pathlib.Path(found.stdout.split()[-1]) / "apptainer")


class Bench:
    def __init__(self, report, apptainer):
        self.report, self.apptainer = report, apptainer
        self.folder = disk.folder("image")
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.folder), "APPTAINER_TMPDIR": str(self.folder)}
        self.convert, self.compress = example("convert"), example("compress")
        self.threads = str(len(os.sched_getaffinity(0)))
        self.archive = self.folder / "image.tar"
        self.size = layers.archive(self.archive, report.times(BYTES, QUICK))
        self.plain = self.folder / "plain.sqsh"
        self.ours("none", self.plain)
        self.tree = self.folder / "tree"
        self.output = self.folder / "output"
        processes.run([tool("unsquashfs"), "-quiet", "-no-progress", "-dest", str(self.tree), str(self.plain)], self.env)

    def once(self):
        """Those that are compared come one after the other: what else the machine does changes from minute to minute."""
        for codec, options in (("zstd", ZSTD), ("gzip", [])):
            for turn in range(PAIRS):
                self.pair(codec, turn)
            if codec == "zstd":
                self.mksquashfs("mksquashfs, zstd", options)
                self.apptainer_build("apptainer, zstd", ["--mksquashfs-args", " ".join(options)])

    def pair(self, codec, turn):
        """The codec alone, the same with the digest of what the image comes in, and the whole conversion. None is always the second."""
        kinds = [self.alone, self.checked, self.whole]
        for kind in kinds[turn % 3:] + kinds[:turn % 3]:
            kind(codec)

    def alone(self, codec):
        self.timed(f"{codec} alone", [self.compress, str(self.plain), codec, self.threads], [self.plain])

    def checked(self, codec):
        """What cannot be left out, at the least."""
        argv = [self.compress, str(self.plain), codec, self.threads, str(self.archive)]
        self.timed(f"{codec} and SHA-256", argv, [self.plain, self.archive])

    def whole(self, codec):
        self.timed(f"yard, {codec}", [self.convert, str(self.archive), str(self.output), codec], [self.archive])

    def timed(self, name, argv, inputs, more=None):
        """Nobody replaces a file, waits for what others left to be written, reads from the disk, or has to get memory from the host."""
        self.output.unlink(missing_ok=True)
        os.sync()
        disk.read_through(inputs)
        disk.warm_memory()
        done = processes.run(argv, self.env | (more or {}))
        self.sample(name, done.wall, done.cpu)

    def sample(self, name, seconds, cpu):
        self.report.sample(f"{name}, wall s", seconds)
        self.report.sample(f"{name}, CPU s", cpu)

    def ours(self, codec, output):
        return processes.run([self.convert, str(self.archive), str(output), codec], self.env)

    def memory(self):
        """Apart from the rest, since a child's peak begins with ours."""
        for codec in ("zstd", "gzip"):
            argv = [self.convert, str(self.archive), str(self.output), codec]
            self.report.sample("yard, peak bytes", processes.peak_memory(argv, self.env))

    def disk(self):
        """Apart from the rest, since looking costs time."""
        folder, temporary = disk.folder("output"), disk.folder("temporary")
        output = folder / "ours.sif"
        with Watch([folder, temporary]) as watch:
            argv = [self.convert, str(self.archive), str(output), "zstd"]
            processes.run(argv, self.env | {"TMPDIR": str(temporary)})
        self.report.sample("disk, in outputs", watch.peak / used([folder]))

    def mksquashfs(self, name, options):
        self.timed(name, [tool("mksquashfs"), str(self.tree), str(self.output), "-quiet", "-no-progress", *options], [self.tree])

    def apptainer_build(self, name, words):
        cache = disk.folder("cache")
        argv = [self.apptainer, "--quiet", "build", *words, str(self.output), f"docker-archive://{self.archive}"]
        self.timed(name, argv, [self.archive], {"APPTAINER_CACHEDIR": str(cache)})
        shutil.rmtree(cache)


class Watch:
    """The most that lies in some folders at once."""

    def __init__(self, folders):
        self.folders, self.peak, self.ended = folders, 0, threading.Event()
        self.thread = threading.Thread(target=self.look)

    def look(self):
        while not self.ended.wait(0.02):
            self.peak = max(self.peak, used(self.folders))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        self.peak = max(self.peak, used(self.folders))


def used(folders):
    """Bytes on the disk. Files come and go while we look."""
    total = 0
    for folder in folders:
        for entry in os.scandir(folder):
            try:
                total += entry.stat().st_blocks * 512
            except FileNotFoundError:
                continue
    return total


def tell(report, bench):
    times = {name.removesuffix(", wall s"): median(values) for name, values in report.samples.items() if name.endswith("wall s")}
    report.row("", "wall", "bytes of files per second")
    for name, seconds in times.items():
        report.row(name, milliseconds(seconds), f"{megabytes(bench.size / seconds)}/s")
    limits = [
        ("zstd, beside the codec alone", "yard, zstd", "zstd alone", 1.3, False),
        ("zstd, beside mksquashfs", "yard, zstd", "mksquashfs, zstd", 1.2, False),
        ("gzip, beside the codec alone", "yard, gzip", "gzip alone", 1.3, False),
        ("apptainer with zstd, beside zstd", "apptainer, zstd", "yard, zstd", 4, True),
        ("apptainer's default, beside zstd", "apptainer, gzip", "yard, zstd", 25, True),
        ("apptainer's default, beside gzip", "apptainer, gzip", "yard, gzip", 8, True),
    ]
    for what, one, other, limit, is_least in limits:
        ratio = ratio_of(report, one, other)
        kept = ratio >= limit if is_least else ratio <= limit
        report.limit(what, f"{ratio:.2f}x", kept, f"{'≥' if is_least else '≤'} {limit}x")
    for codec in ("zstd", "gzip"):
        least, whole = f"{codec} and SHA-256", f"yard, {codec}"
        in_cpu = ratio_of(report, whole, f"{codec} alone", "CPU")
        report.note(f"{codec} and the digest of the archive, nothing else: {ratio_of(report, least, f'{codec} alone'):.2f}x the codec alone; "
                    f"yard is {ratio_of(report, whole, least):.2f}x of that, and in CPU {in_cpu:.2f}x the codec alone")
    peak = max(report.samples["yard, peak bytes"])
    report.limit("peak memory", megabytes(peak), peak < MOST_MEMORY, f"< {megabytes(MOST_MEMORY)}")
    [most] = report.samples["disk, in outputs"]
    report.limit("disk while it converts", f"{most:.3f} x the output", most <= MOST_DISK, f"≤ {MOST_DISK} x")


def ratio_of(report, one, other, what="wall"):
    """Of the same turn, where both had as many; the middle of these."""
    ones, others = report.samples[f"{one}, {what} s"], report.samples[f"{other}, {what} s"]
    if len(ones) == len(others):
        return median([one / other for one, other in zip(ones, others)])
    return median(ones) / median(others)


def tell_delta(report, pushes):
    report.row("", "wall", "sent", "of the image")
    for push in pushes:
        report.row(f"push: {push.what}", milliseconds(push.wall), megabytes(push.sent), f"{100 * push.sent / push.size:.3f} %")
    for push in pushes[1:]:
        if push.is_unchanged:
            kept = push.wall < MOST_WAIT and push.sent == 0
            report.limit(f"push, {push.what}", f"{milliseconds(push.wall)}, {push.sent} bytes", kept, f"< {MOST_WAIT:.0f} s, 0 bytes")
        else:
            share = push.sent / push.size
            report.limit(f"push, {push.what}", f"{100 * share:.3f} %", share <= MOST_SENT, f"≤ {100 * MOST_SENT:.0f} %")


def tool(name):
    found = shutil.which(name)
    if not found:
        raise processes.Failed(f"{name} is not installed")
    return found


def example(name):
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    command = ["cargo", "build", "--release", "--quiet", "-p", "trainyard-image", "--example", name]
    subprocess.run(command, cwd=ROOT, check=True)
    found = [*target.glob(f"*/release/examples/{name}"), *target.glob(f"release/examples/{name}")]
    return str(max(found, key=lambda path: path.stat().st_mtime))
