"""The real server as a child process, with a plain HTTP client."""

import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "tests" / "fixtures"
BINARIES = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / os.environ.get("PREFOLD_PROFILE", "debug")
PREFOLD = BINARIES / "prefold"

START_LIMIT = 120
ANSWER_LIMIT = 120
STOP_LIMIT = 120

# The server's address; a hub's address may precede it in the log.
ADDRESS = re.compile(r"address\W+(?:127\.0\.0\.1|0\.0\.0\.0):([1-9][0-9]*)")


def environment(home):
    """Minimal environment, with a hub endpoint without a listener, so that network access fails at once."""
    kept = {name: os.environ[name] for name in ("PATH", "TMPDIR", "LD_LIBRARY_PATH") if name in os.environ}
    return {**kept, "HOME": str(home), "HF_ENDPOINT": "http://127.0.0.1:9"}


def eventually(condition, what, limit=60):
    """Waits until `condition()` is true. No test depends on the duration."""
    deadline = time.monotonic() + limit
    while not condition():
        assert time.monotonic() < deadline, f"still not so after {limit} s: {what}"
        time.sleep(0.01)


def comparable(body):
    """An answer's body without the fields that no two answers share."""
    return re.sub(rb'"id":"[^"]*"|"created":\d+', b"", body)


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"<{self.status} {self.body[:500]!r}>"


class Address:
    """HTTP client for a local port."""

    def __init__(self, port):
        self.port = port

    def wait_until_ready(self, process, log):
        """Waits for `prefold`, whose port is in its `log()`."""
        def is_ready():
            if process.poll() is not None:
                raise AssertionError(f"{process.args} ended with {process.returncode}:\n{log()}")
            if self.port is None:
                found = ADDRESS.search(log())
                if found is None:
                    return False
                self.port = int(found.group(1))
            try:
                return self.get("/ready").status == 200
            except ConnectionError:
                return False

        eventually(is_ready, f"{process.args} is ready", START_LIMIT)

    def url(self, path=""):
        return f"http://127.0.0.1:{self.port}{path}"

    def connection(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=ANSWER_LIMIT)

    def request(self, method, path, body=None, headers=None):
        connection = self.connection()
        try:
            connection.request(method, path, body=body, headers=headers or {})
            response = connection.getresponse()
            return Response(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, headers=None):
        return self.request("GET", path, headers=headers)

    def post(self, path, request, headers=None):
        """POSTs `request` as JSON."""
        return self.request("POST", path, json.dumps(request), {"content-type": "application/json", **(headers or {})})

    def post_and_leave(self, path, request):
        """POSTs `request` as JSON and resets the connection without reading the response."""
        connection = self.connection()
        connection.request("POST", path, json.dumps(request), {"content-type": "application/json"})
        connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    def ask(self, path, **request):
        """POSTs the keyword arguments as JSON, asserts status 200, and returns the response's JSON."""
        response = self.post(path, request)
        assert response.status == 200, response
        return response.json()

    def metric(self, name, **labels):
        """Sum of a metric's samples with these labels; 0 without any."""
        total = 0.0
        for line in self.get("/metrics").body.decode().splitlines():
            found = re.fullmatch(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)", line)
            if found and found.group(1) == name:
                have = dict(re.findall(r'(\w+)="([^"]*)"', found.group(2) or ""))
                if labels.items() <= have.items():
                    total += float(found.group(3))
        return total


class Server(Address):
    """`prefold` on a free port, in its own directory. The constructor returns when it is ready."""

    running = []
    binary = PREFOLD

    def __init__(self, *args, env=None):
        self.args = args
        self.test_begins_at = 0
        self.directory = tempfile.TemporaryDirectory(prefix="prefold-e2e-")
        self.log_path = Path(self.directory.name) / "log"
        hostname = () if {"--hostname", "--host"} & set(args) else ("--hostname", "127.0.0.1")
        command = [self.binary, *hostname, "--port", "0", *map(str, args)]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.directory.name, env={**environment(self.directory.name), **(env or {})},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        Server.running.append(self)
        super().__init__(None)
        self.wait_until_ready(self.process, self.whole_log)

    def log(self):
        """Lines written since the running test began, because tests share servers."""
        return self.whole_log()[self.test_begins_at:]

    def whole_log(self):
        return self.log_path.read_text(errors="replace")

    def metrics(self):
        """Address of /metrics with --prometheus-port."""
        (port,) = re.findall(r"127\.0\.0\.1:(\d+)", next(x for x in self.whole_log().splitlines() if "metrics" in x))
        return Address(int(port))

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait(self):
        """Waits for the exit status of a server that is ending."""
        status = self.process.wait(STOP_LIMIT)
        if self in Server.running:
            Server.running.remove(self)
        return status

    def stop(self):
        self.terminate()
        self.check_end()

    def check_end(self):
        """Sends SIGTERM and asserts exit status 0 and a log without panics."""
        status, log = self.wait(), self.whole_log()
        self.directory.cleanup()
        assert status == 0, f"prefold {self.args} ended with {status}:\n{log}"
        self.check_log(log)

    def check_log(self, log):
        assert "panicked" not in log, log

    def kill(self):
        self.process.kill()
        self.wait()
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, failed, *_):
        if failed:
            self.kill()
        elif self.process.returncode is None:
            self.stop()


def run_to_end(*args, env=None):
    """Runs `prefold` with arguments that it must refuse; returns (exit status, output)."""
    with tempfile.TemporaryDirectory(prefix="prefold-e2e-") as directory:
        port = [] if {"--port", "PORT", "PREFOLD_PORT"} & {*args, *(env or ())} else ["--port", "0"]
        done = subprocess.run(
            [PREFOLD, "--hostname", "127.0.0.1", *port, *map(str, args)], cwd=directory,
            env={**environment(directory), **(env or {})}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=START_LIMIT)
        return done.returncode, done.stdout
