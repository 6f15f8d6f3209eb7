#!/usr/bin/env python3
"""The first request of a fresh server compared with later ones, to find what warm-up misses.

    tests/load/first_request.py [--starts 10] [--json FILE] [-- SERVER ARGUMENTS]

Starts a server (PREFOLD_PROFILE=release for the optimised one) `--starts` times for each kind of request, sends requests one
after another, and prints the time from start to ready, the first latency, the median of the following latencies and the
ratio: 100 % means that the first request is as fast as the others. No two requests share a text.
"""

import argparse
import json
import random
import statistics
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))
from harness import PREFOLD, Server

WORDS = "the kernel keeps a list of free pages and hands them out on demand when memory runs low".split()
FOLLOWING = 10
# Texts, and words per text.
KINDS = {"query": (1, 8), "passages": (32, 60)}


def body(chance, texts, words):
    text = lambda: " ".join(chance.choice(WORDS) + str(chance.randrange(1000)) for _ in range(words))  # noqa: E731
    return {"input": [text() for _ in range(texts)]}


def latency(server, request):
    begun = time.perf_counter()
    answer = server.post("/v1/embeddings", request)
    assert answer.status == 200, answer
    return time.perf_counter() - begun


def measure(kind, seed, arguments):
    """Seconds until ready, seconds of the first request, and the median of the following ones."""
    chance = random.Random(seed)
    requests = [body(chance, *KINDS[kind]) for _ in range(1 + FOLLOWING)]
    begun = time.perf_counter()
    with Server(*arguments) as server:
        ready = time.perf_counter() - begun
        first, *rest = [latency(server, request) for request in requests]
    return {"ready": ready, "first": first, "following": statistics.median(rest)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=10)
    parser.add_argument("--json")
    parser.add_argument("server", nargs="*", help="arguments for the server, after --")
    options = parser.parse_args()

    print(f"{PREFOLD} {' '.join(options.server)}, {options.starts} starts\n")
    print("request     ready ms   first ms   following ms   following/first: median, least")
    results = {}
    for kind in KINDS:
        runs = results[kind] = [measure(kind, seed, options.server) for seed in range(options.starts)]
        median = lambda name: 1000 * statistics.median(run[name] for run in runs)  # noqa: E731
        shares = [run["following"] / run["first"] for run in runs]
        print(f"{kind:9} {median('ready'):10.0f} {median('first'):10.1f} {median('following'):14.1f}"
              f"   {statistics.median(shares):25.0%}, {min(shares):.0%}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
