"""Loads one model, with `check-model` or a server start, within bounds of memory and time; a violation becomes a finding."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from harness import ADDRESS, PREFOLD, Address, environment
from limits import MB

# Bounds of the peak memory of loading: for the program and its libraries, and per byte of the files.
BASE, EACH = 512 * MB, 8
# Bounds in seconds, for a busy machine and an unoptimised program: for a tiny model, and per MB of its files.
SECONDS, PER_MB = 90.0, 4.0
# Address space beyond the memory: code, stacks, reservations of the allocator.
RESERVED = 4 << 30
# Maximum bytes of output: messages repeat parts of files, not whole files.
SAID = 64_000
# Maximum seconds for the answer to a text, for a health check meanwhile, and from SIGTERM to the exit.
ANSWER, HEALTH, STOP = 20.0, 5.0, 30.0
# Texts sent to a started model: an endless word, letters of its tokens, spaces, and characters that normalisers change.
TEXTS = ("a" * 20_000, "ab " * 7000, " " * 20_000, "é" * 10_000, "▁" * 6000 + "a" * 3000, "1a2b " * 4000)
# Status of check-model without a verdict, because the hub fails.
UNKNOWN = 3
# Starts the program with a limit of its address space, and records its status and its own peak memory.
STARTER = """
import os, resource, signal, subprocess, sys
signal.signal(signal.SIGTERM, lambda *_: None)
resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
program = subprocess.Popen(sys.argv[3:])
_, status, usage = os.wait4(program.pid, 0)
open(sys.argv[1], "w").write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss << 10}")
"""


@dataclass
class Load:
    """Result of a load."""

    status: int | None  # None if it was killed after its time limit.
    seconds: float
    peak: int
    said: str
    bound: int
    limit: float
    problems: tuple = ()  # Problems of a started server: (rule, detail).


class Loading:
    """A running load: check-model if `check`, else a server start; `room` is additional memory that it may take, in bytes."""

    def __init__(self, check, *arguments, size, room=0, env=None):
        self.bound, self.limit = BASE + EACH * size + room, SECONDS + PER_MB * size / MB
        self.directory = Path(tempfile.mkdtemp(prefix="prefold-load-"))
        self.log, self.result = self.directory / "log", self.directory / "result"
        command = [PREFOLD, "check-model", *arguments] if check else [PREFOLD, "--hostname", "127.0.0.1", "--port", "0", "--model-id",
            *arguments]
        starter = [sys.executable, "-c", STARTER, self.result, self.bound + RESERVED, *command]
        self.begun, self.most, self.is_killed = time.monotonic(), 0, False
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(list(map(str, starter)), env={**environment(self.directory), **(env or {})},
                stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, cwd=self.directory, start_new_session=True)

    def said(self):
        return self.log.read_text(errors="replace")

    def is_over(self, seconds):
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return False
        return True

    def resident(self):
        """Resident bytes of the program, or 0."""
        try:
            child = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0]
            return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{child}/status").read_text()).group(1)) << 10
        except (OSError, IndexError, AttributeError):
            return 0

    def wait(self, is_enough=lambda: False):
        """Waits until the load is over, far beyond a bound, or `is_enough()`; returns whether it is enough."""
        while not self.is_over(0.05):
            if is_enough():
                return True
            self.most = max(self.most, self.resident())
            if time.monotonic() - self.begun > self.limit or self.most > 2 * self.bound:
                self.kill()
        return False

    def kill(self):
        self.is_killed = True
        os.killpg(self.process.pid, signal.SIGKILL)

    def end(self, problems=()):
        """The result of the finished load."""
        if self.process.poll() is None:
            self.kill()
        self.process.wait()
        assert self.is_killed or self.result.exists(), f"the program did not start: {self.said()}"
        found = self.result.read_text().split() if self.result.exists() else [None, 0]
        load = Load(found[0] and int(found[0]), time.monotonic() - self.begun, max(self.most, int(found[1])), self.said(), self.bound,
            self.limit, tuple(problems))
        shutil.rmtree(self.directory, ignore_errors=True)
        return load


def check(*arguments, size, room=0, env=None):
    """`prefold check-model`."""
    loading = Loading(True, *arguments, size=size, room=room, env=env)
    loading.wait()
    return loading.end()


def start(*arguments, size, room=0, env=None, texts=TEXTS):
    """A server start; if it succeeds, requests with texts and a stop."""
    loading = Loading(False, *arguments, size=size, room=room, env=env)
    server = Address(None)

    def is_ready():
        if server.port is None:
            found = ADDRESS.search(loading.said())
            server.port = found and int(found.group(1))
        try:
            return server.port is not None and server.get("/ready").status == 200
        except OSError:
            return False
    if not loading.wait(is_ready):
        return loading.end()
    problems = list(asked(server, texts))
    begun = time.monotonic()
    os.killpg(loading.process.pid, signal.SIGTERM)
    if not loading.is_over(STOP):
        problems.append(("shutdown", f"no end {time.monotonic() - begun:.0f} s after SIGTERM"))
    return loading.end(problems)


def asked(server, texts):
    """(rule, detail) of answers to texts that are late or fail."""
    for route in ("/embed", "/tokenize"):
        for text in texts:
            for what, limit, ask in ((f"POST {route} of {text[:9]!r}...", ANSWER, lambda: server.post(route, {"inputs": [text,
                text]}).status),
                                     ("GET /health", HEALTH, lambda: server.get("/health").status)):
                begun = time.monotonic()
                try:
                    status = ask()
                except OSError as error:
                    yield "no answer", f"{what}: {error!r}"
                    return
                if time.monotonic() - begun > limit:
                    yield "latency", f"{what} took {time.monotonic() - begun:.1f} s"
                if status not in (200, 400, 404, 413, 422, 424):
                    yield "status", f"{what}: {status}"


def faults(load):
    """(rule, detail) of a load."""
    yield from load.problems
    if load.status is None:
        yield "killed", f"after {load.seconds:.0f} s with {load.peak / MB:.0f} MB: allowed are {load.limit:.0f} s, and twice {load.bound / MB:.0f} MB"
    elif load.status < 0:
        yield "death", f"ended by signal {signal.Signals(-load.status).name}"
    elif load.status not in (0, 1, UNKNOWN):
        yield "status", f"{load.status}, an error is 1"
    if "panicked" in load.said:
        yield "panic", load.said[-600:]
    if load.peak > load.bound:
        yield "memory", f"{load.peak / MB:.0f} MB at the peak, the bound is {load.bound / MB:.0f} MB"
    if len(load.said) > SAID:
        yield "message", f"{len(load.said)} bytes of output"
    if (load.status or 0) > 0 and not load.said.strip():
        yield "message", "an error without a word"
