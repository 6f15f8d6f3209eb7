"""nginx with deploy/nginx.conf in front of several servers."""

import hashlib
import re
import shutil
import signal
import socket
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from harness import ROOT, Address, Server, eventually

CONFIGURATION = (ROOT / "deploy" / "nginx.conf").read_text()
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")


class Nginx(Address):
    """nginx with deploy/nginx.conf in front of servers on these ports; only ports and paths are changed, and without `retries`
    a request has one try."""

    def __init__(self, directory, ports, retries=True):
        if NGINX is None:
            pytest.skip("there is no nginx (Debian: apt-get install nginx-light)")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            super().__init__(free.getsockname()[1])
        self.directory, self.retries = directory, retries
        self.write(ports)
        with (directory / "log").open("wb") as log:
            self.process = subprocess.Popen([NGINX, "-p", directory, "-e", "stderr", "-c", directory / "nginx.conf", "-g",
                                             f"daemon off; pid {directory}/pid;"], stdout=log, stderr=log)

    def write(self, ports):
        text = CONFIGURATION
        first, second = re.findall(r"^ +server 127\.0\.0\.1:300[12] .*\n", text, re.M)
        servers = "".join(first.replace(":3001 ", f":{port} ") for port in ports)
        paths = "".join(f"    {kind}_temp_path {self.directory}/{kind};\n"
                        for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        for old, new in [(first + second, servers), (":3000;", f":{self.port};"),
                         ("http {\n", f"http {{\n    access_log off;\n{paths}")]:
            assert text.count(old) == 1
            text = text.replace(old, new)
        if not self.retries:
            text, count = re.subn(r"proxy_next_upstream [^;]*;", "proxy_next_upstream off;", text)
            assert count == 1
        (self.directory / "nginx.conf").write_text(text)

    def reload(self, ports):
        """Routes all new requests to servers on these ports within a moment; requests in progress are not moved."""
        self.write(ports)
        self.process.send_signal(signal.SIGHUP)

    def answers(self):
        assert self.process.poll() is None, (self.directory / "log").read_text()
        try:
            return self.get("/ready").status == 200
        except ConnectionError:
            return False

    def __enter__(self):
        try:
            eventually(self.answers, "nginx answers")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture
def proxied(tmp_path):
    """Two servers behind nginx."""
    with Server() as first, Server() as second, Nginx(tmp_path, [first.port, second.port]) as proxy:
        yield proxy, first, second


class Upstream(ThreadingHTTPServer):
    """Answers /N with status N and other paths with 200; keeps the heads of requests to /N."""

    def __init__(self, heads):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                status = self.path[1:]
                if status.isdigit():
                    heads.append(self.headers)
                self.send_response(int(status) if status.isdigit() else 200)
                self.send_header("content-length", "0")
                self.end_headers()

            def do_POST(self):
                self.rfile.read(int(self.headers["content-length"]))
                self.do_GET()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()


def test_nginx_forwards_headers_and_bounds_retries(tmp_path):
    heads = []
    with ExitStack() as stack:
        upstreams = [stack.enter_context(Upstream(heads)) for _ in range(5)]
        proxy = stack.enter_context(Nginx(tmp_path, [upstream.server_port for upstream in upstreams]))

        def post(status, headers=None):
            """Heads of all tries of a request that gets this status."""
            heads.clear()
            assert proxy.post(f"/{status}", {}, headers).status == status
            return heads

        (head,) = post(200, {"host": "embeddings.example:8443", "x-forwarded-for": "192.0.2.7", "x-request-id": "abc"})
        assert (head["Host"], head["X-Forwarded-For"]) == ("embeddings.example:8443", "192.0.2.7, 127.0.0.1")
        assert (head["X-Forwarded-Proto"], head["X-Request-Id"]) == ("http", "abc")
        (head,) = post(200)
        assert re.fullmatch("[0-9a-f]{32}", head["X-Request-Id"])

        # An overloaded replica's answer is passed to the client; if a replica cannot serve, another one is tried, but not all of them.
        assert len(post(429)) == 1
        assert len(post(503)) == 3
    # A silent replica costs at most this time before the next try, and no time afterwards.
    connect, retry = (int(re.search(rf"^ +{name} (\d+)s;", CONFIGURATION, re.M).group(1))
                      for name in ("proxy_connect_timeout", "proxy_next_upstream_timeout"))
    assert connect * 3 < retry


def rerank(proxy, query, keyed=True):
    headers = {"x-prefix-key": hashlib.sha256(query.encode()).hexdigest()} if keyed else {}
    response = proxy.post("/rerank", {"query": query, "texts": ["one", "two"]}, headers)
    assert response.status == 200, response


def counts(*servers):
    return [server.metric("prefold_http_requests_total", route="/rerank", status="200") for server in servers]


def test_requests_that_share_a_prefix_meet_in_one_replica(proxied):
    proxy, first, second = proxied
    homes = {}
    for query in range(24):
        before = counts(first, second)
        for _ in range(3):
            rerank(proxy, f"question {query}")
        went = [after - b for after, b in zip(counts(first, second), before, strict=True)]
        assert sorted(went) == [0, 3], f"one key, two replicas: {went}"
        homes[query] = went.index(3)
    assert 2 <= sum(homes.values()) <= 22, f"the keys are spread: {homes}"

    # Requests without a key go to both.
    before = counts(first, second)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: rerank(proxy, "question", keyed=False), range(24)))
    assert all(after > b for after, b in zip(counts(first, second), before, strict=True))

    # One replica stops: no request fails, and the other replica keeps its keys.
    first.stop()
    before = counts(second)[0]
    for query in homes:
        rerank(proxy, f"question {query}")
    assert counts(second)[0] - before == len(homes)


def test_a_rolling_restart_loses_no_request(tmp_path):
    """Replaces two servers one by one, as Kubernetes does with pods: a new one is ready before an old one gets SIGTERM, and the
    proxy learns of the signal later. It retries nothing, so a refused or closed connection is a failed request."""
    finished = threading.Event()

    def load():
        count = 0
        while not finished.is_set():
            rerank(proxy, "question", keyed=False)
            count += 1
        return count

    with ExitStack() as stack:
        ending = [stack.enter_context(Server("--shutdown-delay", "5")) for _ in range(2)]
        serving = list(ending)
        proxy = stack.enter_context(Nginx(tmp_path, [server.port for server in serving], retries=False))
        clients = stack.enter_context(ThreadPoolExecutor(4))
        stack.callback(finished.set)
        loads = [clients.submit(load) for _ in range(4)]

        def answered(server):
            [client.result() for client in loads if client.done()]  # Raises the error that ended it.
            return counts(server)[0]

        for old in ending:
            serving.append(stack.enter_context(Server()))
            proxy.reload([server.port for server in serving])
            old.terminate()
            eventually(lambda: old.get("/ready").status == 503, "it is not ready")
            before = answered(old)
            eventually(lambda: answered(old) >= before + 5, "it serves on")
            serving.remove(old)
            proxy.reload([server.port for server in serving])
        for old in ending:
            old.check_end()
        finished.set()
        assert sum(client.result() for client in loads) > 50
