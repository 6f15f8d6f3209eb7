"""HTTP by hand: what no client library would send, and a reader that takes nothing but well-formed answers."""

import json
import os
import socket
import struct
from contextlib import contextmanager

from harness import ANSWER_LIMIT, Response, eventually

JSON_HEAD = (("host", "test"), ("content-type", "application/json"))


def head(method, path, *fields, version="HTTP/1.1"):
    """A request's head; `fields` are pairs, in this order and as often as they are given."""
    lines = [f"{method} {path} {version}", *(f"{name}: {value}" for name, value in fields), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def post(path, request, *fields):
    """A whole request. `request` is bytes, or what becomes JSON."""
    body = request if isinstance(request, bytes) else json.dumps(request).encode()
    return head("POST", path, *JSON_HEAD, ("content-length", len(body)), *fields) + body


class Malformed(AssertionError):
    """What came is not an HTTP/1.1 answer."""


class Raw:
    """One connection, with nothing between the test and the socket."""

    def __init__(self, port, receive_buffer=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.socket.settimeout(ANSWER_LIMIT)
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.connect(("127.0.0.1", port))
        self.received = bytearray()

    def send(self, data):
        """False when the other side no longer takes it."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def close(self):
        self.socket.close()

    def reset(self):
        """Ends the connection as a crashed machine's kernel does, with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def finish_sending(self):
        """Closes one half: this side sends no more and still reads."""
        try:
            self.socket.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # The other side was faster.

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def more(self):
        """Receives; false at the end of the stream."""
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
        """The next answer, or None where the stream ends without one. `interim`: 1xx is an answer too."""
        while not self.received:
            if not self.more():
                return None
        status, fields = self._head()
        if 100 <= status < 200:
            return Response(status, fields, b"") if interim else self.answer()
        return Response(status, fields, self._body(fields))

    def answers(self):
        """All answers until the other side closes the connection."""
        found = []
        while (answer := self.answer()) is not None:
            found.append(answer)
        return found

    def is_closed(self):
        """Whether the other side ended the connection; what it sent before is read and thrown away."""
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
    """What the system knows of a process."""

    def __init__(self, pid):
        self.pid = pid

    def _status(self, name):
        with open(f"/proc/{self.pid}/status", encoding="ascii") as file:
            return next(int(line.split()[1]) for line in file if line.startswith(f"{name}:"))

    def resident(self):
        """Bytes in memory now."""
        return self._status("VmRSS") * 1024

    def peak(self):
        """Bytes in memory at most so far."""
        return self._status("VmHWM") * 1024

    def reset_peak(self):
        """From now on the peak counts from what is in memory now."""
        with open(f"/proc/{self.pid}/clear_refs", "w", encoding="ascii") as file:
            file.write("5")

    def threads(self):
        return self._status("Threads")

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def is_idle(server):
    """Nothing is in the server but the question itself."""
    return server.metric("prefold_http_requests_in_flight") == 1 and server.metric("te_queue_size") == 0


@contextmanager
def unharmed(server):
    """What happens inside leaves nothing behind: no request, no connection, no panic."""
    vitals = Vitals(server.process.pid)
    assert server.ask("/embed", inputs="before")
    eventually(lambda: is_idle(server), "nothing is under way before the test")
    before = settled(vitals.descriptors)
    yield
    assert len(server.ask("/embed", inputs="after")) == 1
    assert server.get("/health").status == 200
    eventually(lambda: is_idle(server), "nothing is under way any more")
    eventually(lambda: vitals.descriptors() <= before, f"{before} descriptors again, not {vitals.descriptors()}")
    log = server.log()
    assert "panicked" not in log, log[-20000:]


def settled(count):
    """The value once it stays the same: connections that were just closed are on their way out."""
    seen = []
    eventually(lambda: (seen.append(count()), len(seen) >= 20 and len(set(seen[-20:])) == 1)[1], "a number settles")
    return seen[-1]
