"""Replicas of the model over one queue (`--cpu-replicas`): the same answers, and one that hangs does not hold up the other."""

import os
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import FIXTURES, Server, eventually, run_to_end
from test_faults import FaultyServer, check_failure, text

MODEL = ("--model-id", FIXTURES / "qwen3-tiny")
TWO = ("--cpu-replicas", "2")

two_cores = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="a core for each replica")


@two_cores
def test_answers_are_the_same_bits_and_stopping_drains_both():
    rng = random.Random(1)
    requests = [[text(rng) for _ in range(rng.randint(1, 20))] for _ in range(150)]
    with Server(*MODEL) as one:
        expected = [one.ask("/embed", inputs=texts) for texts in requests]
    with Server(*MODEL, *TWO) as server:
        assert server.get("/info").json()["replicas"] == 2
        with ThreadPoolExecutor(16) as pool:
            assert list(pool.map(lambda texts: server.ask("/embed", inputs=texts), requests)) == expected
    with Server(*MODEL, *TWO) as server, ThreadPoolExecutor(16) as pool:
        accepted = [pool.submit(server.ask, "/embed", inputs=texts) for texts in requests[:16]]
        eventually(lambda: server.metric("te_request_count") == 16, "all are in the engine")
        server.stop()
        assert [answer.result() for answer in accepted] == expected[:16]


@two_cores
def test_a_replica_that_hangs_or_panics_leaves_the_other_working():
    with FaultyServer(*MODEL, *TWO, "--stall-timeout", "1") as server, ThreadPoolExecutor(1) as pool:
        want = server.ask("/embed", inputs="red")
        server.set_faults("stall=1")
        hanging = pool.submit(server.post, "/embed", {"inputs": "red"})
        eventually(lambda: server.get("/ready").status == 503, "the pass that hangs is noticed")
        # `stalls` hangs one batch; the other replica meets only a panic.
        server.set_faults("stall=0.000001,panic=0.999")
        check_failure("/embed", server.post("/embed", {"inputs": "red"}))
        server.set_faults("stall=0.000001")
        for _ in range(3):
            assert server.ask("/embed", inputs="red") == want
        assert not hanging.done()
        assert server.get("/ready").status == 503, "the other replica's answers do not hide it"
        server.set_faults("")
        assert hanging.result().json() == want
        eventually(lambda: server.get("/ready").status == 200, "ready again")


@pytest.mark.parametrize("given, problem", [
    (("--cpu-replicas", "0"), "at least 1"),
    (("--cpu-replicas", "100000"), "100000 replicas need a core each"),
    (("--cpu-replicas", "2", "--device", "cuda"), "2 replicas are for a CPU"),
])
def test_numbers_that_make_no_sense_are_refused(given, problem):
    status, output = run_to_end(*given)
    assert status != 0 and "--cpu-replicas" in output and problem in output, output
