"""`prefold analyze` agrees with the server's own token counts on the rerank workload."""

import json
import shlex
import subprocess

import pytest

from harness import FIXTURES, PREFOLD, ROOT, Server, environment

WORKLOAD = ROOT / "tests" / "workloads" / "docs-rerank.jsonl"
PROMPT = ("<|im_start|>system\nYou are a helpful assistant specialized in embedding text for retrieval tasks.<|im_end|>\n"
          "<|im_start|>user\n{query} embed the following sentences that is part of bing query dataset, with target to help "
          "find relevant web documents. {text}<|im_end|>\n<|im_start|>assistant\n")


def analyze(tmp_path, *args, stdin=None, env=None):
    return subprocess.run([PREFOLD, "analyze", *map(str, args)], cwd=tmp_path, env={**environment(tmp_path), **(env or {})},
                          input=stdin, capture_output=True, text=True, timeout=120)


def report(tmp_path, *args, **options):
    done = analyze(tmp_path, *args, "--json", **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def texts():
    lines = map(json.loads, WORKLOAD.read_text().splitlines())
    return [PROMPT.replace("{query}", line["query"]).replace("{text}", passage["text"])
            for line in lines for passage in line["passages"]]


@pytest.fixture(scope="module")
def ids(builtin, texts):
    """Token ids from the server for the texts."""
    return [[token["id"] for token in tokens]
            for start in range(0, len(texts), 500) for tokens in builtin.ask("/tokenize", inputs=texts[start:start + 500])]


def nodes(sequences):
    """Number N' of distinct non-empty prefixes, and the sum of their lengths, which is the number of query-key pairs."""
    prefixes, pairs = set(), 0
    for sequence in sequences:
        path = ()
        for position, token in enumerate(sequence):
            # A prefix is identified by its parent's number; storing whole prefixes would be quadratic.
            path = (hash(path), token)
            if path not in prefixes:
                prefixes.add(path)
                pairs += position + 1
    return len(prefixes), pairs


def test_the_workload_has_the_ratios_of_the_servers_tokens(tmp_path, texts, ids):
    found = report(tmp_path, WORKLOAD, "--template", PROMPT.replace("\n", r"\n"))
    assert found["input"]["requests"] == 200
    assert found["input"]["texts"] == len(texts) == 2000
    assert found["input"]["tokens"] == sum(map(len, ids))
    assert [size["texts"] for size in found["batch_sizes"]] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]
    for size in found["batch_sizes"]:
        full = [ids[start:start + size["texts"]] for start in range(0, len(ids), size["texts"])]
        full = [batch for batch in full if len(batch) == size["texts"]]
        assert size["batches"] == len(full)
        unique, tree_pairs = (sum(values) for values in zip(*map(nodes, full), strict=True))
        tokens = sum(len(text) for batch in full for text in batch)
        pairs = sum(len(text) * (len(text) + 1) // 2 for batch in full for text in batch)
        assert size["compaction_ratio"] == pytest.approx(unique / tokens, rel=1e-9)
        assert size["attention_ratio"] == pytest.approx(tree_pairs / pairs, rel=1e-9)
        # Amdahl's law.
        share = size["attention_share"]
        assert size["speed_up_ragged"] == pytest.approx(1 / (share + (1 - share) * unique / tokens))
        assert size["speed_up_compact"] == pytest.approx(1 / (share * tree_pairs / pairs + (1 - share) * unique / tokens))
    assert found["recommendation"]["worth_it"] is True
    assert found["recommendation"]["radix_mlp_threshold"] == 0.95


def test_the_server_reports_the_same_ratio(tmp_path, builtin, texts):
    found = report(tmp_path, "-", stdin="\n".join(map(json.dumps, texts[:64])))
    size = found["batch_sizes"][-1]
    assert size["texts"] == 64
    response = builtin.post("/embed", {"inputs": texts[:64]})
    assert float(response.headers["x-compaction-ratio"]) == pytest.approx(size["compaction_ratio"], abs=1e-3)


def test_lines_that_share_nothing_are_not_worth_it(tmp_path):
    # Every line starts with a different token.
    words = ["tide", "bread", "clock", "violin", "zebra", "mountain", "quick", "house"]
    done = analyze(tmp_path, stdin="".join(f"{word} is a word\n" for word in words))
    assert done.returncode == 0, done.stderr
    assert "8 texts in 8 lines" in done.stdout
    assert "Not worth it" in done.stdout and "--radix-mlp-threshold 0 " in done.stdout
    assert done.stderr == "", "no progress bar without a terminal"


def test_the_recommended_command_starts_the_server(tmp_path):
    model = FIXTURES / "qwen3-tiny"
    done = analyze(tmp_path, "--model-id", model, "--task", "embed", stdin="The tide comes in twice a day.\n" * 4)
    assert done.returncode == 0, done.stderr
    program, *flags = shlex.split(done.stdout.splitlines()[-1])
    assert program == "prefold" and flags[:2] == ["--model-id", str(model)] and "--task embed" in done.stdout
    with Server(*flags) as server:
        assert server.get("/info").json()["model_id"] == str(model)


def test_flags_are_variables_too(tmp_path):
    for variable in ["PREFOLD_ANALYZE_MODEL_ID", "PREFOLD_MODEL_ID", "MODEL_ID"]:
        done = analyze(tmp_path, stdin="a\n", env={variable: str(FIXTURES / "llama-tiny")})
        assert done.returncode == 0 and done.stdout.startswith("model    llama "), (variable, done.stdout, done.stderr)
    done = analyze(tmp_path, stdin="a\n", env={"PREFOLD_ANALYZE_FORMAT": "csv"})
    assert done.returncode == 2 and "(environment variable PREFOLD_ANALYZE_FORMAT)" in done.stderr, done.stderr


def test_an_encoder_shares_no_prefixes(tmp_path):
    done = analyze(tmp_path, "--model-id", FIXTURES / "bert-mean-tiny", stdin="a text\n")
    assert done.returncode == 1 and "(bert) is an encoder" in done.stderr, done


def test_errors_name_the_line_and_exit_1(tmp_path):
    done = analyze(tmp_path, stdin='{"text": "a"}\n{"query": "q"}\n')
    assert done.returncode == 1
    assert done.stdout == ""
    assert "line 2: has no text" in done.stderr
    done = analyze(tmp_path, "--model-id", "/no/such/model", stdin="a")
    assert done.returncode == 2 and "/no/such/model" in done.stderr
    done = analyze(tmp_path, tmp_path)
    assert done.returncode == 1 and f"{tmp_path} is a directory" in done.stderr
