"""A private sshd on loopback, for whoever measures, and one client's settings for it.

Its sessions have a home of their own: what somebody's shell does at login is not what is measured.
"""

import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time

from . import processes


class Server:
    """Reached as `ssh -F settings site`; the kept connection is the one that yard makes."""

    def __init__(self, folder):
        self.folder, self.settings = folder, folder / "client"
        self.sockets = folder / "c"

    def ssh(self):
        return ["/usr/bin/ssh", "-F", str(self.settings)]

    def kept(self):
        """ssh over the connection that yard keeps."""
        found = [path for path in self.sockets.iterdir() if path.is_socket()]
        if len(found) != 1:
            raise processes.Failed("yard keeps no connection")
        return [*self.ssh(), "-o", f"ControlPath={found[0]}"]


@contextlib.contextmanager
def server(folder):
    for name in ("hostkey", "key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    shutil.copy(folder / "key.pub", folder / "authorized")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (folder / "sshd").write_text(f"""\
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/hostkey
PidFile {folder}/pid
AuthorizedKeysFile {folder}/authorized
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
StrictModes no
PermitRootLogin yes
SetEnv HOME={folder}
""")
    (folder / "client").write_text(f"""\
Host site
  HostName 127.0.0.1
  Port {port}
  IdentityFile {folder}/key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known
  StrictHostKeyChecking accept-new
""")
    if os.geteuid() == 0:
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    daemon = subprocess.Popen(["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd"], stderr=open(folder / "log", "w"))
    try:
        wait_for(port)
        yield Server(folder)
    finally:
        daemon.terminate()
        daemon.wait()


def wait_for(port):
    deadline = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise processes.Failed("sshd does not start") from None
            time.sleep(0.02)
