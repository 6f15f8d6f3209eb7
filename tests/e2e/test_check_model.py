"""`prefold check-model`: verdicts, descriptions of models, and exit statuses."""

import json
import shutil
import subprocess

import pytest

from harness import FIXTURES, PREFOLD, environment


def check(home, *arguments):
    done = subprocess.run([PREFOLD, "check-model", *map(str, arguments)], env=environment(home), capture_output=True, text=True)
    return done.returncode, done.stdout, done.stderr


def test_a_model_that_runs(tmp_path):
    status, text, _ = check(tmp_path, FIXTURES / "embeddinggemma-tiny", "--json")
    found = json.loads(text)
    assert (status, found["verdict"], found["notes"]) == (0, "runs", [])
    assert found["family"] == "gemma3_text" and found["attention"] == "full, windowed"
    assert found["answers"]["embed"] == {"dimensions": 32, "pooling": ["mean"]} and "rerank" in found["answers"]
    assert found["prompts"] == ["Clustering", "STS", "document", "query"]
    assert found["max_input_length"] == 512 and found["stored_dtype"] == "float32"
    weights = {dtype: memory["weights_bytes"] for dtype, memory in found["memory"].items()}
    assert weights["float32"] > weights["bfloat16"] > weights["int8"] > found["parameters"]
    status, text, _ = check(tmp_path, "--model-id", FIXTURES / "embeddinggemma-tiny")
    batches = max(memory["default_batch_bytes"] for memory in found["memory"].values())
    assert f"batches     {-(-batches // 2**20)} MiB at a start, with --max-batch-tokens 16384" in text, text
    assert status == 0 and "embeddinggemma-tiny runs\n" in text and "embeddings  of 32 values, pooling mean" in text


@pytest.mark.parametrize("changes, words", [
    ({"model_type": "longt5"}, "longt5"),
    ({"intermediate_size": 49}, "mlp.gate_proj.weight"),
    ({"attn_logit_softcapping": 30.0}, "attn_logit_softcapping"),
])
def test_a_model_that_does_not_run(tmp_path, changes, words):
    model = tmp_path / "model"
    shutil.copytree(FIXTURES / "embeddinggemma-tiny", model)
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, **changes}))
    status, text, _ = check(tmp_path, model, "--json")
    found = json.loads(text)
    assert (status, found["verdict"]) == (1, "does_not_run") and words in found["notes"][0], found
    status, text, _ = check(tmp_path, model)
    assert status == 1 and "does not run" in text and words in text


def test_flags_of_a_start(tmp_path):
    model = FIXTURES / "qwen3-tiny"
    status, text, _ = check(tmp_path, model, "--pooling", "mean", "--json")
    assert status == 0 and json.loads(text)["answers"]["embed"]["pooling"] == ["mean"]
    status, text, _ = check(tmp_path, model, "--default-prompt-name", "nix", "--json")
    found = json.loads(text)
    assert (status, found["verdict"]) == (1, "does_not_run") and "nix" in found["notes"][0]
    status, _, error = check(tmp_path, model, "--rerank-recipe", "nix")
    assert status == 2 and "nix" in error
    # The output does not depend on the machine.
    status, _, error = check(tmp_path, model, "--device", "cuda:0")
    assert status == 2 and "--device" in error


@pytest.mark.parametrize("flags", [(), ("--offline",)])
def test_a_model_that_could_not_be_looked_at(tmp_path, flags):
    status, text, _ = check(tmp_path, "owner/none", *flags, "--json")
    found = json.loads(text)
    assert (status, found["verdict"]) == (3, "unknown") and "owner/none" in found["notes"][0], found
    status, text, _ = check(tmp_path, "owner/none", *flags)
    assert status == 3 and text.startswith("owner/none could not be checked: ") and text.count("\n") == 1, text


def test_a_name_that_is_no_model(tmp_path):
    status, _, error = check(tmp_path, "no such thing")
    assert status == 2 and "no such thing" in error
