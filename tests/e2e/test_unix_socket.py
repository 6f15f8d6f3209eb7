"""`--uds-path`: the API on a Unix socket."""

import http.client
import json
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness import PREFOLD, START_LIMIT, STOP_LIMIT, environment, eventually, run_to_end


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=60)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(str(self.path))


def ask(path, method, route, body=None):
    connection = UnixConnection(path)
    try:
        connection.request(method, route, body)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.fixture
def path():
    # Paths of sockets have at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="prefold-") as directory:
        yield Path(directory) / "socket"


@contextmanager
def listening(path):
    log = path.parent / "log"
    with log.open("ab") as out:
        process = subprocess.Popen([PREFOLD, "--uds-path", path], env=environment(path.parent), stdout=out, stderr=out)

    def is_ready():
        assert process.poll() is None, log.read_text()
        try:
            return ask(path, "GET", "/ready")[0] == 200
        except OSError:
            return False

    try:
        eventually(is_ready, "the server is ready", START_LIMIT)
        yield process
    finally:
        process.terminate()
        process.wait(STOP_LIMIT)


def test_requests_are_answered_and_the_file_is_removed_at_the_end(path):
    with listening(path) as process:
        status, body = ask(path, "POST", "/embed", json.dumps({"inputs": "Hi"}))
        assert status == 200 and len(json.loads(body)[0]) == 384
        assert path.is_socket()
    assert process.returncode == 0 and not path.exists()
    log = (path.parent / "log").read_text()
    assert f'serving address="{path}"' in log
    assert f"curl --unix-socket {path} http://localhost/docs" in log
    assert "listens on all interfaces" not in log


def test_a_file_that_a_killed_process_left_is_replaced(path):
    with listening(path) as process:
        process.kill()
        process.wait()
    assert path.is_socket()
    with listening(path):
        assert ask(path, "GET", "/health")[0] == 200


def test_a_socket_or_file_of_others_stays(path):
    with listening(path):
        status, output = run_to_end("--uds-path", path)
        assert status == 1 and "another process listens there" in output and str(path) in output, output
        assert ask(path, "GET", "/health")[0] == 200
    path.write_text("mine")
    status, output = run_to_end("--uds-path", path)
    assert status == 1 and "a file that is not a socket is there" in output, output
    assert path.read_text() == "mine"
