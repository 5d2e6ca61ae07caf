"""Examples of our crates: small programs that show one part of the house to a benchmark."""

import json
import subprocess

from .disk import ROOT


def built(name, crate="trainyard-core"):
    """The path of an example, built for speed."""
    command = ["cargo", "build", "--release", "-p", crate, "--example", name, "--message-format", "json"]
    said = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    found = [json.loads(line) for line in said.splitlines() if f'"{name}"' in line]
    return next(item["executable"] for item in found if item.get("executable") and item["target"]["name"] == name)
