"""Queries during a bulk job on the simulated device: they run on their own stream and are right for every order of the device's work and
every failing pass."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from reference import expected
from simulated import LEAST_COSINE, Simulated, cosine, required, short_cases

pytestmark = required

MODEL = "qwen3-tiny"
POOLING = f"{expected(MODEL)['default']['pooling']}_normalized"


def is_right(row, case):
    return cosine(row, case[POOLING]) >= LEAST_COSINE["bfloat16"]


def interruptions(server):
    return server.metric("prefold_interrupting_batch_duration_count", level="urgent")


class Asking:
    """Two bulk clients, and one that sends single texts until enough of its batches have interrupted others."""

    def __init__(self, server, enough):
        self.server, self.enough, self.answers = server, enough, []
        self.cases, self.over = short_cases(MODEL), threading.Event()

    def bulk(self):
        texts = self.cases * 12
        while not self.over.is_set():
            self.answers.append((self.server.post("/embed", {"inputs": [case["text"] for case in texts]}), texts))

    def run(self):
        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(self.bulk) for _ in range(2)]
            try:
                for i in range(400):
                    case = self.cases[i % len(self.cases)]
                    self.answers.append((self.server.post("/embed", {"inputs": case["text"]}), [case]))
                    if interruptions(self.server) >= self.enough:
                        break
            finally:
                self.over.set()
            for job in jobs:
                job.result()
        assert interruptions(self.server) >= self.enough

    def check(self):
        """Asserts that all answers are right or the error of a failed batch; returns the texts of each failed request."""
        failed = [cases for answer, cases in self.answers if answer.status == 424]
        for answer, cases in self.answers:
            assert answer.status in (200, 424), answer
            if answer.status == 200:
                assert all(is_right(row, case) for row, case in zip(answer.json(), cases, strict=True))
        return failed


@pytest.mark.parametrize("seed", range(3))
def test_queries_interrupt_a_bulk_job(seed):
    with Simulated(MODEL, "--max-client-batch-size", 1000, SIM_SEED=seed) as server:
        asking = Asking(server, 10)
        asking.run()
        assert not asking.check()


def test_a_pass_is_a_few_operations_ahead_of_the_device(tmp_path):
    """Operations take milliseconds here, so a queue of a few milliseconds has few operations; without marks it has the whole pass, 69."""
    counts = tmp_path / "counts"
    texts = [f"{i} {case['text']}" for i, case in enumerate(short_cases(MODEL) * 4)]
    with Simulated(MODEL, tokens=600, SIM_ORDER="late", SIM_COUNT=counts) as server:
        began = len(counts.read_text().splitlines())
        server.ask("/embed", inputs=texts[:30])
        depths = [json.loads(line)["deepest_queue"] for line in counts.read_text().splitlines()[began:]]
    print(depths)
    assert 0 < max(depths) <= 45


@pytest.mark.parametrize("seed", range(3))
def test_a_pass_that_fails_takes_no_other_with_it(tmp_path, seed):
    """Each fault fails only the batch that made the call: at most requests of both bulk clients, and no query with them."""
    faults = tmp_path / "faults"
    listed = [f"{point}@{call}=out_of_memory" for point in ("launch", "gemm") for call in (150, 400, 600)] + ["copy@30=out_of_memory"]
    with Simulated(MODEL, "--max-client-batch-size", 1000, SIM_FAULTS_FILE=faults, SIM_SEED=seed) as server:
        faults.write_text(",".join(listed))
        asking = Asking(server, 20)
        asking.run()
        failed = asking.check()
        assert failed and len(failed) <= 2 * len(listed)
        # A slow machine may not have come to the last faults.
        for _ in range(len(listed) + 1):
            asked_again = server.post("/embed", {"inputs": asking.cases[0]["text"]})
            if asked_again.status == 200:
                break
        assert is_right(asked_again.json()[0], asking.cases[0])
