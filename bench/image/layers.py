"""Layers of images, out of files of this machine, and the archives and layouts around them."""

import hashlib
import io
import itertools
import json
import pathlib
import subprocess
import sys
import tarfile


def files():
    """In the same order each time. When all were given once they come again, each with another start: no block of it is as before."""
    sysroot = subprocess.run(["rustc", "--print", "sysroot"], capture_output=True, text=True, check=True).stdout.strip()
    sources = [pathlib.Path(sys.prefix) / "lib", pathlib.Path(sysroot), pathlib.Path("/usr/lib"), pathlib.Path("/usr/share")]
    for turn in itertools.count():
        for source in sources:
            for file in sorted(source.rglob("*")):
                if file.is_file() and not file.is_symlink():
                    yield turn, file


def fill(tar, supply, most):
    """Adds files until they have so many bytes; tells how many they have."""
    total = 0
    while total < most:
        turn, file = next(supply)
        try:
            content = file.read_bytes()
        except OSError:
            continue
        add(tar, f"turn{turn}{file}", (b"%d\n" % turn if turn else b"") + content)
        total += len(content)
    return total


def add(tar, name, content):
    about = tarfile.TarInfo(name)
    about.size, about.mode = len(content), 0o644
    tar.addfile(about, io.BytesIO(content))


def archive(path, most):
    """Two layers, plain tars as `docker save` writes them. Tells the bytes of their files."""
    total, digests, supply = 0, [], files()
    with tarfile.open(path, "w") as whole:
        for number in range(2):
            layer = path.with_name(f"layer{number}")
            with tarfile.open(layer, "w", format=tarfile.PAX_FORMAT) as tar:
                total += fill(tar, supply, most / 2)
            digests.append(digest_of(layer))
            whole.add(layer, arcname=f"{number}/layer.tar")
            layer.unlink()
        config = configuration(digests)
        name = hashlib.sha256(config).hexdigest() + ".json"
        manifest = [{"Config": name, "RepoTags": ["bench:latest"], "Layers": [f"{number}/layer.tar" for number in range(2)]}]
        add(whole, name, config)
        add(whole, "manifest.json", json.dumps(manifest).encode())
    return total


def configuration(digests):
    config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": digests}}
    return json.dumps(config).encode()


def digest_of(path):
    with path.open("rb") as opened:
        return "sha256:" + hashlib.file_digest(opened, "sha256").hexdigest()


class Layout:
    """An OCI layout whose layers are replaced one by one."""

    def __init__(self, folder):
        self.folder, self.blobs = folder, folder / "blobs" / "sha256"
        self.blobs.mkdir(parents=True)
        (folder / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')

    def layer(self, path):
        """Takes the file over and tells what a manifest says of it."""
        digest, size = digest_of(path), path.stat().st_size
        path.rename(self.blobs / digest.removeprefix("sha256:"))
        return {"mediaType": "application/vnd.oci.image.layer.v1.tar", "digest": digest, "size": size}

    def publish(self, layers):
        config = self.blob("config", configuration([layer["digest"] for layer in layers]))
        manifest = self.blob("manifest", json.dumps({"schemaVersion": 2, "config": config, "layers": layers}).encode())
        (self.folder / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [manifest]}))

    def blob(self, kind, content):
        digest = hashlib.sha256(content).hexdigest()
        (self.blobs / digest).write_bytes(content)
        return {"mediaType": f"application/vnd.oci.image.{kind}.v1+json", "digest": f"sha256:{digest}", "size": len(content)}
