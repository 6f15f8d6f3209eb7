"""Processes with a time limit: their output is copied as it is printed, and neither they nor their children outlive the limit."""

import ctypes
import os
import selectors
import signal
import subprocess
import time
from dataclasses import dataclass

# Seconds between SIGTERM and SIGKILL.
GRACE_S = 3
# Seconds to wait after SIGKILL; a process that a driver holds longer is abandoned.
KILLED_S = 5
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None)


@dataclass
class Ended:
    """End of a process: status (None if it was stopped at its limit), seconds, and output."""

    status: int | None
    seconds: float
    output: str

    @property
    def ok(self):
        return self.status == 0


def run(command, limit_s, copy, env=None, cwd=None):
    """Runs a command and its children for at most `limit_s` seconds, and calls `copy` with each piece of output."""
    start = time.monotonic()
    command = [str(part) for part in command]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env, cwd=cwd, start_new_session=True,
            preexec_fn=die_with_parent,
        )  # fmt: skip
    except OSError as error:
        copy(f"{command[0]}: {error}\n")
        return Ended(127, 0.0, str(error))
    output = []

    def take(piece):
        text = piece.decode(errors="replace")
        output.append(text)
        copy(text)

    try:
        in_time = read_until(process.stdout, start + limit_s, take) and wait_until(process, start + limit_s)
    finally:
        stop(process)
    take_rest(process.stdout, take)
    process.stdout.close()
    return Ended(process.returncode if in_time else None, time.monotonic() - start, "".join(output))


def die_with_parent():
    """In the child: makes the kernel end it when its parent is killed."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def read_until(pipe, deadline, take):
    """Reads a pipe to its end; returns false if the time is up before."""
    with selectors.DefaultSelector() as selector:
        selector.register(pipe, selectors.EVENT_READ)
        while (left := deadline - time.monotonic()) > 0:
            if selector.select(left):
                piece = os.read(pipe.fileno(), 1 << 16)
                if not piece:
                    return True
                take(piece)
    return False


def take_rest(pipe, take):
    """Reads what is in a pipe without waiting; a process that left the group may hold it open forever."""
    os.set_blocking(pipe.fileno(), False)
    try:
        while piece := os.read(pipe.fileno(), 1 << 16):
            take(piece)
    except BlockingIOError:
        pass


def wait_until(process, deadline):
    """True if the process has ended by the deadline."""
    try:
        process.wait(max(0, deadline - time.monotonic()))
        return True
    except subprocess.TimeoutExpired:
        return False


def stop(process):
    """Ends the process and its children, which are in its process group: a hanging kernel must not keep the device."""
    for sign in signal.SIGTERM, signal.SIGKILL:
        try:
            os.killpg(process.pid, sign)
        except ProcessLookupError:
            break
        if sign == signal.SIGTERM and wait_until(process, time.monotonic() + GRACE_S):
            # Children that ignored the request.
            continue
    wait_until(process, time.monotonic() + KILLED_S)
