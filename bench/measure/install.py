"""Getting the peers, only when asked to."""

import shutil
import subprocess

from .disk import ROOT

PACKAGES = {"tsp": "task-spooler", "parallel": "parallel"}
TOOLS = ROOT / "target" / "bench-tools"
# Pueue is worth a wait, not an afternoon.
LONGEST_BUILD = 600


def peers():
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *missing], check=True)
    if not (TOOLS / "bin" / "pueue").exists():
        build_pueue()


def build_pueue():
    command = ["cargo", "install", "--locked", "--root", str(TOOLS), "pueue"]
    try:
        subprocess.run(command, check=True, timeout=LONGEST_BUILD)
    except subprocess.TimeoutExpired:
        print(f"pueue was not built within {LONGEST_BUILD} s; it will be skipped")
    except subprocess.CalledProcessError:
        print("pueue could not be built; it will be skipped")
