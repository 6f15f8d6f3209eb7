"""The programs in examples/ run, and their output equals the server's responses."""

import json
import shutil
import socket
import struct
import subprocess
import sys

import pytest

from harness import FIXTURES, PREFOLD, ROOT, environment
from reference import assert_close

EXAMPLES = ROOT / "examples"
PASSAGES = ["The tide comes in twice a day.", "Use flock to lock a file.", "A dog runs across a field."]


def run(*command, cwd=None, env=None):
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rag_rerank(builtin, tmp_path):
    passages = tmp_path / "passages.txt"
    passages.write_text("\n".join(PASSAGES))
    url = builtin.url()
    output = run(sys.executable, EXAMPLES / "rag_rerank.py", "How do I lock a file?", passages, "--embed", url, "--rerank", url)
    first, *_, last = output.splitlines()
    assert first.endswith(PASSAGES[1]) and "tokens" in last


def test_embed_jsonl(builtin, tmp_path):
    texts, vectors = tmp_path / "texts.jsonl", tmp_path / "vectors.f32"
    texts.write_text("".join(json.dumps({"text": text}) + "\n" for text in PASSAGES))
    run(sys.executable, EXAMPLES / "embed_jsonl.py", texts, vectors, "--url", builtin.url(), "--batch", 2)
    rows = builtin.ask("/embed", inputs=PASSAGES)
    got = struct.unpack(f"<{3 * len(rows[0])}f", vectors.read_bytes())
    assert_close(got, [x for row in rows for x in row], 1e-6)


def test_curl(builtin):
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    lines = run(EXAMPLES / "curl.sh", builtin.url()).splitlines()
    answers = [json.loads(line) for line in lines if not line.startswith("POST")]
    assert len(answers) == 6 and answers[-1]["status"] == "ready"


def test_minilm(builtin, tmp_path):
    """A small encoder of the repository replaces the download."""
    if shutil.which("curl") is None:
        pytest.skip("there is no curl")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    given = {**environment(tmp_path), "PREFOLD": str(PREFOLD), "PORT": port, "MODEL": str(FIXTURES / "bert-mean-tiny")}
    cosines = json.loads(run(EXAMPLES / "minilm.sh", env=given))
    assert len(cosines) == 2 and all(-1 <= cosine <= 1 for cosine in cosines)
    failed = subprocess.run([EXAMPLES / "minilm.sh"], env={**given, "MODEL": str(tmp_path)}, capture_output=True, text=True,
                            timeout=60)
    assert failed.returncode == 1 and "config.json" in failed.stderr


def test_node(builtin, tmp_path):
    if shutil.which("npm") is None:
        pytest.skip("there is no Node")
    project = tmp_path / "node"
    shutil.copytree(EXAMPLES / "node", project, ignore=shutil.ignore_patterns("node_modules"))
    run("npm", "ci", "--no-audit", "--no-fund", cwd=project)
    got = json.loads(run("node", "embed.mjs", builtin.url(), cwd=project))
    for vector, row in zip(got, builtin.ask("/embed", inputs=["How do I lock a file?", "Use flock."]), strict=True):
        assert_close(vector, row, 1e-6)
