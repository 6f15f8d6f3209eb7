"""prefold in the caller's process compared with prefold over HTTP: whole requests, single queries, and the overhead of a call over its
forward pass. all-MiniLM-L6-v2 with its real weights, and a decoder of SmolLM2-135M's sizes in the Qwen3 architecture, with random weights
and MiniLM's tokenizer.

Goals: in process at least the throughput over HTTP, and less than 0.2 ms overhead per call.
"""

import json
import statistics
import subprocess
import sys
from array import array

import models
import texts
from in_process import InProcess
from prefold_server import Prefold
from report import shown, table
from rounds import alternate, ratios, running, spread, turn
from tables.setting import Setting
from venvs import TARGET

DTYPES = ["float32", "bfloat16"]
CLIENTS = [1, 16]
SECONDS, WARMUP_S, CALLS = 2, 0.5, 200
QUESTIONS = 4


def in_process(setting: Setting):
    loads = {
        "all-MiniLM-L6-v2": (models.minilm(), texts.passages()),
        "Qwen3 of SmolLM2-135M's size": (models.random_shape("qwen3-135m", setting.prefold), texts.chat_pairs(QUESTIONS)),
    }
    results, markdown = {}, []
    for name, (model, load) in loads.items():
        results[name] = measured(setting, model, load)
        markdown.append(f"{name}\n\n{results[name].pop('markdown')}")
    return {"models": results, "markdown": "\n\n".join(markdown)}


def measured(setting, model, load):
    contenders = [kind for dtype in DTYPES
                  for kind in (InProcess(setting.wheel, model, dtype), Prefold(setting.prefold, model, dtype))]
    with running(contenders):
        with turn(contenders[1]):
            queries = texts.queries(contenders[1], 8, 16)
        file = TARGET / "in-process.jsonl"
        file.write_text("".join(json.dumps(text) + "\n" for text in queries))
        same_bits(contenders, load[:8] + queries[:8])

        def measure(one):
            one.embed(load[:8])
            answer = one.embed(load)
            found = {"tokens_per_s": answer.tokens / answer.seconds}
            if isinstance(one, InProcess):
                one.calls(queries[:20])
                calls, forwards = one.calls([queries[at % len(queries)] for at in range(CALLS)])
                found["call_ms"] = 1000 * statistics.median(calls)
                found["beside_the_forward_pass_ms"] = 1000 * statistics.median(a - b for a, b in zip(calls, forwards))
                rates = [one.load(queries, clients, SECONDS) for clients in CLIENTS]
            else:
                rates = over_http(setting.prefold, one, file)
            return found | {f"queries_per_s_{clients}": rate for clients, rate in zip(CLIENTS, rates)}

        results = alternate(contenders, measure, setting.rounds)
    rows = {one.name: rounds for one, rounds in zip(contenders, results)}
    return {"rounds": rows, "markdown": compared(rows)}


def same_bits(contenders, some):
    """Ends the program unless both ways give the same vectors."""
    for inside, server in zip(contenders[::2], contenders[1::2]):
        answers = []
        for one in (inside, server):
            with turn(one):
                # Compared as float32: JSON has the shortest decimal that rounds to the value.
                answers.append([array("f", vector) for vector in one.embed(some).values])
        if answers[0] != answers[1]:
            sys.exit(f"{inside.name} and {server.name} give different vectors")


def over_http(prefold, server, file):
    """Requests of one text per second for each number of clients."""
    out = TARGET / "in-process-bench.json"
    subprocess.run([prefold, "bench", "--url", f"127.0.0.1:{server.port}", "--api", "embed", "--file", file, "--json", out,
                    "--concurrency", ",".join(map(str, CLIENTS)), "--duration", str(SECONDS), "--warmup", str(WARMUP_S)],
                   check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
    runs = json.loads(out.read_text())["runs"]
    if failed := sum(run["failed"] for run in runs):
        raise RuntimeError(f"{server.name}: {failed} requests failed")
    return [run["requests_per_s"] for run in runs]


def compared(rows):
    values = ["tokens_per_s", *(f"queries_per_s_{clients}" for clients in CLIENTS)]
    titles = ["tokens/s in one request"] + [f"queries/s, {clients} client{'s' * (clients > 1)}" for clients in CLIENTS]
    body = []
    for name, rounds in rows.items():
        own = [shown(spread([one[value] for one in rounds])) for value in values]
        cost = [shown(spread([one[value] for one in rounds])) if value in rounds[0] else ""
                for value in ("call_ms", "beside_the_forward_pass_ms")]
        body.append([name, *own, *cost])
    lines = []
    for dtype in DTYPES:
        inside, server = rows[f"prefold {dtype} in process"], rows[f"prefold {dtype}"]
        for value, title in zip(values, titles):
            lines.append(f"- {dtype}, {title}: {shown(ratios([a[value] for a in inside], [b[value] for b in server]))} times HTTP")
    return table(["", *titles, "ms of a call", "of them outside the forward pass"], body) + "\n\n" + "\n".join(lines)
