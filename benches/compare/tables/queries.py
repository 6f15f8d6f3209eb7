"""Single queries of 8 to 16 tokens over HTTP with 1 and 16 clients: prefold, and the peers behind http_server.py.

`prefold bench` sends the requests to all of them. A peer is measured in every possible setup, and the best counts: all threads on one
request, one thread on each of several requests, or all waiting requests as one batch.
"""

import json
import subprocess
import sys

import check
import machine
import models
import texts
from report import compared, shown, table
from rounds import alternate, running, spread, turn
from tables.setting import Setting, check_all, row
from venvs import TARGET

CLIENTS = [1, 16]
SHORTEST, LONGEST = 8, 16
SECONDS, WARMUP_S = 2, 0.5
PEERS = ["onnxruntime", "onnxruntime-int8", "openvino-f32", "openvino", "openvino-int8", "fastembed"]


def queries(setting: Setting):
    cases, expected = check.minilm_cases()
    forms = models.minilm_forms()
    contenders = setting.own(forms["checkpoint"]) + setting.other_server(forms["exported"])
    for streams in sorted({1, machine.threads()}):
        contenders += named(setting.others(PEERS, forms, streams), streams)
    with running(contenders):
        right, checks = check_all(contenders, lambda one: check.vectors(one.dtype, one.embed(cases).values, expected))
        ways = [Way(one, gather) for one in right for gather in gathering(one)]
        file = TARGET / "queries.jsonl"
        with turn(contenders[0]):
            chosen = texts.queries(contenders[0], SHORTEST, LONGEST)
        file.write_text("".join(json.dumps(text) + "\n" for text in chosen))
        results = alternate(ways, lambda way: way.measure(setting.prefold, file), setting.rounds)
    return {"checks": checks, "queries": len(chosen), **tables(ways, results)}


def named(peers, streams):
    for peer in peers:
        peer.name += f", {peer.threads // streams} thread{'s' * (peer.threads > streams)} a request"
    return peers


def gathering(contender):
    """A peer with all threads on one request can also compute all waiting ones as a batch."""
    return [False, True] if getattr(contender, "streams", 0) == 1 else [False]


class Way:
    """A contender served in one way; alternates like a contender."""

    def __init__(self, contender, gather):
        self.contender, self.pause, self.resume = contender, contender.pause, contender.resume
        self.name = contender.name + (", gathered" if gather else "")
        with turn(contender):
            self.port = contender.serve(gather)

    def measure(self, prefold, file):
        """[requests/s, p50 in ms] for each number of clients."""
        out = TARGET / "bench.json"
        subprocess.run([prefold, "bench", "--url", f"127.0.0.1:{self.port}", "--model", "any", "--file", file, "--json", out,
                        "--concurrency", ",".join(map(str, CLIENTS)), "--duration", str(SECONDS), "--warmup", str(WARMUP_S)],
                       check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
        runs = json.loads(out.read_text())["runs"]
        if failed := sum(run["failed"] for run in runs):
            raise RuntimeError(f"{self.name}: {failed} requests failed")
        return [[run["requests_per_s"], run["latency_ms"]["p50"]] for run in runs]


def tables(ways, results):
    """Rows by number of clients, and Markdown: throughput compared, latency below."""
    loads, markdown = {}, []
    for index, clients in enumerate(CLIENTS):
        rows = [row(way.contender, [value[index][0] for value in rounds], p50_ms=[value[index][1] for value in rounds])
                for way, rounds in zip(ways, results)]
        for way, one in zip(ways, rows):
            one["name"] = way.name
        loads[str(clients)] = rows
        markdown += [f"{clients} client{'s' * (clients > 1)}:", compared(rows, "requests/s"),
                     table(["", "p50 ms, median (range)"], [[one["name"], shown(spread(one["p50_ms"]))] for one in rows])]
    return {"unit": "requests/s", "clients": loads, "markdown": "\n\n".join(markdown)}
