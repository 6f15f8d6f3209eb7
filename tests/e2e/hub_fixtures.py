"""Fixtures of the tests with a local hub, for the files that import them."""

import pytest

from fake_hub import NAME, Hub
from reference import assert_unit, expected

WEIGHTS = "model.safetensors"


@pytest.fixture
def hub():
    with Hub() as hub:
        yield hub


@pytest.fixture
def xet_hub():
    with Hub(xet=[WEIGHTS]) as hub:
        yield hub


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


def arguments(hub, cache, timeout=60):
    return ["--model-id", NAME, "--hf-endpoint", hub.url, "--huggingface-hub-cache", cache, "--download-timeout", timeout]


def assert_serves(server):
    """Asserts that the vectors equal the reference, so the model is complete."""
    case = expected("qwen3-tiny")["cases"][0]
    assert_unit(server.ask("/embed", inputs=case["text"])[0], case["last_normalized"])
