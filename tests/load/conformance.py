#!/usr/bin/env python3
"""Sends generated requests and checks every response against the server's own OpenAPI description.

    tests/load/conformance.py [--examples 200] [--seed 1] [--json FILE] [embedding reranker classifier]

Starts a server for each kind of model and runs schemathesis with its /api-doc/openapi.json: requests that match the schema and
requests that violate it. Statuses, content types, headers and bodies of responses must match the description; requests that
violate the schema must be refused; routes must require the API key and list their methods.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "e2e"))

from harness import FIXTURES, Server  # noqa: E402

MODELS = {
    "embedding": (),
    "reranker": ("--model-id", FIXTURES / "qwen3-reranker-tiny"),
    "classifier": ("--model-id", FIXTURES / "qwen3-seqcls-tiny"),
}
KEY = "conformance-key"
CONFIG = Path(__file__).with_name("schemathesis.toml")


def run(model, examples, seed=1):
    """Report of schemathesis, and the server's count of requests."""
    with Server(*MODELS[model], "--api-key", KEY, "--log-level", "info,request=off") as server, \
            tempfile.TemporaryDirectory() as directory:
        report = Path(directory) / "report.json"
        done = subprocess.run(
            [sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG, "run", server.url("/api-doc/openapi.json"),
             "--header", f"Authorization: Bearer {KEY}", "--phases", "examples,coverage,fuzzing",
             "--max-examples", str(examples), "--seed", str(seed), "--continue-on-failure", "--no-color",
             "--request-timeout", "600", "--warnings", "off", "--suppress-health-check", "all", "--report", "json",
             "--report-json-path", str(report)],
            cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if not report.exists():
            raise AssertionError(done.stdout)
        result = json.loads(report.read_text())
        asked = sum(server.metric("prefold_http_requests_total", status=str(status)) for status in range(200, 600))
        assert "panicked" not in server.log(), server.log()
    return {
        "model": model, "cases": result["test_cases"]["generated"], "failures": result["failures"],
        "errors": result["errors"], "operations": result["operations"], "requests_counted_by_the_server": int(asked),
        "exit_code": result["exit_code"], "schemathesis_version": result["schemathesis_version"], "seed": seed,
        "output": done.stdout,
    }


def main():
    parser = argparse.ArgumentParser(description="Generated requests against the server's own description")
    parser.add_argument("models", nargs="*", choices=[[], *MODELS], default=[], metavar="MODEL", help=", ".join(MODELS))
    parser.add_argument("--examples", type=int, default=200, help="maximum fuzzed requests per operation")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="file for the figures")
    args = parser.parse_args()
    results = []
    for model in args.models or MODELS:
        result = run(model, args.examples, args.seed)
        found = sum(failure["count"] for failure in result["failures"]) + sum(e["count"] for e in result["errors"])
        if found:
            print(result["output"])
        print(f"{model}: {result['cases']} cases over {result['operations']['tested']} operations, {found} findings", flush=True)
        results.append({name: value for name, value in result.items() if name != "output"} | {"findings": found})
    print(f"{sum(result['cases'] for result in results)} cases in all")
    if args.json:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(results, indent=1) + "\n")
    return 1 if any(result["exit_code"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
