"""Servers that need not become ready: while loading a model, or refusing it."""

import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import PREFOLD, START_LIMIT, STOP_LIMIT, Address, environment, eventually


# Writes a program's peak memory to a file and exits with its status. It is a small separate process, because the system
# counts the memory of the starting process as part of the started one's peak.
MEASURE = """
import os, resource, subprocess, sys
if sys.argv[2] != "None":
    resource.setrlimit(resource.RLIMIT_AS, (int(sys.argv[2]),) * 2)
program = subprocess.Popen(sys.argv[3:])
_, status, usage = os.wait4(program.pid, 0)
open(sys.argv[1], "w").write(str(usage.ru_maxrss << 10))
sys.exit(os.waitstatus_to_exitcode(status))
"""


class Loading(Address):
    """`prefold` on a port chosen beforehand, because the log has the port only once the model is loaded. The constructor returns
    when the port is open."""

    def __init__(self, *args, env=None, measured=False, address_space=None):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            super().__init__(free.getsockname()[1])
        self.directory = tempfile.TemporaryDirectory(prefix="prefold-e2e-")
        self.log_path = Path(self.directory.name) / "log"
        self.peak_path = Path(self.directory.name) / "peak"
        command = [PREFOLD, "--hostname", "127.0.0.1", "--port", str(self.port), *map(str, args)]
        if measured:
            command = [sys.executable, "-c", MEASURE, self.peak_path, str(address_space), *command]
        with self.log_path.open("wb") as log:
            self.process = subprocess.Popen(
                command, cwd=self.directory.name, env={**environment(self.directory.name), **(env or {})},
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True)
        eventually(lambda: self.ended() or self.status("/health") == 200, f"{command} listens", START_LIMIT)

    def ended(self):
        """True if the process has ended; its status remains to be collected."""
        if self.process.returncode is not None:
            return True
        return os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None

    def log(self):
        return self.log_path.read_text(errors="replace")

    def status(self, path):
        """Status of a response, or None without a response."""
        try:
            return self.get(path).status
        except OSError:
            return None

    def is_ready(self):
        assert not self.ended(), self.log()
        return self.status("/ready") == 200

    def signal(self, number):
        self.process.send_signal(number)

    def wait(self):
        """Waits for the exit status of a server that is ending."""
        status = self.process.wait(STOP_LIMIT)
        assert "panicked" not in self.log(), self.log()
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait(STOP_LIMIT)
        self.directory.cleanup()


def refused(*args, env=None, address_space=None):
    """Runs `prefold` with a model that it must refuse, asserts status 1, and returns (output, peak memory in bytes).
    `address_space`: as by `ulimit -v`, in bytes; beyond it an allocation ends the process."""
    with Loading(*args, env=env, measured=True, address_space=address_space) as server:
        eventually(server.ended, "it ends by itself", START_LIMIT)
        status, output = server.wait(), server.log()
        assert status == 1, f"{status}\n{output}"
        return output, int(server.peak_path.read_text())
