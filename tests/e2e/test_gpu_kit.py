"""The kit for a machine with a GPU (benches/gpu/run.py) with misbehaving programs: its results, and that it ends."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest
from harness import ROOT

RUN = ROOT / "benches/gpu/run.py"
MIB = 1 << 20
# Maximum size of a pack for such a machine, and of the programs for one architecture (benches/gpu/README.md).
MOST_SENT, MOST_PROGRAMS = 64 * MIB, 13 * MIB
SPARSE = ("benches/", "kernels/cuda/", "router/builtin/", "tests/fixtures/")
# Limits of the results: number of files, and bytes of each.
MOST_FILES, MOST_FILE_BYTES = 8, 16 * MIB
PLAIN = re.compile(r"[A-Za-z0-9._-]+")


class Kit:
    """Runs of the kit with programs that are shell scripts."""

    def __init__(self, directory):
        self.programs = directory / "bin"
        self.out = directory / "out"
        self.work = directory / "work"
        self.programs.mkdir()
        self.program("prefold", "echo prefold 0.0.0")

    def program(self, name, script):
        path = self.programs / name
        path.write_text(f"#!/bin/bash\n{script}\n")
        path.chmod(0o755)

    def tests(self, name, *tests, run):
        """A test program with these tests; `run` is its behaviour unless it lists their names."""
        names = " ".join(f"'{test}: test'" for test in tests)
        self.program(name, f'if [[ " $* " == *" --list "* ]]; then printf "%s\\n" {names}; exit; fi\n{run}')

    def start(self, *arguments):
        command = [sys.executable, RUN, "--programs", self.programs, "--out", self.out, "--work", self.work, *map(str, arguments)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def run(self, *arguments):
        process = self.start(*arguments)
        output, _ = process.communicate(timeout=120)
        return process.returncode, output

    def results(self):
        return json.loads((self.out / "results.json").read_text())

    def verdict(self, check):
        return self.results()["checks"][check]["verdict"]

    def note(self, check):
        return self.results()["checks"][check]["note"]


@pytest.fixture
def kit(tmp_path):
    return Kit(tmp_path)


def wait_for(condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    # An orphaned child stays a zombie if the init process does not reap it.
    return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"


def test_what_may_be_sent_holds_the_programs_and_what_they_read():
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout")
    names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    # A sparse checkout has the files in the root, in these folders, and in their parent folders.
    sent = [ROOT / name for name in names if "/" not in name or name.startswith(SPARSE) or re.fullmatch("(tests|kernels)/[^/]*", name)]
    size = sum(path.stat().st_size for path in sent if path.is_file())
    assert 40 * MIB < size <= MOST_SENT - MOST_PROGRAMS, f"{size} bytes without the programs"


def test_few_files_with_plain_names_come_back(kit):
    kit.tests("test-kernels", "a::one", "b::two", run="for name in a::one b::two; do echo test $name ... ok; done; yes | head -c 20000000")
    kit.tests("test-backends", "one", run="echo test one ... ok; printf '\\xff\\xfe the end\\n'")
    status, output = kit.run("--only", "machine,kernel-tests,model-tests", "--device", "cpu")
    assert status == 0, output
    files = [path for path in kit.out.rglob("*") if path.is_file()]
    assert 0 < len(files) <= MOST_FILES
    for path in files:
        assert path.parent == kit.out and PLAIN.fullmatch(path.name) and path.stat().st_size <= MOST_FILE_BYTES, path
    log = (kit.out / "log.txt").read_text()
    assert log.count("the limit of the log") == 1 and "the end" in log[-300:]
    assert "| kernel-tests | ok |" in (kit.out / "summary.md").read_text()
    assert "prefold 0.0.0" in output


def test_a_killed_run_leaves_its_results(kit):
    pid = kit.work / "pid"
    kit.tests("test-kernels", "one", run=f"echo $$ >{pid}; echo test one is long; exec sleep 300")
    process = kit.start("--only", "machine,kernel-tests", "--device", "cpu")
    wait_for(lambda: (kit.out / "log.txt").exists() and "is long" in (kit.out / "log.txt").read_text())
    process.kill()
    process.wait()
    wait_for(lambda: not is_running(int(pid.read_text())))
    assert kit.verdict("machine") == "ok" and kit.verdict("kernel-tests") == "unfinished"
    assert "| machine | ok |" in (kit.out / "summary.md").read_text()


@pytest.mark.parametrize("told", [True, False])
def test_nothing_outlives_the_run(kit, told):
    """A program that ignores the request to stop, and its child, are ended at the end of the budget and when the run is stopped."""
    pids = kit.work / "pids"
    kit.tests("test-kernels", "one", run=f"trap '' TERM; sleep 300 & echo $$ $! >{pids}.new; mv {pids}.new {pids}; wait; wait; sleep 300")
    kit.tests("test-backends", "one", run="echo test one ... ok")
    process = kit.start("--only", "kernel-tests,model-tests", "--budget", 100 if told else 6)
    if told:
        wait_for(pids.exists)
        process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert not any(is_running(int(pid)) for pid in pids.read_text().split())
    assert process.returncode == (1 if told else 2), output
    assert kit.verdict("kernel-tests") == ("unfinished" if told else "cut")
    assert kit.verdict("model-tests") == "not run"


def test_tests_that_fail_run_again_alone(kit):
    run = """
case " $* " in
    *" first "*) exit 0 ;;
    *" second "*) echo "said by the second"; exit 101 ;;
esac
echo "test fine ... ok"; echo "test first ... FAILED"; echo "test left_out ... ignored"
kill -SEGV $$"""
    kit.tests("test-kernels", "fine", "first", "second", "left_out", run=run)
    status, output = kit.run("--only", "kernel-tests")
    assert status == 1, output
    assert kit.results()["figures"]["kernel-tests"] == {"fine": "ok", "first": "ok", "second": "FAILED", "left_out": "ignored"}
    assert kit.note("kernel-tests") == "3 of 4 tests pass; not second (FAILED); alone, not with others: first"
    assert "said by the second" in (kit.out / "failures.txt").read_text()


def test_a_test_that_hangs_leaves_time_for_the_others(kit):
    run = """
case " $* " in
    *" hangs "*) sleep 300 ;;
    *" other "*) exit 0 ;;
esac
echo "test fine ... ok"
sleep 300"""
    kit.tests("test-kernels", "fine", "hangs", "other", run=run)
    status, output = kit.run("--only", "kernel-tests", "--budget", "16")
    assert status == 1, output
    assert kit.results()["figures"]["kernel-tests"] == {"fine": "ok", "hangs": "stopped", "other": "ok"}


def test_a_server_that_does_not_serve_is_heard(kit):
    kit.program("prefold", "echo the reason; exit 3")
    assert kit.run("--only", "serve-decoder", "--device", "cpu")[0] == 1
    assert "the reason" in (kit.out / "failures.txt").read_text() and kit.note("serve-decoder") == "the server ended"
    kit.program("prefold", "echo the reason; sleep 300")
    assert kit.run("--only", "serve-decoder", "--device", "cpu", "--budget", "4")[0] == 2
    assert "the reason" in (kit.out / "log.txt").read_text() and kit.note("serve-decoder") == "no time is left"


def test_answers_of_an_earlier_run_are_not_compared(kit):
    model = kit.work / "models/0.6b"
    (model / "shape").mkdir(parents=True)
    (model / "shape/model.safetensors").touch()
    (model / "answers.safetensors").touch()
    kit.program("prefold-bench", "exit 4")
    kit.run("--only", "forward-0.6b,parity-0.6b", "--device", "cpu")
    assert (kit.verdict("forward-0.6b"), kit.verdict("parity-0.6b")) == ("FAILED", "skipped")


def test_nobody_has_to_read_the_output(kit):
    kit.tests("test-backends", "one", run="echo test one ... ok")
    process = kit.start("--only", "machine,model-tests", "--device", "cpu")
    process.stdout.close()
    assert process.wait(60) == 0
    assert kit.verdict("model-tests") == "ok"


def test_a_check_that_cannot_run_fails_alone(kit):
    kit.tests("test-backends", "one", run="echo test one ... ok")
    status, output = kit.run("--only", "kernel-tests,model-tests,parity-0.6b")
    assert status == 1, output
    assert kit.verdict("kernel-tests") == "FAILED" and kit.verdict("model-tests") == "ok"
    assert (kit.verdict("parity-0.6b"), kit.note("parity-0.6b")) == ("skipped", "no answers of forward-0.6b")


def test_checks_are_chosen_by_name_and_place(kit):
    kit.tests("test-backends", "one", run="echo test one ... ok")
    status, output = kit.run("--only", "nothing")
    assert status == 1 and "there is no check nothing; there are machine, ceilings" in output
    status, output = kit.run("right", "--from", "model-tests", "--budget", "1")
    assert list(kit.results()["checks"])[:2] == ["model-tests", "serve-decoder"]
    assert status == 2, output
