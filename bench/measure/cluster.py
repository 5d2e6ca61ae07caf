"""A real SLURM behind a real sshd on loopback, as the tests have it."""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess

from . import processes
from .disk import ROOT


def is_possible():
    return all(map(shutil.which, ("ssh", "sbatch", "slurmctld", "munged"))) and pathlib.Path("/usr/sbin/sshd").exists()


class Cluster:
    def __init__(self, told):
        self.ssh_command, self.host = told["ssh"].split(), told["host"]
        self.home, self.slurm_conf = pathlib.Path(told["home"]), told["slurm_conf"]

    def ssh(self, *options):
        """ssh over a connection of its own that is kept, as somebody who cares would set it up."""
        socket = f"ControlPath={self.ssh_command[-1]}.kept"
        return ["/usr/bin/ssh", *self.ssh_command[1:], "-o", "ControlMaster=auto", "-o", socket,
                "-o", "ControlPersist=60", *options, self.host]


@contextlib.contextmanager
def cluster(*settings):
    subprocess.run(["cargo", "build", "--release", "--quiet", "-p", "trainyard-testkit", "--example", "cluster"],
                   cwd=ROOT, check=True)
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    found = [*target.glob("*/release/examples/cluster"), *target.glob("release/examples/cluster")]
    program = max(found, key=lambda path: path.stat().st_mtime)
    child = subprocess.Popen([program, *settings], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        line = child.stdout.readline()
        if not line:
            raise processes.Failed("the cluster did not start")
        yield Cluster(json.loads(line))
    finally:
        child.stdin.close()
        child.wait(20)
