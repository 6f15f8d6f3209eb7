#!/usr/bin/env python3
"""Checks a server on a GPU over HTTP.

    serve.py compare PREFOLD MODEL DEVICE [--logs DIR] [--flags FLAGS]
    serve.py load PREFOLD MODEL DEVICE [--logs DIR] [--seconds N] [--texts N] [--clients N] [--out FILE.json] [--flags FLAGS]

`compare` sends the same requests to a server on the device and one on the CPU, and fails if their responses differ by more than
rounding. `load` measures the paper's load (docs/bench.md) with compaction off and on. FLAGS are the server's. Both fail if a server does not start, or does not
exit with status 0 on SIGTERM.
"""

import argparse
import contextlib
import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

from processes import die_with_parent

PREFIX = "You are a helpful assistant. Represent this passage for retrieval: "
TEXTS = [PREFIX + text for text in ("the kernel keeps a list of free pages", "bread rises where it is warm", "the kernel")]
ADDRESS = re.compile(r"address\W+127\.0\.0\.1:([1-9][0-9]*)")
# Start-up limits: of the largest model, whose 16 GB are read from disk, and of a small one.
START_TIMEOUT_S = {"load": 120, "compare": 40}
STOP_TIMEOUT_S = 30
# Characters of a server's log to print after a failure.
MOST_LOG = 20_000
# Server flags of the paper's load (docs/bench.md).
PAPER = ["--dtype", "float16", "--max-batch-tokens", "16384", "--max-batch-ragged-tokens", "16384"]


@contextlib.contextmanager
def serving(name, args, device, *flags):
    """The URL of a ready server with its log in NAME.log."""
    path = args.logs / f"serve-{name}.log"
    command = [args.prefold, "--model-id", args.model, "--device", device, "--hostname", "127.0.0.1", "--port", "0", *map(str, flags), *args.flags]
    with path.open("w") as log:
        server = subprocess.Popen([str(part) for part in command], stdout=log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent)
    try:
        deadline = time.monotonic() + START_TIMEOUT_S[args.command]
        while not is_ready(found := ADDRESS.search(path.read_text(errors="replace"))):
            if server.poll() is not None:
                raise Failed("the server ended")
            if time.monotonic() > deadline:
                raise Failed(f"the server is not ready after {START_TIMEOUT_S[args.command]} s")
            time.sleep(0.1)
        yield f"http://127.0.0.1:{found[1]}"
        server.send_signal(signal.SIGTERM)
        if (status := server.wait(STOP_TIMEOUT_S)) != 0:
            raise Failed(f"the server's status is {status} after SIGTERM")
    except BaseException as error:
        # The server's log is not among the files that are kept.
        print(f"{' '.join(map(str, command))}\n{path.read_text(errors='replace')[-MOST_LOG:]}\n=> {error or type(error).__name__}", flush=True)
        raise SystemExit(1) from None
    finally:
        server.kill()
        server.wait(STOP_TIMEOUT_S)


class Failed(Exception):
    """A server misbehaves."""


def is_ready(found):
    """`found` is the match of the address in the log."""
    try:
        return bool(found) and urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/ready", timeout=60).status == 200
    except OSError:
        return False


def answers(args, device):
    """Embeddings and scores of requests that share prefixes."""
    with serving(f"{Path(args.model).name}-{device}", args, device) as url:

        def ask(path, **body):
            request = urllib.request.Request(url + path, json.dumps(body).encode(), {"content-type": "application/json"})
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)

        print(device, json.dumps(json.load(urllib.request.urlopen(url + "/info", timeout=60))))
        embeddings = ask("/embed", inputs=TEXTS)
        ranks = ask("/rerank", query="memory management", texts=TEXTS)
    return embeddings, {line["index"]: line["score"] for line in ranks}


def compare(args):
    (found, scores), (expected, expected_scores) = answers(args, args.device), answers(args, "cpu")
    cosines = [sum(x * y for x, y in zip(a, b)) for a, b in zip(found, expected)]
    for text, cosine in zip(TEXTS, cosines):
        print(f"cosine {cosine:.6f}: {text}")
    differences = [abs(scores[index] - score) for index, score in expected_scores.items()]
    for index, score in expected_scores.items():
        print(f"score {scores[index]:.4f}, on the CPU {score:.4f}")
    print(f"=> least cosine to the CPU's answers {min(cosines):.6f}, largest difference of scores {max(differences):.4f}")
    return int(not all(cosine >= 0.999 for cosine in cosines) or not all(difference <= 0.02 for difference in differences))


def load(args):
    """The paper's load, compaction off and on; writes the results after each run."""
    runs = {}
    for threshold in "0", "0.95":
        name = f"{Path(args.model).name}-{threshold}"
        with serving(name, args, args.device, "--radix-mlp-threshold", threshold) as url:
            print(f"\n{name} on {args.device}, --radix-mlp-threshold {threshold}", flush=True)
            path = args.logs / f"http-{name}.json"
            bench = [args.prefold, "bench", "--url", url, "--workload", "ms-marco", "--texts", args.texts, "--concurrency", args.clients,
                     "--duration", args.seconds, "--label", name, "--json", path]  # fmt: skip
            if (status := subprocess.run([str(part) for part in bench]).returncode) != 0:
                raise Failed(f"prefold bench: status {status}")
            runs[f"threshold {threshold}"] = json.loads(path.read_text())
        if args.out:
            args.out.write_text(json.dumps(runs))
    found = [f"{name}: p50 {run['latency_ms']['p50']:.1f} ms, {run['texts_per_s']:.0f} texts/s" for name, report in runs.items() for run in report["runs"]]
    print(f"=> {'; '.join(found)}")
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["compare", "load"])
    parser.add_argument("prefold")
    parser.add_argument("model")
    parser.add_argument("device")
    parser.add_argument("--logs", type=Path, default=Path("."), help="directory of the servers' logs")
    parser.add_argument("--seconds", type=float, default=20, help="seconds per run")
    parser.add_argument("--texts", type=int, default=64, help="texts per request (%(default)s, as in the paper)")
    parser.add_argument("--clients", type=int, default=16, help="concurrent requests (%(default)s, as in the paper)")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--flags", nargs=argparse.REMAINDER, default=[], help="flags of the server; default for `load`: the paper's load")
    args = parser.parse_args()
    args.flags = args.flags or (PAPER if args.command == "load" else [])
    # On the kit's request to stop, the server's log is printed and the server ended.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("no time is left"))
    return {"compare": compare, "load": load}[args.command](args)


if __name__ == "__main__":
    sys.exit(main())
