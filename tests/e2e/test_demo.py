"""`make demo` and its data."""

import json
import re
import subprocess

from harness import BINARIES, PREFOLD, ROOT, environment
from reference import WORKLOAD

DATA = ROOT / "tools" / "common" / "data"


def lines(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_the_demos_text_is_the_workloads():
    queries = lines(WORKLOAD)[:10]
    passages = [{"id": p["id"], "text": p["text"]} for query in queries for p in query["passages"]]
    questions = [{
        "id": query["query_id"], "query": query["query"], "candidates": [p["id"] for p in query["passages"]],
        "relevant": [p["id"] for p in query["passages"] if p["relevant"]]} for query in queries]
    assert lines(DATA / "passages.jsonl") == passages
    assert lines(DATA / "questions.jsonl") == questions


def test_the_demo_runs_to_its_end(tmp_path):
    done = subprocess.run(
        [BINARIES / "prefold-demo", "--server", PREFOLD, "--rounds", "2"], cwd=tmp_path, env=environment(tmp_path),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, ""), done
    output = done.stdout
    assert "100 vectors of 384 dimensions" in output
    first, questions = map(int, re.search(r"first for (\d+) of (\d+) questions", output).groups())
    assert questions == 10 and first >= 3
    ratios = re.findall(r"^  (0|0\.95)\s+(\d+)\s+(\d+)\s+(\d\.\d{3})\s", output, re.MULTILINE)
    assert [threshold for threshold, *_ in ratios] == ["0", "0.95"] * 2
    for threshold, tokens, computed, ratio in ratios:
        if threshold == "0":
            assert (tokens, ratio) == (computed, "1.000")
        else:
            assert int(computed) < int(tokens) and float(ratio) < 0.95
    ratios = re.findall(r"off takes ([\d.]+) times as long as on \(([\d.]+) to ([\d.]+) in 2 rounds\)", output)
    assert len(ratios) == 2 and all(float(low) <= float(median) <= float(high) for median, low, high in ratios)
    assert "exited with status 0" in output
