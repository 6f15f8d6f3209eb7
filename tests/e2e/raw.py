"""Raw HTTP: requests that no client library sends, and a strict response parser."""

import json
import os
import socket
import struct
from contextlib import contextmanager

from harness import ANSWER_LIMIT, Response, eventually

JSON_HEAD = (("host", "test"), ("content-type", "application/json"))


def head(method, path, *fields, version="HTTP/1.1"):
    """Head of a request; `fields` are pairs, kept in order and with duplicates."""
    lines = [f"{method} {path} {version}", *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(path, request, *fields):
    """Complete request. `request` is bytes or a JSON value."""
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return head("POST", path, *JSON_HEAD, ("content-length", len(body)), *fields) + body


def chunked(*chunks):
    """A request whose body consists of these raw chunks."""
    return head("POST", "/embed", *JSON_HEAD, ("transfer-encoding", "chunked")) + b"".join(chunks)


# Requests used by several tests: a small one, a slow one and its head, a health check.
GOOD = post("/embed", {"inputs": "a"})
LONG = post("/embed", {"inputs": [f"{i} " + "a text that takes a while " * 20 for i in range(8)]})
HEAD = LONG[:LONG.index(b"\r\n\r\n") + 4]
HEALTH = head("GET", "/health", ("host", "test"))


class Malformed(AssertionError):
    """The received data is not an HTTP/1.1 response."""


class Raw:
    """Connection on a plain socket."""

    def __init__(self, port, receive_buffer=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(ANSWER_LIMIT)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.received = bytearray()

    def send(self, data):
        """Sends data; returns False if the peer has closed the connection."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def close(self):
        self.socket.close()

    def reset(self):
        """Resets the connection (RST), as after a crash."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def finish_sending(self):
        """Closes the sending half; reading still works."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # The peer closed first.

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def more(self):
        """Receives data; returns False at the end of the stream."""
        try:
            data = self.socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self.received += data
        return bool(data)

    def _until(self, mark):
        while mark not in self.received:
            if not self.more():
                raise Malformed(f"the answer ends early: {self.received[:500]!r}")
        end = self.received.index(mark)
        found = bytes(self.received[:end])
        del self.received[:end + len(mark)]
        return found

    def _bytes(self, count):
        while len(self.received) < count:
            if not self.more():
                raise Malformed(f"{len(self.received)} bytes of the {count} that were announced")
        found = bytes(self.received[:count])
        del self.received[:count]
        return found

    def _head(self):
        status_line, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, _, rest = status_line.partition(" ")
        if version not in ("HTTP/1.1", "HTTP/1.0") or not rest[:3].isdigit():
            raise Malformed(f"status line {status_line!r}")
        fields = {}
        for line in lines:
            name, colon, value = line.partition(":")
            if not colon or name.lower() in ("content-length", "transfer-encoding") and name.lower() in fields:
                raise Malformed(f"header {line!r}")
            fields[name.lower()] = value.strip()
        return int(rest[:3]), fields

    def _body(self, fields):
        if "transfer-encoding" not in fields:
            if "content-length" not in fields:
                raise Malformed(f"an answer without a length: {fields}")
            return self._bytes(int(fields["content-length"]))
        body = b""
        while size := int(self._until(b"\r\n"), 16):
            body += self._bytes(size)
            self._exactly(b"\r\n")
        self._exactly(b"\r\n")
        return body

    def _exactly(self, expected):
        if (got := self._bytes(len(expected))) != expected:
            raise Malformed(f"{got!r} in place of {expected!r}")

    def answer(self, interim=False):
        """Next response, or None at the end of the stream. With `interim`, 1xx responses count."""
        while not self.received:
            if not self.more():
                return None
        status, fields = self._head()
        if 100 <= status < 200:
            return Response(status, fields, b"") if interim else self.answer()
        return Response(status, fields, self._body(fields))

    def answers(self):
        """All responses until the peer closes the connection."""
        found = []
        while (answer := self.answer()) is not None:
            found.append(answer)
        return found

    def is_closed(self):
        """True if the peer has closed the connection; discards data received before."""
        self.socket.setblocking(False)
        try:
            while self.socket.recv(1 << 16):
                pass
            return True
        except BlockingIOError:
            return False
        except ConnectionResetError:
            return True
        finally:
            self.socket.settimeout(ANSWER_LIMIT)


class Vitals:
    """Resources of a process, as reported by the system."""

    def __init__(self, pid):
        self.pid = pid

    def _status(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(f"{name}:"))

    def resident(self):
        """Resident bytes."""
        return self._status("VmRSS") * 1024

    def peak(self):
        """Peak resident bytes."""
        return self._status("VmHWM") * 1024

    def reset_peak(self):
        """Resets the peak to the current resident bytes."""
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    def threads(self):
        return self._status("Threads")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def is_idle(server):
    """True if the server has no request but this one."""
    return server.metric("prefold_http_requests_in_flight") <= 1 and server.metric("te_queue_size") == 0


@contextmanager
def unharmed(server):
    """Asserts that the enclosed actions leave no request, no connection and no panic behind."""
    vitals = Vitals(server.process.pid)
    assert server.ask("/embed", inputs="before")
    eventually(lambda: is_idle(server), "the server is idle before the test")
    before = settled(vitals.descriptors)
    yield
    assert len(server.ask("/embed", inputs="after")) == 1
    assert server.get("/health").status == 200
    eventually(lambda: is_idle(server), "the server is idle again")
    eventually(lambda: vitals.descriptors() <= before, f"{before} descriptors again, not {vitals.descriptors()}")
    log = server.log()
    assert "panicked" not in log, log[-20000:]


def settled(count):
    """A value once it is stable, because closed connections take a moment to disappear."""
    seen = []
    eventually(lambda: (seen.append(count()), len(seen) >= 20 and len(set(seen[-20:])) == 1)[1], "a number settles")
    return seen[-1]
