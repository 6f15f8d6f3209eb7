"""A backend that panics, fails, runs out of memory, returns NaN, is slow or hangs: every request gets a response, no response is
wrong, and the server continues."""

import os
import random
import re
import signal
import socket
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness import BINARIES, FIXTURES, Server, eventually
from raw import head, post

CLIENTS = 16
WORDS = "a red fox crosses the frozen river while the old ferryman counts his silver coins again".split()

# Each of these faults hits one batch in nine.
MIXED = "seed=1,panic=0.02,error=0.02,oom=0.01,nan=0.03,short=0.01,delay=0.02,delay-ms=5"


class FaultyServer(Server):
    """`prefold-faulty`, whose faults can be changed while it runs."""

    binary = BINARIES / "prefold-faulty"

    def __init__(self, *args, faults=""):
        self.faults_directory = tempfile.TemporaryDirectory(prefix="prefold-faults-")
        self.faults_path = Path(self.faults_directory.name) / "faults"
        self.set_faults(faults)
        # A fault must meet a request, not the warm-up.
        super().__init__("--warmup-tokens", "0", *args, env={"PREFOLD_FAULTS": f"@{self.faults_path}"})

    def set_faults(self, faults):
        written = self.faults_path.with_suffix(".new")
        written.write_text(faults)
        os.replace(written, self.faults_path)  # Replaced atomically, so it is never read half-written.

    def check_log(self, log):
        """Allows only the injected panics in the log."""
        panics = re.findall(r"panicked at ([^:\s]+)", log)
        assert all("tests/faults/src/backend.rs" in place for place in panics), log


def text(rng):
    return " ".join(rng.choices(WORDS, k=rng.randint(1, 12)))


def requests_for(kind, rng, count):
    """Requests (path, body) of every route that a model of this kind supports."""
    def texts():
        # One in 30 requests is a bulk job, which gives way to small requests.
        return [text(rng) for _ in range(rng.randint(1, 4) if rng.random() < 0.97 else 60)]

    forms = {
        "embedding": [
            lambda: ("/embed", {"inputs": texts()}),
            lambda: ("/embed_all", {"inputs": text(rng)}),
            lambda: ("/similarity", {"inputs": {"source_sentence": text(rng), "sentences": texts()}}),
            lambda: ("/v1/embeddings", {"input": texts(), "encoding_format": rng.choice(["float", "base64"])}),
            lambda: ("/rerank", {"query": text(rng), "texts": texts(), "raw_scores": True}),
            lambda: ("/v1/score", {"text_1": text(rng), "text_2": texts()}),
            lambda: ("/tokenize", {"inputs": texts()}),
        ],
        "reranker": [
            lambda: ("/rerank", {"query": text(rng), "texts": texts()}),
            lambda: ("/v1/rerank", {"query": text(rng), "documents": texts()}),
            lambda: ("/v2/rerank", {"query": text(rng), "documents": texts(), "top_n": 2}),
            lambda: ("/v1/score", {"text_1": text(rng), "text_2": texts()}),
            lambda: ("/decode", {"ids": [rng.randint(0, 900) for _ in range(5)]}),
        ],
        "classifier": [
            lambda: ("/predict", {"inputs": [[text] for text in texts()]}),
            lambda: ("/v1/classify", {"input": texts()}),
        ],
    }
    return [rng.choice(forms[kind])() for _ in range(count)]


def answer_of(response):
    """The part of a response that must not change: all except times, ids and the savings from other requests."""
    body = response.json()
    if isinstance(body, dict):
        for changing in ("id", "created", "usage"):
            body.pop(changing, None)
    return body


def check_failure(path, response):
    """Asserts the documented error of a failed forward pass in the route's format."""
    assert response.status == 424, (path, response)
    body = response.json()
    if path.startswith("/v"):
        assert body["error"]["type"] == "server_error" and body["type"] == "Backend", body
        message = body["error"]["message"]
    else:
        assert body["error_type"] == "Backend", body
        message = body["error"]
    assert message.startswith("inference failed: "), message


def in_parallel(function, items):
    with ThreadPoolExecutor(CLIENTS) as pool:
        return list(pool.map(function, items))


def counters(server):
    """Number of calls that reached the engine, and their results."""
    failed = {kind: server.metric("te_request_failure", err=kind) for kind in ("inference", "dropped")}
    return {
        "accepted": server.metric("te_request_count"), "answered": server.metric("te_request_success"),
        "failed": failed["inference"], "cancelled": failed["dropped"], "all failures": server.metric("te_request_failure"),
    }


def check_counters(counted):
    assert counted["accepted"] == counted["answered"] + counted["failed"] + counted["cancelled"], counted
    assert counted["all failures"] == counted["failed"] + counted["cancelled"], counted


@pytest.mark.parametrize("kind, model, count, cancelling", [
    ("embedding", "qwen3-tiny", 6000, True),
    ("reranker", "qwen3-reranker-tiny", 2000, False),
    ("classifier", "qwen3-seqcls-tiny", 2000, False),
])
def test_every_request_is_answered_rightly_or_with_the_documented_error(kind, model, count, cancelling):
    rng = random.Random(count)
    distinct = requests_for(kind, rng, 200)
    model = ("--model-id", FIXTURES / model)
    with Server(*model) as clean:
        expected = [answer_of(clean.post(*request)) for request in distinct]
    with FaultyServer(*model, faults=MIXED) as server:
        def one(draw):
            number, leaves = draw
            path, body = distinct[number]
            if leaves:
                return server.post_and_leave(path, body)
            response = server.post(path, body)
            if response.status == 200:
                assert answer_of(response) == expected[number], (path, body)
            else:
                check_failure(path, response)
            return response.status

        draws = [(rng.randrange(len(distinct)), cancelling and rng.random() < 0.1) for _ in range(count)]
        statuses = in_parallel(one, draws)
        left, good, failed = statuses.count(None), statuses.count(200), statuses.count(424)
        assert (left > 0) == cancelling and left + good + failed == count
        assert good > failed > 0
        eventually(lambda: server.metric("prefold_http_requests_in_flight") == 1, "only /metrics is being answered")
        counted = counters(server)
        check_counters(counted)
        # Some clients had their response before they disconnected, others disconnected before their request was read.
        assert good <= counted["answered"] <= good + left
        assert failed <= counted["failed"] <= failed + left
        assert counted["cancelled"] <= left and (counted["cancelled"] > 0) == cancelling
        assert server.metric("prefold_failed_sequences_total") >= failed
        assert server.metric("te_queue_size") == 0

        server.set_faults("")
        for number in range(20):
            path, body = distinct[number]
            response = server.post(path, body)
            assert response.status == 200 and answer_of(response) == expected[number]
        assert server.get("/ready").status == 200


def test_the_neighbours_of_a_row_that_is_not_finite_are_right():
    """Eight requests wait while a batch stalls and go into the next batches together; one row of each batch is non-finite."""
    texts = [text(random.Random(seed)) for seed in range(8)]
    with FaultyServer("--model-id", FIXTURES / "qwen3-tiny") as server:
        expected = [server.ask("/embed", inputs=text) for text in texts]
        batches = server.metric("te_batch_next_size_count")
        server.set_faults("stall=1")
        with ThreadPoolExecutor(9) as pool:
            first = pool.submit(server.post, "/embed", {"inputs": "first"})
            eventually(lambda: server.metric("te_request_input_length_count") == 9, "the first one is in the queue")
            others = [pool.submit(server.post, "/embed", {"inputs": text}) for text in texts]
            eventually(lambda: server.metric("te_request_input_length_count") == 17, "the others are, too")
            server.set_faults("nan=1")
            assert first.result().status == 200
            others = [other.result() for other in others]
        batches = server.metric("te_batch_next_size_count") - batches - 1
        failed = [response for response in others if response.status != 200]
        for response in failed:
            check_failure("/embed", response)
            assert "not finite" in response.json()["error"] and "--dtype" not in response.json()["error"], "it runs in float32"
        assert len(failed) == batches < 8, "one in each batch, and they were together"
        for response, want in zip(others, expected, strict=True):
            assert response.status == 424 or response.json() == want
        assert server.metric("prefold_failed_sequences_total") == len(failed)
        line = next(line for line in server.log().splitlines() if "inference failed" in line)
        assert "a weight that is not finite" in line and "overflow" not in line, line


def test_readiness_falls_with_repeated_failures_and_comes_back_by_itself():
    with FaultyServer() as server:
        for faults in ("error=1", "panic=1", "oom=1", "nan=1", "short=1"):
            server.set_faults(faults)
            for _ in range(3):
                check_failure("/embed", server.post("/embed", {"inputs": "red"}))
            not_ready = server.get("/ready")
            assert not_ready.status == 503 and not_ready.headers["retry-after"], (faults, not_ready)
            assert not_ready.json()["error_type"] == "Unhealthy"
            server.set_faults("")
            eventually(lambda: server.get("/ready").status == 200, f"ready again after {faults}")
            assert server.get("/health").status == 200
            assert len(server.ask("/embed", inputs="red")) == 1


def stuck(server, pool):
    """A request whose forward pass hangs."""
    server.set_faults("stall=1")
    return pool.submit(server.post, "/embed", {"inputs": "red"})


def test_a_forward_pass_that_hangs_makes_the_server_unready_then_unhealthy():
    with FaultyServer("--stall-timeout", "2") as server, ThreadPoolExecutor(1) as pool:
        want = server.ask("/embed", inputs="red")
        hanging = stuck(server, pool)
        eventually(lambda: server.get("/ready").status == 503, "not ready")
        assert "forward pass" in server.get("/ready").json()["error"]
        # Five times as long. The server is still alive, unless this machine was suspended meanwhile.
        seen = []
        eventually(lambda: seen.append(server.get("/health").status) or seen[-1] == 503, "not healthy")
        assert seen[0] == 200 and set(seen) == {200, 503}
        server.set_faults("")
        assert hanging.result().json() == want
        assert server.get("/ready").status == server.get("/health").status == 200


def test_faults_that_make_no_sense_are_refused():
    done = subprocess.run([FaultyServer.binary], env={**os.environ, "PREFOLD_FAULTS": "panik=1"}, stderr=subprocess.PIPE,
                          text=True, timeout=60)
    assert done.returncode == 2 and "panik" in done.stderr


def test_with_exit_on_stuck_the_process_ends_for_its_supervisor():
    server = FaultyServer("--stall-timeout", "1", "--exit-on-stuck")
    try:
        with ThreadPoolExecutor(1) as pool:
            hanging = stuck(server, pool)
            status = server.wait()
            assert status == 1, server.log()
            with pytest.raises(OSError):
                hanging.result()
        assert "forward pass" in server.log()
        with pytest.raises(ConnectionError):
            server.get("/health")
    finally:
        server.kill()


def frozen(*args):
    """A server whose threads that serve connections hang forever."""
    server = FaultyServer(*args)
    client = socket.create_connection(("127.0.0.1", server.port))
    server.set_faults("freeze=1")
    client.sendall(post("/embed", {"inputs": "red"}))

    def is_frozen():
        with socket.create_connection(("127.0.0.1", server.port)) as other:
            other.settimeout(2)
            other.sendall(head("GET", "/health", ("host", "a")))
            try:
                return not other.recv(1)
            except TimeoutError:
                return True

    eventually(is_frozen, "no connection is served")
    return server


def test_a_server_whose_threads_are_stuck_ends_when_its_time_to_stop_is_over():
    server = frozen("--shutdown-timeout", "1")
    try:
        server.terminate()
        assert server.wait() == 1, server.log()
        assert "ended by force" in server.log()
    finally:
        server.kill()


def test_a_server_whose_threads_are_stuck_ends_at_a_second_signal():
    server = frozen("--shutdown-timeout", "600")
    try:
        server.terminate()
        time.sleep(0.5)  # Signals within a quarter of a second count as one.
        server.process.send_signal(signal.SIGINT)
        assert server.wait() == 1, server.log()
        assert "ended by force" in server.log()
    finally:
        server.kill()
