"""One image after the other to a site: the same, and with one file, one Python package or one system update changed."""

import dataclasses
import json
import random
import tarfile

from measure import disk, processes, yard

from . import layers

PROJECT = """\
[image]
oci = "../layout"

[targets.site]
kind = "ssh"
host = "site"
depot = "{depot}"
container = "apptainer"
setup = ['export PATH="{programs}:$PATH"']
"""
# Bytes of all: the system, Python's packages, the project.
SHARES = (0.4, 0.5, 0.1)
# Of a package such as NumPy (its files with their bytecode), and what an update of a system's libraries replaces.
PACKAGE, UPDATED = 120, 9


@dataclasses.dataclass
class Push:
    what: str
    wall: float
    sent: int
    size: int
    is_unchanged: bool = False


class Delta:
    def __init__(self, report, server, programs):
        self.folder = disk.folder("delta")
        self.project = self.folder / "project"
        self.project.mkdir()
        (self.project / "trainyard.toml").write_text(PROJECT.format(depot=self.folder / "depot", programs=programs))
        self.program = str(report.program)
        self.env = yard.environment(self.folder) | {"YARD_HOME": str(self.folder / "home")}
        self.env["YARD_SSH"] = " ".join(server.ssh())
        self.layout = layers.Layout(self.folder / "layout")

    def run(self, most):
        supply = layers.files()
        self.parts = [self.make(number, supply, most * share) for number, share in enumerate(SHARES)]
        self.layout.publish([layer for layer, _ in self.parts])
        pushes = [self.push("the first time"), self.push("nothing changed")]
        pushes[-1].is_unchanged = True
        pushes.append(self.changed("one file", 2, lambda names: names[len(names) // 2 :][:1]))
        pushes.append(self.changed("one pip package", 1, lambda names: names[len(names) // 3 :][:PACKAGE]))
        pushes.append(self.changed("one apt update", 0, lambda names: random.Random(1).sample(names, UPDATED)))
        return pushes

    def make(self, number, supply, most):
        path = self.folder / f"layer{number}.tar"
        with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as tar:
            layers.fill(tar, supply, most)
            names = tar.getnames()
        return self.layout.layer(path), names

    def changed(self, what, number, choose):
        """The same layer with other contents in some of its files."""
        layer, names = self.parts[number]
        chosen = set(choose(names))
        old = self.layout.blobs / layer["digest"].removeprefix("sha256:")
        path = self.folder / "new.tar"
        with tarfile.open(old) as before, tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as after:
            for member in before:
                content = before.extractfile(member)
                if member.name in chosen:
                    # As a new version of a source or a library is: a little of it, all over the file's beginning.
                    layers.add(after, member.name, b"2.0" + content.read())
                else:
                    after.addfile(member, content)
        self.parts[number] = (self.layout.layer(path), names)
        self.layout.publish([layer for layer, _ in self.parts])
        return self.push(what)

    def push(self, what):
        argv = [self.program, "-C", str(self.project), "--output", "json", "image", "push", "--on", "site"]
        done = processes.read(argv, self.env)
        told = json.loads(done.output)
        return Push(what, done.wall, told["pushed"]["sent_bytes"], told["bytes"])
