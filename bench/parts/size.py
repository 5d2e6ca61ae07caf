"""One static file, and not a large one."""

import struct
import subprocess

from measure.record import megabytes

MOST = 30_000_000
PT_INTERP = 3


def measure(report):
    size = report.program.stat().st_size
    report.sample("bytes", size)
    interpreter = wants_interpreter(report.program)
    told = subprocess.run(["ldd", report.program], capture_output=True, text=True, check=False)
    said = (told.stdout + told.stderr).strip().removeprefix(f"{report.program}:").strip()
    report.row("bytes", f"{size:,}")
    report.row("ldd", said)
    report.limit("size", megabytes(size), size < MOST, f"< {megabytes(MOST)}")
    report.limit("static", "no" if interpreter else "yes", not interpreter, "no dynamic loader")


def wants_interpreter(program):
    """Whether the kernel would call a dynamic loader: the program header says so, `ldd` only guesses."""
    data = program.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        raise SystemExit(f"{program} is not a 64-bit ELF file")
    (start,) = struct.unpack_from("<Q", data, 32)
    entry, count = struct.unpack_from("<HH", data, 54)
    kinds = [struct.unpack_from("<I", data, start + number * entry)[0] for number in range(count)]
    return PT_INTERP in kinds
