"""A contender's process: stopped (SIGSTOP) while others are measured, so that only the measured one computes."""

import os
import signal
import subprocess
import time
from typing import NamedTuple

MEMORY = {"VmRSS": "resident_mb", "RssAnon": "anonymous_mb", "RssFile": "file_mb", "VmHWM": "peak_mb"}


class Answer(NamedTuple):
    """`values` are vectors or scores, one per text; `tokens` counts computed tokens, including special ones."""

    seconds: float
    tokens: int
    values: list


class Process:
    """Base of Prefold and Peer. `name` is the row's name, `dtype` selects the tolerance of the check."""

    def __init__(self, name, dtype, label):
        self.name, self.dtype, self.label, self.child = name, dtype, label, None

    def launch(self, command, more=None, **streams):
        self.launched = time.perf_counter()
        # Settings of the caller's shell must not reach the server.
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("PREFOLD_", "OMP_"))}
        self.child = subprocess.Popen([str(part) for part in command], env=environment | (more or {}), **streams)

    def pause(self):
        os.kill(self.child.pid, signal.SIGSTOP)

    def resume(self):
        os.kill(self.child.pid, signal.SIGCONT)

    def memory(self):
        """Megabytes (10^6 bytes) by kind; file pages belong to mapped files, which the system can drop."""
        with open(f"/proc/{self.child.pid}/status") as status:
            fields = dict(line.split(":", 1) for line in status)
        return {name: round(int(fields[key].split()[0]) * 1024 / 1e6, 1) for key, name in MEMORY.items()}

    def stop(self):
        if self.child and self.child.poll() is None:
            self.resume()
            self.child.terminate()
            try:
                self.child.wait(20)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
