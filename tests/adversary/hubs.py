"""A hub with endless answers: each request of a download, answered in every way that never ends, repeats itself or redirects."""

import gzip
import json
import random
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import loader
from fake_hub import CHUNKS, COMMIT, LISTING, NAME, PLAN, RESOLVE, TOKEN, Hub
from limits import MB

SECRET = "hf_tcn0000000000secret"
# Bytes that a hub sends before it gives up, and bytes that a program may read of them: files in memory, and socket buffers.
MOST, TAKEN = 400 * MB, 300 * MB
# The same for reads by Xet's own library, whose memory is watched from outside: it may grow by that much plus the data between two samples.
MOST_OF_XET, TAKEN_OF_XET, GROWTH_OF_XET = 3000 * MB, 2200 * MB, 1900 * MB
# Duration in seconds of slow answers, single bytes with pauses.
TRICKLE = 40.0
# Bytes that may stay in the cache in addition to the files.
LEFT = 4 * MB
WEIGHTS = "model.safetensors"
# Requests to a server that starts.
TEXTS = ("a",)
WAYS, HEADS = {}, {}


class Elsewhere:
    """Another host, which records the headers of its requests, and sends endless answers."""

    def __init__(self):
        self.seen = []

        class Handler(BaseHTTPRequestHandler):
            seen = self.seen
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                self.seen.append(str(self.headers))
                self.send_response(200)
                self.send_header("transfer-encoding", "chunked")
                self.end_headers()
                flood(self, chunk(b" " * MB))

            def do_HEAD(self):
                self.seen.append(str(self.headers))
                self.send_response(404)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.2", 0), Handler)
        self.server.most = MOST
        self.server.handle_error = lambda *_: None
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.host = f"127.0.0.2:{self.server.server_port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


def chunk(data):
    return b"%x\r\n%b\r\n" % (len(data), data)


def flood(handler, data, is_body=True):
    """Sends the data repeatedly until the client has left or enough is sent; counts it if it is a body."""
    handler.close_connection = True
    try:
        for _ in range(getattr(handler, "hub", handler.server).most // len(data) + 1):
            handler.wfile.write(data)
            if is_body and hasattr(handler, "hub"):
                handler.hub.sent += len(data)
    except OSError:
        pass


def begin(handler, status=200, *fields):
    """A status line and header fields, including a file's. The head is left open."""
    handler.send_response(status)
    file = handler.path.split("?")[0].removeprefix(RESOLVE)
    if file in handler.hub.files and status < 300:
        for field in (("etag", f'"{handler.hub.tag(file)}"'), ("x-repo-commit", COMMIT)):
            handler.send_header(*field)
    for field in fields:
        handler.send_header(*field)


def way(maker):
    """Registers `maker(chance)`, which makes an answer `(handler, body)` with a body."""
    WAYS[maker.__name__] = maker
    return maker


def head_too(maker):
    """Registers a maker whose answer also applies to HEAD."""
    HEADS[maker.__name__] = maker
    return way(maker)


@way
def body_in_chunks(chance):
    status, data = chance.choice([200, 200, 206, 404, 403, 500, 401]), chance.choice([b" ", b"a", b"\0", b"[", b'{"a":'])

    def answer(handler, body):
        begin(handler, status, ("transfer-encoding", "chunked"))
        handler.end_headers()
        flood(handler, chunk(data * (MB // len(data))))
    return answer


@way
def body_without_a_length(chance):
    status = chance.choice([200, 404, 503])

    def answer(handler, body):
        begin(handler, status, ("connection", "close"))
        handler.end_headers()
        flood(handler, b" " * MB)
    return answer


@way
def body_of_a_great_length(chance):
    status, length = chance.choice([200, 206, 404]), chance.choice([2**40, 2**62, 2**63 - 1])

    def answer(handler, body):
        begin(handler, status, ("content-length", str(length)))
        handler.end_headers()
        flood(handler, b" " * MB)
    return answer


@way
def text_without_an_end(chance):
    """Valid JSON without an end."""
    begun, data = chance.choice([(b'{"siblings":[', b'{"rfilename":"a"},'), (b'{"sha":"', b"a"), (b'{"siblings":[{"rfilename":"', b"a/"),
        (b"[", b"[],")])

    def answer(handler, body):
        begin(handler, 200, ("transfer-encoding", "chunked"))
        handler.end_headers()
        handler.wfile.write(chunk(begun))
        flood(handler, chunk(data * (MB // len(data))))
    return answer


@way
def body_that_unpacks(chance):
    """A gigabyte of spaces in a megabyte."""
    def answer(handler, body):
        packed = gzip.compress(b" " * (32 * MB), 1) * 32
        begin(handler, 200, ("content-encoding", "gzip"), ("content-length", str(len(packed))))
        handler.end_headers()
        handler.wfile.write(packed)
    return answer


@way
def extensions_of_chunks(chance):
    def answer(handler, body):
        begin(handler, 200, ("transfer-encoding", "chunked"))
        handler.end_headers()
        handler.wfile.write(b"1;")
        flood(handler, b"x" * MB)
    return answer


@way
def trickle(chance):
    """Single bytes with pauses shorter than --download-timeout."""
    data = chance.choice([b" ", b"a", b"["])

    def answer(handler, body):
        begin(handler, 200, ("transfer-encoding", "chunked"))
        handler.end_headers()
        drip(handler, chunk(data))
    return answer


def drip(handler, data):
    handler.close_connection = True
    until = time.monotonic() + TRICKLE
    while time.monotonic() < until and not handler.hub.released.wait(0.3):
        handler.wfile.write(data)
        handler.wfile.flush()


@head_too
def head_without_an_end(chance):
    field = chance.choice([b"x-a: b\r\n", b"x-a: " + b"b" * 1000 + b"\r\n", b"set-cookie: a=b\r\n"])

    def answer(handler, body):
        begin(handler)
        handler.flush_headers()
        flood(handler, field * (MB // len(field)), is_body=False)
    return answer


@head_too
def field_without_an_end(chance):
    name = chance.choice(["etag", "location", "x-repo-commit", "x-xet-hash", "link"])

    def answer(handler, body):
        begin(handler, chance.choice([200, 302]))
        handler.flush_headers()
        handler.wfile.write(f'{name}: "'.encode())
        flood(handler, b"a" * MB, is_body=False)
    return answer


@head_too
def head_that_trickles(chance):
    def answer(handler, body):
        begin(handler)
        handler.flush_headers()
        handler.wfile.write(b"x-a: ")
        drip(handler, b"b")
    return answer


@head_too
def interim_answers(chance):
    status = chance.choice([b"100 Continue", b"103 Early Hints", b"102 Processing"])

    def answer(handler, body):
        flood(handler, b"HTTP/1.1 %b\r\n\r\n" % status * 1000, is_body=False)
    return answer


@head_too
def redirects(chance):
    """Redirects to itself, to ever new addresses, and to other hosts and schemes."""
    status = chance.choice([301, 302, 303, 307, 308])
    make = chance.choice([
        lambda handler: handler.path, lambda handler: f"{handler.path.split('?')[0]}?{random.random()}",
            lambda handler: "/" + "a/" * 20_000,
        lambda handler: "file:///etc/passwd", lambda handler: "", lambda handler: "/%0d%0a", *[lambda handler,
            form=form: form % handler.hub.elsewhere.host for form in (
            "http://%s/", "//%s/", "HTTP://%s/a", "http:/\\%s/a", "\\\\%s\\a", "http:%s", "http://127.0.0.1@%s/", "/\t/%s/",
                " http://%s/")]])

    def answer(handler, body):
        begin(handler, status, ("location", make(handler)), ("content-length", "0"))
        handler.end_headers()
    return answer


@head_too
def wrong_settings(chance):
    """Header fields with invalid sizes and names."""
    field = chance.choice([("content-length", "18446744073709551615"), ("etag", '"../../../../a"'), ("etag", "a" * 40_000), ("etag", '""'),
        ("x-repo-commit", "../a"),
                           ("x-linked-size", str(2**62)), ("x-xet-hash", "../a"), ("content-range", f"bytes 0-{2**62}/{2**63}")])

    def answer(handler, body):
        handler.send_response(chance.choice([200, 206]))
        for name, value in {"etag": f'"{COMMIT}"', "x-repo-commit": COMMIT, "content-length": str(len(body)), field[0]: field[1]}.items():
            handler.send_header(name, value)
        handler.end_headers()
        if handler.command != "HEAD":
            handler.wfile.write(body)
    return answer


def names_without_measure(chance):
    """A complete listing of very many or very long names, of folders and shards; every listed name has a page."""
    make = chance.choice([lambda number: f"{number}.json", lambda number: f"model-{number:05}-of-99999.safetensors",
        lambda number: f"{number}/config.json",
                          lambda number: "a" * 2000 + str(number), lambda number: "../" * 9 + f"{number}",
                              lambda number: f"{number % 7}_Pooling/config.json"])
    count = chance.choice([3000, 30_000, 300_000])

    def answer(handler, body):
        listing = json.loads(body)
        listing["siblings"] += [{"rfilename": make(number)} for number in range(min(count, 200_000_000 // len(make(count))))]
        made = json.dumps(listing).encode()
        begin(handler, 200, ("content-length", str(len(made))))
        handler.end_headers()
        handler.wfile.write(made)
    return answer


# Requests of a download, and those that only a file in Xet needs.
FILES = ("config.json", "tokenizer.json", "modules.json", WEIGHTS)
ASKED = [("GET", LISTING), *(("HEAD", file) for file in FILES), *(("GET", file) for file in FILES)]
OF_XET = [("GET", TOKEN), ("GET", PLAN), ("GET", CHUNKS)]


@dataclass
class Case:
    """One hub: its answer to each request, and the program that asks."""

    request: tuple
    name: str
    answer: object
    check: bool

    def __str__(self):
        return f"{self.name}, {' '.join(self.request)}, {'check-model' if self.check else 'a start'}"


def cases(seed):
    """All requests with all answers, in seeded order."""
    chance = random.Random(f"{seed} hubs")
    made = []
    for request in [*ASKED, *OF_XET]:
        made += [(request, name, maker) for name, maker in (HEADS if request[0] == "HEAD" else WAYS).items()]
    made += [(("GET", LISTING), names_without_measure.__name__, names_without_measure)] * 3
    chance.shuffle(made)
    for request, name, maker in made:
        yield Case(request, name, maker(chance), request not in OF_XET and chance.random() < 0.5)


def short(seed):
    """A short selection: one answer for each request, none that waits."""
    slow = {trickle.__name__, head_that_trickles.__name__, interim_answers.__name__}
    first = {}
    for case in cases(seed):
        if case.name not in slow:
            first.setdefault(case.request, case)
    return list(first.values())


def play(case, is_long=True):
    """Loads a model from this hub; returns (rule, detail)."""
    elsewhere, is_library = Elsewhere(), case.request in (("GET", PLAN), ("GET", CHUNKS))
    with Hub("bert-mean-tiny", xet={WEIGHTS} if case.request in OF_XET else ()) as hub, TemporaryDirectory(prefix="prefold-hub-") as cache:
        hub.elsewhere, hub.sent, hub.most = elsewhere, 0, MOST_OF_XET if is_library and is_long else MOST
        hub.faults[case.request] = case.answer
        size = sum(map(len, hub.files.values()))
        room = GROWTH_OF_XET if is_library else 0
        arguments = NAME, "--hf-endpoint", hub.url, "--huggingface-hub-cache", cache, "--download-timeout", "1"
        environment = {"PREFOLD_HF_TOKEN": SECRET, "PREFOLD_CHECK_MODEL_HF_TOKEN": SECRET}
        load = loader.check(*arguments, size=size, room=room, env=environment) if case.check else loader.start(*arguments, size=size,
            room=room, env=environment, texts=TEXTS)
        yield from loader.faults(load)
        if hub.sent > (TAKEN_OF_XET if is_library else TAKEN):
            yield "taken", f"{hub.sent / MB:.0f} MB of one answer"
        left = sum(path.stat().st_size for path in Path(cache).rglob("*") if path.is_file() and not path.is_symlink())
        if left > size + LEFT:
            yield "left", f"{left / MB:.0f} MB stay in the cache"
        if SECRET in load.said or any(SECRET in head for head in elsewhere.seen):
            yield "secret", f"the token is in the output or went to another host: {[head for head in elsewhere.seen if SECRET in head][:1]}"
    elsewhere.close()
