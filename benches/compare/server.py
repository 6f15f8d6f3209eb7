"""A server over HTTP as a contender: prefold and text-embeddings-inference answer the same routes."""

import http.client
import json
import socket
import time

from process import Answer, Process
from venvs import TARGET

READY_S = 300


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Server(Process):
    def command(self):
        """Program and arguments; `self.port` is the port to listen on."""
        raise NotImplementedError

    def environment(self):
        """Environment variables of the program."""
        return {}

    def start(self):
        """Starts the server; returns the seconds from exec until `self.ready` answers 200."""
        self.port = free_port()
        log = TARGET / "logs" / f"{self.label}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            self.launch(self.command(), self.environment(), stdout=file, stderr=file)
        while True:
            try:
                status, _, body = self.request("GET", self.ready)
                if status == 200:
                    break
            except ConnectionError:
                body = b""
            if self.child.poll() is not None or time.perf_counter() - self.launched > READY_S:
                raise RuntimeError(f"{self.name} is not ready: {body.decode()} (log: {log})")
            time.sleep(0.001)
        seconds = time.perf_counter() - self.launched
        info = self.info()
        self.versions = {self.product: info["version"]} | ({"kernels": info["kernels"]} if "kernels" in info else {})
        return seconds

    def info(self):
        return json.loads(self.request("GET", "/info")[2])

    def request(self, method, path, value=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            body = None if value is None else json.dumps(value).encode()
            connection.request(method, path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def timed(self, path, value):
        start = time.perf_counter()
        status, headers, body = self.request("POST", path, value)
        seconds = time.perf_counter() - start
        if status != 200:
            raise RuntimeError(f"{self.name}, {path}: status {status}: {body[:500].decode()}")
        return seconds, int(headers["x-compute-tokens"]), json.loads(body)

    def embed(self, texts):
        return Answer(*self.timed("/embed", {"inputs": texts}))

    def score(self, query, texts):
        seconds, tokens, ranks = self.timed("/rerank", {"query": query, "texts": texts, "raw_scores": True})
        return Answer(seconds, tokens, [rank["score"] for rank in sorted(ranks, key=lambda rank: rank["index"])])

    def token_counts(self, texts):
        """Tokens of each text without special ones."""
        _, _, body = self.request("POST", "/tokenize", {"inputs": texts, "add_special_tokens": False})
        return [len(tokens) for tokens in json.loads(body)]

    def serve(self, gather=False):
        return self.port
