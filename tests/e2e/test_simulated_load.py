"""Load on the simulated device: more clients than places, clients that disconnect, a stop under load, and a minute of mixed traffic."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from harness import eventually
from raw import Vitals
from reference import expected
from simulated import LEAST_COSINE, Simulated, assert_values, cosine, required, short_cases

pytestmark = required

MODEL = "qwen3-tiny"
POOLING = f"{expected(MODEL)['default']['pooling']}_normalized"


def is_right(row, case):
    return cosine(row, case[POOLING]) >= LEAST_COSINE["bfloat16"]


@pytest.mark.parametrize("seed", range(3))
def test_more_clients_than_places(seed):
    cases = short_cases(MODEL)
    with Simulated(MODEL, "--max-concurrent-requests", 4, SIM_SEED=seed) as server, ThreadPoolExecutor(24) as pool:
        def ask(i):
            return i % len(cases), server.post("/embed", {"inputs": cases[i % len(cases)]["text"]})

        answers = list(pool.map(ask, range(96)))
    assert {answer.status for _, answer in answers} == {200, 429}
    assert all(is_right(answer.json()[0], cases[i]) for i, answer in answers if answer.status == 200)


def test_clients_that_leave():
    with Simulated(MODEL, SIM_SEED=1) as server:
        for i in range(30):
            server.post_and_leave("/embed", {"inputs": [f"{i} some words", "and others"]})
        assert_values(server, MODEL, "bfloat16")
        eventually(lambda: server.metric("prefold_http_requests_in_flight") <= 1, "nothing is left")


@pytest.mark.parametrize("seed", range(3))
def test_a_stop_answers_what_was_accepted(seed):
    cases = short_cases(MODEL)
    server = Simulated(MODEL, SIM_SEED=seed)
    with ThreadPoolExecutor(12) as pool:
        asked = [pool.submit(server.post, "/embed", {"inputs": case["text"]}) for case in cases[:12]]
        eventually(lambda: server.metric("prefold_http_requests_in_flight") > 1, "requests are in flight")
        server.terminate()
        for answer, case in zip(asked, cases, strict=False):
            assert answer.result().status == 200 and is_right(answer.result().json()[0], case), case["name"]
    server.check_end()


def test_a_minute_of_mixed_traffic():
    """Batches of one to many inputs, with and without shared prefixes, and clients that disconnect: all answers are right, and
    memory does not grow."""
    cases, over, wrong, answered = short_cases(MODEL), time.monotonic() + 60, [], []
    with Simulated(MODEL, SIM_ORDER="soon", SIM_SEED=7) as server:
        vitals, resident = Vitals(server.process.pid), []

        def client(seed):
            chance = random.Random(seed)
            while time.monotonic() < over:
                chosen = chance.choices(cases, k=chance.choice([1, 1, 2, 5]))
                request = {"inputs": [case["text"] for case in chosen]}
                if chance.random() < 0.1:
                    server.post_and_leave("/embed", request)
                    continue
                rows = server.ask("/embed", **request)
                answered.append(len(rows))
                wrong.extend(case["name"] for row, case in zip(rows, chosen, strict=True) if not is_right(row, case))

        clients = [threading.Thread(target=client, args=[seed]) for seed in range(4)]
        for thread in clients:
            thread.start()
        while any(thread.is_alive() for thread in clients):
            resident.append(vitals.resident())
            time.sleep(1)
        assert not wrong and sum(answered) > 100, (wrong, len(answered))
        third = len(resident) // 3
        assert max(resident[-third:]) < 1.2 * max(resident[:-third]), resident
