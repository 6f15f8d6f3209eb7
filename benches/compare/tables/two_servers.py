"""The prediction of `prefold bench --size-for` for two servers, from one on one core, against the rate that two on a core each carry.

Both servers get their own half of the arrivals at the same time, which is a random split of a stream of the whole rate. A request is one
passage for all-MiniLM-L6-v2: short enough for hundreds of requests a run, which a p99 needs, and long enough that the load generator needs
little of the two cores.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import models
from prefold_server import Pinned
from report import number, table
from rounds import running, spread, turn
from tables.setting import Setting

P99_MS = 200
SECONDS = 20
# Steps of the search for the rate of two servers, between these fractions of the prediction.
STEPS, LOW, HIGH = 5, 0.6, 1.4
WORKLOAD = ["--workload", "passages", "--texts", 1, "--duration", SECONDS]


def two_servers(setting: Setting):
    model = Path(models.minilm())
    one, other = (Pinned(setting.prefold, model, f"server {core}", [core]) for core in (0, 1))
    saturated, predicted, measured = [], [], []
    with running([one, other]):
        for number_of_round in range(setting.rounds):
            with turn(one):
                found = size(setting.prefold, one, seed=100 * number_of_round)
                saturated.append(found["saturated_requests_per_s"])
                predicted.append(2 * found["carried_requests_per_s"])
                with turn(other):
                    measured.append(carried(setting.prefold, [one, other], predicted[-1], seed=100 * number_of_round + 50))
            print(f"round {number_of_round + 1}: predicted {predicted[-1]:.2f}, measured {measured[-1]:.2f} requests/s", file=sys.stderr)
    rows = [[number(s), number(p), number(m), f"{p / m:.2f}"] for s, p, m in zip(saturated, predicted, measured)]
    ratio = spread(ratios_of(predicted, measured))
    markdown = table(["one server saturated, requests/s", "two predicted", "measured", "predicted : measured"], rows)
    return {"unit": "requests/s", "saturated": saturated, "predicted": predicted, "measured": measured, "ratio": ratio,
            "markdown": f"p99 of at most {P99_MS} ms:\n\n{markdown}\n\nmedian ratio {ratio['median']:.2f}"}


def ratios_of(ours, theirs):
    return [a / b for a, b in zip(ours, theirs, strict=True)]


def size(prefold, server, seed):
    """The result of `--size-for` for one server."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "size.json"
        command = bench(prefold, server, path, ["--size-for", 1, "--p99", P99_MS, "--seed", seed])
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return json.loads(path.read_text())["size"]


def carried(prefold, servers, predicted, seed):
    """Requests per second that servers carry together, by halving an interval around the prediction."""
    low, high = LOW * predicted, HIGH * predicted
    for step in range(STEPS):
        middle = (low + high) / 2
        if p99(prefold, servers, middle, seed + 10 * step) <= P99_MS:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def p99(prefold, servers, rate, seed):
    """p99 of all requests while each server gets its part of the rate, from the percentiles of each."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{number_of_server}.json" for number_of_server in range(len(servers))]
        commands = [bench(prefold, server, path, ["--rate", rate / len(servers), "--seed", seed + at])
                    for at, (server, path) in enumerate(zip(servers, paths))]
        running_now = [subprocess.Popen(command, stdout=subprocess.DEVNULL) for command in commands]
        if any([process.wait() for process in running_now]):
            raise RuntimeError("prefold bench failed")
        runs = [json.loads(path.read_text())["runs"][0] for path in paths]
        if any(run["failed"] for run in runs):
            return float("inf")
        pooled = sorted(ms for run in runs for ms in run["percentiles_ms"])
        return pooled[-1 - len(pooled) // 100]


def bench(prefold, server, path, load):
    return list(map(str, [prefold, "bench", "--url", f"http://127.0.0.1:{server.port}", *WORKLOAD, *load, "--json", path]))
