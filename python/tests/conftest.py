"""Tests of the installed package. They run in the environment that it is installed into (scripts/test-python.sh)."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "e2e"))

import harness  # noqa: E402

import prefold  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"


class Server(harness.Server):
    """The server of the package."""

    binary = Path(sys.executable).with_name("prefold")


@pytest.fixture(scope="session")
def served():
    """`served(fixture_name)`: the server on that checkpoint, shared by all tests."""
    started = {}

    def get(name):
        if name not in started:
            started[name] = Server("--model-id", FIXTURES / name)
        return started[name]

    yield get
    for server in started.values():
        server.stop()


@pytest.fixture(scope="session")
def models():
    """`models(fixture_name)`: that checkpoint in this process, shared by all tests."""
    loaded = {}

    def get(name):
        if name not in loaded:
            loaded[name] = prefold.Model(FIXTURES / name)
        return loaded[name]

    return get


@pytest.fixture(scope="session")
def texts():
    """Distinct texts of one to a few dozen words."""
    lines = [line for line in (FIXTURES / "corpus.txt").read_text().splitlines() if line.strip()]
    return list(dict.fromkeys(lines))[:40]
