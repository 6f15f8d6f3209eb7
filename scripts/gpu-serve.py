#!/usr/bin/env python3
"""Checks a server on a GPU over HTTP.

    serve.py compare PREFOLD MODEL DEVICE
    serve.py load PREFOLD MODEL DEVICE WORKLOAD

`compare` sends the same requests to a server on the device and one on the CPU, and fails if their responses differ by more than
rounding. `load` measures throughput, latency and the time breakdown with compaction off and on. Both fail if a server does not start,
or does not exit with status 0 on SIGTERM.
"""

import contextlib
import json
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

PREFIX = "You are a helpful assistant. Represent this passage for retrieval: "
TEXTS = [PREFIX + text for text in ("the kernel keeps a list of free pages", "bread rises where it is warm", "the kernel")]
ADDRESS = re.compile(r"address\W+127\.0\.0\.1:([1-9][0-9]*)")
RESULTS = Path("results")
# Start of the largest model, whose 16 GB are read from disk.
START_TIMEOUT_S = 180


@contextlib.contextmanager
def serving(name, program, model, device, *flags):
    """The URL of a ready server."""
    path = RESULTS / f"serve-{name}.log"
    command = [program, "--model-id", model, "--device", device, "--hostname", "127.0.0.1", "--port", "0", *flags]
    with path.open("w") as log:
        server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not is_ready(found := ADDRESS.search(path.read_text())):
            if server.poll() is not None or time.monotonic() > deadline:
                sys.exit(f"{command} does not serve:\n{path.read_text()}")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{found[1]}"
    finally:
        server.send_signal(signal.SIGTERM)
        status = server.wait(60)
    if status != 0:
        sys.exit(f"{command}: status {status} after SIGTERM")


def is_ready(found):
    """`found` is the match of the address in the log."""
    try:
        return bool(found) and urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/ready", timeout=60).status == 200
    except OSError:
        return False


def answers(program, model, device):
    """Embeddings and scores of requests that share prefixes."""
    with serving(device, program, model, device) as url:

        def ask(path, **body):
            request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)

        print(device, json.dumps(json.load(urllib.request.urlopen(url + "/info", timeout=60))))
        embeddings = ask("/embed", inputs=TEXTS)
        ranks = ask("/rerank", query="memory management", texts=TEXTS)
    return embeddings, {line["index"]: line["score"] for line in ranks}


def compare(program, model, device):
    (found, scores), (expected, expected_scores) = answers(program, model, device), answers(program, model, "cpu")
    for text, a, b in zip(TEXTS, found, expected):
        cosine = sum(x * y for x, y in zip(a, b))
        print(f"cosine {cosine:.6f}: {text}")
        if not cosine >= 0.999:
            sys.exit("the answers differ")
    for index, score in expected_scores.items():
        print(f"score {scores[index]:.4f}, on the CPU {score:.4f}")
        if not abs(scores[index] - score) <= 0.02:
            sys.exit("the scores differ")


def load(program, model, device, workload):
    """Four questions with ten passages each per request, from 1, 8 and 64 concurrent clients."""
    for threshold in "0", "0.95":
        name = f"{Path(model).name}-{threshold}"
        with serving(name, program, model, device, "--radix-mlp-threshold", threshold) as url:
            print(f"\n{name} on {device}, --radix-mlp-threshold {threshold}", flush=True)
            bench = [program, "bench", "--url", url, "--file", workload, "--preset", "chat-embedding", "--texts", "40",
                     "--concurrency", "1,8,64", "--duration", "8", "--label", name, "--json", RESULTS / f"http-{name}.json"]
            if (status := subprocess.run(bench).returncode) != 0:
                sys.exit(f"{bench}: status {status}")
            if shutil.which("nvidia-smi"):
                subprocess.run(["nvidia-smi", "--query-gpu=memory.used,memory.total", "--format=csv,noheader"])


if __name__ == "__main__":
    RESULTS.mkdir(exist_ok=True)
    command, *arguments = sys.argv[1:]
    {"compare": compare, "load": load}[command](*arguments)
