"""Many jobs to a Ray cluster beside `ray job submit --no-wait`, and a look at all of them."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import socket
import threading
import time

from measure import disk, processes, yard
from measure.record import median, milliseconds

ROOT = pathlib.Path(__file__).resolve().parents[2]
PYTHON = ROOT / "target" / "ray-newest" / "bin"
TIMES = 5.0
JOBS = 100
KNOWN, MOST_SECONDS = 1000, 0.5
PATIENCE = 120.0


def measure(report):
    if not (PYTHON / "ray").exists():
        report.note("skipped: there is no target/ray-newest; `./test ray` makes it")
        return
    with cluster() as dashboard, Window(dashboard) as window:
        bench = Bench(report, dashboard, window)
        bench.submit()
        bench.poll()


class Bench:
    def __init__(self, report, dashboard, window):
        self.report, self.dashboard, self.window = report, dashboard, window
        self.folder = disk.folder("ray")
        self.home, self.project = self.folder / "home", self.folder / "project"
        self.project.mkdir()
        (self.project / "trainyard.toml").write_text(f"""\
[jobs.trivial]
command = ["true"]
cpus = 1

[targets.ray]
kind = "ray"
address = "http://127.0.0.1:{window.port}"
depot = "{self.folder}/depot"
""")
        self.env = {**yard.environment(self.folder), "YARD_HOME": str(self.home)}
        self.peer_env = {**os.environ, "RAY_AUTH_MODE": "disabled", "HOME": str(self.folder)}
        # The only processor is taken, so nothing starts, and only handing over is measured.
        body = {"entrypoint": "sleep 100000", "submission_id": "holds", "entrypoint_num_cpus": 1}
        wait_until("a node that takes jobs", lambda: takes(dashboard, body))
        wait_until("the first job to run", lambda: dashboard.ask("GET", "/api/jobs/holds")["status"] == "RUNNING")

    def yard(self, *words):
        return processes.run([str(self.report.program), "-C", str(self.project), *words], self.env)

    def ours(self, count):
        """From the command's start until Ray has taken the last of them, which the window sees: a head that is asked for all
        its jobs again and again has no time to take new ones."""
        before, wanted = self.known(), self.window.taken + count
        began = time.perf_counter()
        self.yard("run", "trivial", "--on", "ray", "--seeds", f"1-{count}", "--detach")
        accepted = time.perf_counter() - began
        wait_until(f"{count} jobs at Ray", lambda: self.window.taken >= wanted)
        taken = time.perf_counter() - began
        if self.known() != before + count:
            raise processes.Failed(f"Ray has {self.known() - before} more jobs than before, not {count}")
        return accepted, taken

    def theirs(self, count):
        words = [str(PYTHON / "ray"), "job", "submit", "--no-wait", "--entrypoint-num-cpus", "1"]
        words += ["--address", f"http://127.0.0.1:{self.dashboard.port}", "--", "true"]
        return sum(processes.run(words, self.peer_env).wall for _ in range(count))

    def known(self):
        return len(self.dashboard.ask("GET", "/api/jobs/"))

    def submit(self):
        count = self.report.times(JOBS, 10)
        # The agent and the code are there from then on, as they are after anybody's first run.
        self.ours(1)
        # Theirs takes more than a second for each, so it has its hundred once: a part of them before each of our turns.
        rounds = self.report.times(3, 1)
        theirs = 0.0
        for turn in range(rounds):
            theirs += self.theirs(count * (turn + 1) // rounds - count * turn // rounds)
            accepted, ours = self.ours(count)
            self.report.sample(f"yard run --detach of {count}, accepted, wall s", accepted)
            self.report.sample(f"yard run --detach of {count}, all at Ray, wall s", ours)
        self.report.sample(f"{count} ray job submit --no-wait, wall s", theirs)
        for name in list(self.report.samples):
            self.report.row(name.removesuffix(", wall s"), milliseconds(median(self.report.samples[name])))
        ratio = theirs / median(self.report.samples[f"yard run --detach of {count}, all at Ray, wall s"])
        self.report.limit(f"{count} jobs until Ray has them", f"{ratio:.1f}x faster", ratio >= TIMES, f">= {TIMES}x")

    def poll(self):
        """The yardmaster's own questions, as they pass the window."""
        count = self.report.times(KNOWN, 100)
        missing = count - self.known()
        if missing > 0:
            self.ours(missing)
        wait_until("a quiet moment", self.is_quiet)
        looks = self.looks(self.report.times(9, 2))
        seconds = [look["seconds"] for look in looks]
        requests = median([look["requests"] for look in looks])
        for one in seconds:
            self.report.sample(f"a look at {count} jobs, seconds", one)
        # What Ray itself takes to list them, with nobody in between.
        for _ in seconds:
            began = time.perf_counter()
            self.known()
            self.report.sample(f"a bare list of {count} jobs, seconds", time.perf_counter() - began)
        bare = median(self.report.samples[f"a bare list of {count} jobs, seconds"])
        self.report.row(f"a bare list of {count} jobs", milliseconds(bare))
        self.report.row(f"a look at {count} jobs, the slowest", milliseconds(max(seconds)))
        self.report.limit(f"a look at {count} jobs, requests", requests, requests <= 1, "1")
        usual = median(seconds)
        self.report.limit(f"a look at {count} jobs", milliseconds(usual), usual < MOST_SECONDS, f"< {MOST_SECONDS} s")

    def is_quiet(self):
        """Nothing is being sent any more."""
        self.window.seen.clear()
        time.sleep(3)
        return all(method == "GET" and not path.startswith("/api/packages") for method, path, _ in self.window.seen)

    def looks(self, count):
        """What is asked from one list of jobs to the next."""
        self.window.seen.clear()
        is_list = lambda entry: entry[1].rstrip("/") == "/api/jobs"
        # Somebody who looks makes the yardmaster ask.
        until = time.monotonic() + PATIENCE
        while sum(map(is_list, self.window.seen)) < count + 1:
            if time.monotonic() > until:
                raise processes.Failed("the yardmaster asks nothing")
            self.yard("ps")
            time.sleep(2)
        found = []
        for entry in list(self.window.seen):
            if is_list(entry):
                found.append({"requests": 0, "seconds": 0.0})
            if found:
                found[-1]["requests"] += 1
                found[-1]["seconds"] += entry[2]
        return found[:count]


class Dashboard:
    def __init__(self, port):
        self.port = port

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            headers = {"content-type": "application/json"} if body else {}
            connection.request(method, path, json.dumps(body) if body else None, headers)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status >= 300:
                raise processes.Failed(f"Ray answers {answer.status} to {method} {path}: {text[-200:]!r}")
            return json.loads(text)
        finally:
            connection.close()


class Window:
    """Stands before the dashboard and takes down every request with the seconds it took."""

    def __init__(self, dashboard):
        self.seen = seen = []
        # Jobs that Ray has accepted through it.
        self.taken, self.lock = 0, threading.Lock()
        window = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self):
                began = time.perf_counter()
                body = self.rfile.read(int(self.headers.get("content-length", 0)))
                connection = http.client.HTTPConnection("127.0.0.1", dashboard.port, timeout=300)
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                connection.request(self.command, self.path, body, headers)
                answer = connection.getresponse()
                content = answer.read()
                connection.close()
                if self.command == "POST" and self.path.rstrip("/") == "/api/jobs" and answer.status < 300:
                    with window.lock:
                        window.taken += 1
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() in ("content-type", "content-disposition"):
                        self.send_header(name, value)
                self.send_header("content-length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
                seen.append((self.command, self.path.partition("?")[0], time.perf_counter() - began))

            do_GET = do_POST = do_PUT = do_DELETE = pass_on

            def log_message(self, *_):
                pass

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """A yard that leaves closes its connections."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()


@contextlib.contextmanager
def cluster():
    """A head with one processor, and nothing else."""
    folder = pathlib.Path(disk.folder("cluster"))
    ports = iter(free_ports(4))
    dashboard = Dashboard(next(ports))
    # Sockets have short names only.
    temp = f"/tmp/yb{os.getpid()}"
    words = [str(PYTHON / "ray"), "start", "--head", "--block", "--node-ip-address=127.0.0.2", "--num-cpus=1", "--num-gpus=0"]
    words += [f"--port={next(ports)}", "--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard.port}"]
    words += [f"--ray-client-server-port={next(ports)}", f"--dashboard-agent-listen-port={next(ports)}"]
    words += ["--min-worker-port=0", "--max-worker-port=0", "--object-store-memory=80000000", "--disable-usage-stats"]
    words += [f"--temp-dir={temp}"]
    env = {"HOME": str(folder), "PATH": f"{PYTHON}:{os.environ['PATH']}", "LANG": "C.UTF-8", "RAY_AUTH_MODE": "disabled"}
    pid = processes.spawn(words, env)
    try:
        wait_until("a Ray cluster", lambda: can_ask(dashboard))
        yield dashboard
    finally:
        for below in reversed(processes.tree(pid)):
            processes.signal_to(below, 15 if below == pid else 9)
        with contextlib.suppress(ChildProcessError):
            os.wait4(pid, 0)
        processes.run(["/bin/rm", "-rf", temp], env, check=False)


def can_ask(dashboard):
    try:
        return dashboard.ask("GET", "/api/jobs/") == []
    except (OSError, ValueError, http.client.HTTPException, processes.Failed):
        return False


def takes(dashboard, body):
    """A head that has just been started refuses for a while."""
    try:
        dashboard.ask("POST", "/api/jobs/", body)
        return True
    except processes.Failed as why:
        if "No available agent" not in str(why):
            raise
        return False


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    found = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return found


def wait_until(what, is_so):
    until = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > until:
            raise processes.Failed(f"waited in vain for {what}")
        time.sleep(0.05)
