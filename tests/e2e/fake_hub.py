"""A small hub on this machine that serves one repository, `owner/tiny`, and fails on request."""

import hashlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness import FIXTURES

NAME = "owner/tiny"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
RESOLVE = f"/{NAME}/resolve/{COMMIT}/"
LISTING = "the list of files"


class Hub:
    """Serves a reference checkpoint. `faults[(method, file)]` is a function of the handler and the file's bytes that answers
    in place of the hub; `LISTING` is a file too."""

    def __init__(self, model="qwen3-tiny"):
        directory = FIXTURES / model
        self.files = {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}
        self.faults = {}
        self.requests = []
        self.reached = threading.Event()
        self.released = threading.Event()

        class Handler(BaseHTTPRequestHandler):
            hub = self
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.hub.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_):
                """A client that hangs up is its own business."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def tag(self, file):
        """What the cache calls the file."""
        return hashlib.sha256(self.files[file]).hexdigest()

    def heal(self):
        self.faults = {}
        self.released.set()

    def answer(self, handler):
        path = handler.path.split("?")[0]
        if path == f"/api/models/{NAME}":
            file = LISTING
            siblings = [{"rfilename": name} for name in self.files]
            body = json.dumps({"id": NAME, "sha": COMMIT, "siblings": siblings}).encode()
        elif path.startswith(RESOLVE) and path[len(RESOLVE):] in self.files:
            file = path[len(RESOLVE):]
            body = self.files[file]
        else:
            return send(handler, b"", status=404)
        self.requests.append((handler.command, file))
        fault = self.faults.get((handler.command, file))
        if fault is None:
            return send(handler, body)
        return fault(handler, body)


def send(handler, body, status=200, length=None, **headers):
    """An answer, with a length that may be a lie."""
    handler.send_response(status)
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    file = handler.path.split("?")[0].removeprefix(RESOLVE)
    if file in handler.hub.files:
        handler.send_header("ETag", f'"{handler.hub.tag(file)}"')
        handler.send_header("X-Repo-Commit", COMMIT)
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def status(code, **headers):
    return lambda handler, _: send(handler, b'{"error": "not today"}', status=code, **headers)


def page(handler, body):
    """An error page in place of the file, with status 200 and as long as the file."""
    send(handler, b"<html>Please sign in.</html>".ljust(len(body))[:len(body)])


def short_page(handler, _):
    send(handler, b"<html>Please sign in.</html>")


def close(handler, _):
    handler.close_connection = True


def cut_off(handler, body):
    """Half the file, and the end of the connection."""
    send(handler, body[:len(body) // 2], length=len(body))
    handler.close_connection = True


def half_as_whole(handler, body):
    """Half the file, announced as all of it."""
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
    """The file in twenty parts over four seconds."""
    send(handler, b"", length=len(body))
    part = len(body) // 20 + 1
    for start in range(0, len(body), part):
        time.sleep(0.2)
        handler.wfile.write(body[start:start + part])
