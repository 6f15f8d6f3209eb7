#!/usr/bin/env python3
"""Overload by ten times as many clients as the server admits: each request gets one response, and throughput stays the
same.

    tests/load/overload.py [--seconds 60] [--concurrency 32] [--json FILE]

Starts a server (PREFOLD_PROFILE=release for the optimised one) with `--max-concurrent-requests` set to `--concurrency`. Loads it
first with that many clients, none of which is refused, and then with ten times as many. A refused client retries after
Retry-After. Prints throughput, latency of accepted requests, and memory.

In production, clients run on other machines. Here they have one core, and the server has the others.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from client import BadAnswer, Client, check_error, request

from harness import Server, eventually
from raw import Vitals, is_idle

DOCUMENTS = 4
WORDS = "the kernel keeps a list of free pages and hands them out on demand when memory runs low".split()


def work(chance):
    """A rerank request with unique texts."""
    text = lambda words: " ".join(chance.choice(WORDS) + str(chance.randrange(100)) for _ in range(words))  # noqa: E731
    return request("POST", "/rerank", {"query": text(6), "texts": [text(20) for _ in range(DOCUMENTS)]})


@dataclass
class Outcome:
    """Results seen by clients between `begun` and `ended`."""

    begun: float = 0.0
    ended: float = 0.0
    latencies: list = field(default_factory=list)
    refused: int = 0
    finished_in_time: int = 0

    @property
    def throughput(self):
        """Accepted requests per second while all clients were active."""
        return self.finished_in_time / (self.ended - self.begun)

    def quantile(self, share):
        ordered = sorted(self.latencies)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else None


def check(answer):
    """True if the request was accepted; raises unless the response is correct or a proper refusal."""
    if answer.status == 200:
        scores = answer.json()
        if sorted(line["index"] for line in scores) != list(range(DOCUMENTS)):
            raise BadAnswer(f"not the scores of {DOCUMENTS} documents: {answer}")
        return True
    check_error(answer)
    if answer.status != 429:
        raise BadAnswer(f"neither 200 nor 429: {answer}")
    return False


async def drive(port, clients, seconds=None, requests=None, patient=True):
    """Runs `clients` clients, each sending its next request when the last one is answered, for a time or a number of requests."""
    outcome = Outcome(begun=time.perf_counter())
    outcome.ended = outcome.begun + (seconds or 0)

    async def one(seed):
        chance, client, sent = random.Random(seed), Client(port), 0
        await asyncio.sleep(chance.random() * 0.1)
        data = work(chance)
        while sent < requests if seconds is None else time.perf_counter() < outcome.ended:
            sent += 1
            answer = await client.ask(data)
            if check(answer):
                data = work(chance)
                outcome.latencies.append(answer.seconds)
                outcome.finished_in_time += seconds is None or time.perf_counter() < outcome.ended
            else:
                outcome.refused += 1
                if patient:
                    await asyncio.sleep(float(answer.fields["retry-after"]) * (0.5 + chance.random()))
        await client.finish()

    await asyncio.gather(*(one(seed) for seed in range(clients)))
    if seconds is None:
        outcome.ended = time.perf_counter()
    return outcome


def count(server, status):
    return server.metric("prefold_http_requests_total", route="/rerank", status=status)


def measure(server, clients, seconds, patient=True):
    """One line of the table; asserts that the clients' counts equal the server's."""
    vitals = Vitals(server.process.pid)
    before = {status: count(server, status) for status in ("200", "429", "dropped")}
    vitals.reset_peak()
    cpu = time.process_time()
    outcome = asyncio.run(drive(server.port, clients, seconds, patient=patient))
    cpu = time.process_time() - cpu
    eventually(lambda: is_idle(server), "the server has nothing left to do")
    counted = {status: int(count(server, status) - was) for status, was in before.items()}
    seen = {"200": len(outcome.latencies), "429": outcome.refused, "dropped": 0}
    if counted != seen:
        raise BadAnswer(f"the clients saw {seen} and the server counted {counted}")
    return {
        "clients": clients, "seconds": round(outcome.ended - outcome.begun, 1), "accepted": seen["200"],
        "refused": seen["429"], "accepted_per_s": round(outcome.throughput, 2),
        "p50_ms": round(outcome.quantile(0.5) * 1e3, 1), "p99_ms": round(outcome.quantile(0.99) * 1e3, 1),
        "peak_mb": round(vitals.peak() / 1e6, 1), "client_cores": round(cpu / (outcome.ended - outcome.begun), 3),
    }


def run(seconds, concurrency, factor, patient):
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[:-1] or cores)  # Processes started now inherit the affinity.
    with Server("--max-concurrent-requests", concurrency, "--log-level", "info,request=off") as server:
        os.sched_setaffinity(0, cores[-1:])
        asyncio.run(drive(server.port, concurrency, seconds=min(5, seconds)))  # Warm-up: caches and memory reach their size.
        # Overload is measured between two baseline runs, which reveals drift in the machine's speed.
        rows = [measure(server, clients, seconds, patient)
                for clients in (concurrency, concurrency * factor, concurrency)]
    unloaded = (rows[0]["accepted_per_s"] + rows[2]["accepted_per_s"]) / 2
    return {
        "concurrency": concurrency, "factor": factor, "documents_per_request": DOCUMENTS, "patient": patient,
        "server_cores": len(cores[:-1] or cores),
        "runs": rows, "unloaded_per_s": round(unloaded, 2),
        "loaded_by_unloaded": round(rows[1]["accepted_per_s"] / unloaded, 4),
        "repeated_unloaded_by_first": round(rows[2]["accepted_per_s"] / rows[0]["accepted_per_s"], 4),
        # At full concurrency, an accepted request waits for `concurrency` others (Little's law).
        "mean_latency_of_a_full_server_ms": round(concurrency / unloaded * 1e3, 1),
    }


def table(result):
    names = list(result["runs"][0])
    rows = [names, *([str(run[name]) for name in names] for run in result["runs"])]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths)) for row in rows]
    return "\n".join([*lines, "", *(f"{name}: {result[name]}" for name in result if name != "runs")])


def main():
    parser = argparse.ArgumentParser(description="Overload by ten times as many clients as the server admits")
    parser.add_argument("--seconds", type=float, default=60, help="seconds of each of the three runs")
    parser.add_argument("--concurrency", type=int, default=32, help="the server's --max-concurrent-requests")
    parser.add_argument("--factor", type=int, default=10, help="ratio of clients to --concurrency under overload")
    parser.add_argument("--impatient", action="store_true", help="clients retry at once, ignoring Retry-After")
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    result = run(args.seconds, args.concurrency, args.factor, not args.impatient)
    print(table(result))
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if result["loaded_by_unloaded"] >= 0.9 else 1


if __name__ == "__main__":
    sys.exit(main())
