"""A local hub that serves one repository, `owner/tiny`, and fails on request."""

import email.utils
import hashlib
import json
import re
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import FIXTURES

NAME = "owner/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
RESOLVE = f"/{NAME}/resolve/{COMMIT}/"
LISTING = "the list of files"
# Parts of a file in Xet, each of which can fail: the storage token, the plan that lists the chunks, the chunks.
TOKEN, PLAN, CHUNKS = "xet-token", "xet-plan", "xet-chunks"
XET_TOKEN = f"/api/models/{NAME}/xet-read-token/{COMMIT}"
XET_PLAN, XET_CHUNKS = "/v2/reconstructions/", "/xorbs/"
# Optional prefix of a path.
AGAIN = "/again"
# Bytes per chunk; Xet allows at most 128 KiB.
CHUNK = 1 << 16


class Hub:
    """Serves a reference checkpoint. `faults[(method, file)]` is a function of the handler and the file's bytes that responds
    instead of the hub; `LISTING` counts as a file. The files in `xet` are stored in Xet, as large files are on the real hub."""

    def __init__(self, model="qwen3-tiny", xet=()):
        directory = FIXTURES / model
        self.files = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
        self.xet = set(xet)
        # The commit of the branch.
        self.commit = COMMIT
        self.faults = {}
        self.requests = []
        # The Range header of each GET of a file.
        self.ranges = []
        # Path and Authorization header of every request, also of those that are answered with 404.
        self.seen = []
        self.reached = threading.Event()
        self.released = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            hub = self
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # A body behind its head would wait for an acknowledgement, 40 ms.

            def do_GET(self):
                self.hub.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """Ignores clients that disconnect."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def file(self, path):
        """The file of a path, or None."""
        match = re.fullmatch(f"/{NAME}/resolve/[0-9a-f]{{40}}/(.*)", path.split("?")[0].removeprefix(AGAIN))
        return match[1] if match and match[1] in self.files else None

    def tag(self, file):
        """The file's name in the cache."""
        return hashlib.sha256(self.files[file]).hexdigest()

    def kept_as(self, tag):
        """Chunks of the file with this tag."""
        (body,) = [body for name, body in self.files.items() if self.tag(name) == tag]
        return [body[start:start + CHUNK] for start in range(0, len(body), CHUNK)]

    def plan(self, tag):
        """All chunks of the file, concatenated in one block (a "xorb")."""
        chunks, everything = self.kept_as(tag), {"start": 0, "end": len(self.kept_as(tag))}
        last = len(self.chunks(tag)) - 1
        where = {"url": self.url + XET_CHUNKS + tag, "ranges": [{"chunks": everything, "bytes": {"start": 0, "end": last}}]}
        term = {"hash": tag, "unpacked_length": sum(map(len, chunks)), "range": everything}
        return {"offset_into_first_range": 0, "terms": [term], "xorbs": {tag: [where]}}

    def chunks(self, tag):
        """A chunk's header has version, stored length, compression (0: none) and length."""
        size = (len(chunk).to_bytes(3, "little") for chunk in self.kept_as(tag))
        return b"".join(b"\0" + n + b"\0" + n + chunk for n, chunk in zip(size, self.kept_as(tag)))

    def heal(self):
        self.faults = {}
        self.released.set()

    def answer(self, handler):
        self.seen.append((handler.path, handler.headers.get("Authorization")))
        path = handler.path.split("?")[0].removeprefix(AGAIN)
        if path == f"/api/models/{NAME}":
            file = LISTING
            siblings = [{"rfilename": name} for name in self.files]
            body = json.dumps({"id": NAME, "sha": self.commit, "siblings": siblings}).encode()
        elif file := self.file(path):
            body = self.files[file]
            if handler.command == "GET":
                self.ranges.append(handler.headers["Range"])
        elif path == XET_TOKEN:
            file, body = TOKEN, json.dumps({"casUrl": self.url, "exp": int(time.time()) + 3600, "accessToken": "xet"}).encode()
        elif path.startswith(XET_PLAN):
            file, body = PLAN, json.dumps(self.plan(path[len(XET_PLAN):])).encode()
        elif path.startswith(XET_CHUNKS):
            start, end = re.fullmatch(r"bytes=(\d+)-(\d+)", handler.headers["Range"]).groups()
            file, body = CHUNKS, self.chunks(path[len(XET_CHUNKS):])[int(start):int(end) + 1]
        else:
            return send(handler, b"", status=404)
        self.requests.append((handler.command, file))
        fault = self.faults.get((handler.command, file))
        if fault is None:
            return send(handler, body)
        return fault(handler, body)


def send(handler, body, status=200, length=None, **headers):
    """Sends a response whose announced length may be wrong, or absent if it is negative."""
    handler.send_response(status)
    if length is None or length >= 0:
        handler.send_header("Content-Length", str(len(body) if length is None else length))
    else:
        handler.send_header("Connection", "close")
    if file := handler.hub.file(handler.path):
        handler.send_header("ETag", headers.pop("ETag", f'"{handler.hub.tag(file)}"'))
        handler.send_header("X-Repo-Commit", handler.path.split("/resolve/")[1].split("/")[0])
        if file in handler.hub.xet:
            handler.send_header("X-Xet-Hash", handler.hub.tag(file))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def status(code, **headers):
    return lambda handler, _: send(handler, b'{"error": "not today"}', status=code, **headers)


def page(handler, body):
    """Sends an error page of the file's length with status 200."""
    send(handler, b"<html>Please sign in.</html>".ljust(len(body))[:len(body)])


def short_page(handler, _):
    send(handler, b"<html>Please sign in.</html>")


def close(handler, _):
    handler.close_connection = True


def cut_off(handler, body):
    """Sends half the file and closes the connection."""
    send(handler, body[:len(body) // 2], length=len(body))
    handler.close_connection = True


def whole(handler, body):
    """Status, bytes and headers of a hub that knows no ranges."""
    return 200, body, {}


def rest(handler, body):
    """Status, bytes and headers of a hub that knows ranges: the rest of the file from the byte that is asked for, of the same content."""
    tag = f'"{handler.hub.tag(handler.hub.file(handler.path))}"'
    match = re.fullmatch(r"bytes=(\d+)-", handler.headers["Range"] or "")
    if not match or handler.headers["If-Range"] != tag:
        return 200, body, {}
    start = int(match[1])
    return 206, body[start:], {"Content-Range": f"bytes {start}-{len(body) - 1}/{len(body)}"}


def breaks_off(part, answer=rest, times=None):
    """Closes the connection after `part` bytes of each answer, or of the first `times`."""
    left = [times]

    def fault(handler, body):
        code, content, headers = answer(handler, body)
        if left[0] == 0:
            return send(handler, content, status=code, **headers)
        left[0] = left[0] and left[0] - 1
        send(handler, content[:part], status=code, length=len(content), **headers)
        handler.close_connection = len(content) > part
    return fault


def in_seconds(seconds):
    return str(seconds)


def as_date(seconds):
    """The date in so many seconds; they are whole ones."""
    return email.utils.formatdate(time.time() + seconds + 1, usegmt=True)


def later(seconds, form=in_seconds, code=429):
    """Refuses with Retry-After until that many seconds have passed since the first request."""
    first = []

    def fault(handler, body):
        first.append(time.monotonic())
        if first[-1] - first[0] < seconds:
            return send(handler, b"", status=code, **{"Retry-After": form(seconds)})
        send(handler, body)
    return fault


def half_as_whole(handler, body):
    """Sends half the file, announced as complete."""
    send(handler, body[:len(body) // 2])


def hang(handler, _):
    handler.hub.reached.set()
    handler.hub.released.wait()
    handler.close_connection = True


def hang_halfway(handler, body):
    send(handler, body[:len(body) // 2], length=len(body))
    handler.wfile.flush()
    hang(handler, body)


def slow(handler, body):
    """Sends the file in twenty parts over four seconds."""
    send(handler, b"", length=len(body))
    part = len(body) // 20 + 1
    for start in range(0, len(body), part):
        time.sleep(0.2)
        handler.wfile.write(body[start:start + part])


def endless(handler, _, code=200):
    """Sends spaces for as long as the client reads."""
    send(handler, b"", status=code, length=-1)
    while True:
        handler.wfile.write(b" " * (1 << 20))


def endless_refusal(handler, body):
    endless(handler, body, code=404)


def endless_headers(handler, _):
    handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    while True:
        handler.wfile.write(b"".join(b"X-%d: %s\r\n" % (n, b"x" * 1000) for n in range(1000)))


def unannounced(handler, body):
    """Sends the file without a length."""
    send(handler, body, length=-1)
    handler.close_connection = True


def longer(handler, body):
    """Sends more than HEAD announces."""
    send(handler, body + b" ")


def vast(handler, body):
    """Announces a length larger than any disk."""
    send(handler, body, length=1 << 60)


def trickle(handler, body):
    """Sends one byte at a time, ten per second."""
    send(handler, b"", length=max(len(body), 1 << 20))
    while True:
        handler.wfile.write(b" ")
        time.sleep(0.1)


def redirect(location):
    """Redirects to `location`, or to the result of that function of the handler."""
    def answer(handler, _):
        send(handler, b"", status=302, Location=location(handler) if callable(location) else location)
    return answer
