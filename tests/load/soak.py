#!/usr/bin/env python3
"""Mixed traffic over a long time; detects growth of memory, file descriptors or threads.

    tests/load/soak.py [--minutes 30] [--warm-up 10] [--json FILE] [--svg FILE]

Starts a server (PREFOLD_PROFILE=release for the optimised one), sends the traffic of traffic.py, and samples the server once a
second. A straight line through the samples after the warm-up gives the growth per hour and its 95 % interval (see drift.py).
Exits with 1 if an interval lies above zero.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import Counter
from pathlib import Path

import traffic
from chart import Panel, svg
from drift import drift, line

from harness import Server, eventually
from raw import Vitals, is_idle, settled

QUANTITIES = {"resident_mb": "Resident memory, MB", "descriptors": "File descriptors", "threads": "Threads"}
# Not a resource of the server: drift here is caused by other work on the machine, and memory follows it.
LOAD = "answers_per_s"


async def sample(vitals, samples, seen, until):
    """Samples the server's quantities and the number of requests answered since the last sample, once a second until `until()`."""
    begun, before = time.monotonic(), 0
    while not until():
        now, answered = time.monotonic() - begun, sum(count for (_, status), count in seen.items() if status)
        samples.append({"seconds": round(now, 2), "resident_mb": vitals.resident() / 1e6, LOAD: answered - before,
                        "descriptors": vitals.descriptors(), "threads": vitals.threads()})
        before = answered
        await asyncio.sleep(1 - (time.monotonic() - begun) % 1)


async def load(server, seconds, samples, **clients):
    deadline = time.monotonic() + seconds
    over = lambda: time.monotonic() > deadline  # noqa: E731
    seen = Counter()
    sampler = asyncio.create_task(sample(Vitals(server.process.pid), samples, seen, over))
    await traffic.run(server.port, over, seen, **clients)
    await sampler
    return seen


def soak(server, seconds, **clients):
    """Loads and samples the server; returns samples, response counts, and descriptors before and after."""
    vitals = Vitals(server.process.pid)
    server.ask("/embed", inputs="a")
    before = settled(vitals.descriptors)
    samples = []
    seen = asyncio.run(load(server, seconds, samples, **clients))
    eventually(lambda: is_idle(server), "the server has nothing left to do")
    eventually(lambda: vitals.descriptors() <= before, "all connections are closed")
    return {
        "samples": samples,
        "answers": {f"{name} {status or ''}".strip(): count for (name, status), count in sorted(seen.items(), key=str)},
        "descriptors_before": before, "descriptors_after": vitals.descriptors(), "peak_mb": vitals.peak() / 1e6,
    }


def series(samples, name, after=0.0):
    return [(sample["seconds"], sample[name]) for sample in samples if sample["seconds"] >= after]


def picture(samples, warm_up):
    panels = []
    for name, title in {**QUANTITIES, LOAD: "Answers a second"}.items():
        points = series(samples, name)
        slope, start = line(series(samples, name, warm_up))
        fit = [(time, start + slope * time) for time in (warm_up, points[-1][0])]
        panels.append(Panel(title, points, [fit], shade=(0, warm_up)))
    return svg(panels)


def main():
    parser = argparse.ArgumentParser(description="Mixed traffic for a long time")
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--warm-up", type=float, default=10, help="minutes that the verdict ignores")
    parser.add_argument("--json", type=Path, help="file for figures and samples")
    parser.add_argument("--svg", type=Path, help="file for a chart")
    args = parser.parse_args()
    with Server("--log-level", "info,request=off") as server:
        result = soak(server, args.minutes * 60)
    warm_up = args.warm_up * 60
    drifts = {name: drift(series(result["samples"], name, warm_up)) for name in [*QUANTITIES, LOAD]}
    result["drift_per_hour"] = {name: found.json() for name, found in drifts.items()}
    requests = sum(result["answers"].values())
    print(f"{args.minutes:g} minutes, of them {args.warm_up:g} of warm-up; {requests} requests and connections; "
          f"peak {result['peak_mb']:.0f} MB; descriptors {result['descriptors_before']} before, "
          f"{result['descriptors_after']} after")
    for name, found in drifts.items():
        verdict = "indistinguishable from zero" if found.is_zero else "grows" if found.low > 0 else "falls"
        print(f"{name:13} mean {found.mean:.1f}, {found.slope:+.2f} an hour, 95 % interval {found.low:+.2f} to "
              f"{found.high:+.2f} ({found.blocks} blocks of {found.block_seconds:.0f} s, correlation of neighbours "
              f"{found.correlation:+.2f}): {verdict}")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result) + "\n")
    if args.svg:
        args.svg.parent.mkdir(parents=True, exist_ok=True)
        args.svg.write_text(picture(result["samples"], warm_up))
    return 1 if any(drifts[name].low > 0 for name in QUANTITIES) else 0


if __name__ == "__main__":
    sys.exit(main())
