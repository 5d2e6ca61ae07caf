"""Yard in a home and a project of its own, and the program itself."""

import contextlib
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess

from . import disk, processes
from .disk import ROOT

PROJECT = """\
[targets.local]
kind = "local"
cpus = 2

[jobs.t]
command = ["/bin/true"]

[jobs.hi]
command = ["echo", "hi"]

[jobs.bad]
command = ["/bin/false"]
"""


@contextlib.contextmanager
def program(given):
    """A copy of the program: a build that ends while we measure must not change what is measured."""
    with disk.room():
        yield pathlib.Path(shutil.copy2(given or built(), disk.folder("program") / "yard"))


def built():
    found = newest()
    if found is None:
        subprocess.run(["cargo", "build", "--release"], cwd=ROOT, check=True)
        found = newest()
    if found is None:
        raise SystemExit("no release build of yard below target/")
    return found


def newest():
    found = [*ROOT.glob("target/*/release/yard"), *ROOT.glob("target/release/yard")]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)


def environment(folder):
    """The same for all that is measured; nothing of the caller's shell but where programs are."""
    path = f"{ROOT}/target/bench-tools/bin:/usr/local/bin:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8", "NO_COLOR": "1", "TMPDIR": str(folder)}


@contextlib.contextmanager
def scratch():
    """A folder for what is measured next; ends whatever was started meanwhile."""
    try:
        yield disk.folder("scratch")
    finally:
        processes.end_children()


@contextlib.contextmanager
def fresh(program):
    """A yard that nobody has used."""
    with scratch() as folder:
        yield Yard(program, folder)


class Yard:
    def __init__(self, program, folder):
        self.program = str(program)
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir()
        (self.project / "trainyard.toml").write_text(PROJECT)
        self.env = environment(folder) | {"YARD_HOME": str(self.home)}

    def argv(self, *arguments):
        return [self.program, "-C", str(self.project), *arguments]

    def run(self, *arguments, check=True):
        return processes.run(self.argv(*arguments), self.env, check=check)

    def json(self, *arguments):
        return json.loads(processes.read(self.argv("--output", "json", *arguments), self.env).output)

    @contextlib.contextmanager
    def ledger(self):
        """For looking only, unless the caller has ended the yardmaster."""
        with contextlib.closing(sqlite3.connect(self.home / "ledger.db", timeout=30)) as db:
            db.row_factory = sqlite3.Row
            yield db

    def count(self, state=None):
        with self.ledger() as db:
            if state is None:
                return db.execute("SELECT count(*) FROM runs WHERE ended IS NULL").fetchone()[0]
            return db.execute("SELECT count(*) FROM runs WHERE state = ?", (state,)).fetchone()[0]

    def yardmaster(self):
        """Its pid, or None. Whoever started it has left, so it is our child."""
        mark = f"YARD_HOME={self.home}".encode()
        for pid in processes.children(os.getpid()):
            with contextlib.suppress(OSError):
                argv = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                env = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                if argv[1:2] == [b"yardmaster"] and mark in env:
                    return pid
        return None

    def check_books(self, runs):
        """Every run has its row, its attempt, its log and its result; otherwise the rate was bought with them."""
        with self.ledger() as db:
            sql = "SELECT count(*) FROM runs JOIN attempts ON run = seq WHERE state = 'succeeded' AND result IS NOT NULL"
            rows = db.execute(sql).fetchone()[0]
        folders = self.home / "depot" / "runs"
        logs = sum(1 for _ in folders.glob("*/attempts/1/output.log"))
        results = sum(1 for _ in folders.glob("*/attempts/1/result.json"))
        if (rows, logs, results) != (runs, runs, runs):
            raise processes.Failed(f"of {runs} runs: {rows} rows, {logs} logs, {results} results")
