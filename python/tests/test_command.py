"""The command `prefold` of the package."""

import importlib.metadata
import json
import re
import signal
import subprocess
import sys

import pytest

import prefold
from conftest import FIXTURES, Server
from harness import environment

SCRIPT = [str(Server.binary)]
MODULE = [sys.executable, "-m", "prefold"]


def run(command, *arguments, directory):
    return subprocess.run([*command, *map(str, arguments)], cwd=directory, env=environment(directory), capture_output=True,
                          text=True, timeout=120)


@pytest.mark.parametrize("command", [SCRIPT, MODULE])
def test_version_and_status(command, tmp_path):
    done = run(command, "--version", directory=tmp_path)
    assert prefold.__version__ == importlib.metadata.version("prefold")
    # The command has cargo's form of the version; the commit follows where the build knew it.
    version = re.escape(prefold.__version__.replace(".dev0", "-dev"))
    assert done.returncode == 0 and re.fullmatch(rf"prefold {version}( \([0-9a-f]{{12}}\))?\n", done.stdout)
    wrong = run(command, "--no-such-flag", directory=tmp_path)
    assert wrong.returncode == 2 and "--no-such-flag" in wrong.stderr
    missing = run(command, "--model-id", "/no/such/model", directory=tmp_path)
    assert missing.returncode == 2 and "/no/such/model" in missing.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_server_stops_on_signals(number):
    server = Server()
    assert len(server.ask("/embed", inputs="a text")[0]) == 384
    server.process.send_signal(number)
    server.check_end()


def test_a_command_that_starts_itself_again(tmp_path):
    """`prefold accuracy` runs each dtype in a separate process with the same command."""
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps(f"text {number}") + "\n" for number in range(4)))
    done = run(SCRIPT, "accuracy", FIXTURES / "bert-mean-tiny", "--texts", "texts.jsonl", "--json", "-", directory=tmp_path)
    assert done.returncode == 0 and "4 texts, texts.jsonl, " in done.stderr, done.stderr
    assert json.loads(done.stdout)["other"]["dtype"] == "bfloat16"
