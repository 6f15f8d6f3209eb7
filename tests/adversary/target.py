"""The attacked server: the real binary, with its log in a pipe that this program reads or leaves unread for a while."""

import json
import os
import re
import subprocess
import tempfile
import threading
from collections import deque

import marks
from drafts import BAD, GOOD
from harness import PREFOLD, Address, environment

LINE = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z +(ERROR|WARN|INFO|DEBUG|TRACE) .+")
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\u202a-\u202e]")
# Maximum faults kept, and log lines for reports.
MOST_FAULTS, RECENT = 50, 400


def fault(line, is_json):
    """The fault of a log line, or None."""
    text = line.decode(errors="replace")
    if marks.TEXTS.search(line):
        return "has a client's text"
    if "panicked" in text or '"target":"panic"' in text:
        return "is a panic"
    if CONTROL.search(text):
        return "has control characters"
    if not is_json:
        if not LINE.fullmatch(text):
            return "is not one line of the log"
        if text.split()[1] == "ERROR":
            return "is an error"
        return "has a client's text uncut" if len(marks.ANY.findall(line)) * (marks.LENGTH + 1) > 3 * marks.CUT else None
    try:
        value = json.loads(text)
    except ValueError:
        return "is not JSON"
    if not isinstance(value, dict) or not {"timestamp", "level"} <= value.keys():
        return "has no time or level"
    if value["level"] == "ERROR":
        return "is an error"
    return "has a client's text uncut" if marks.uncut(value) else None


class Log:
    """Reads a pipe line by line in a thread, and checks each line. `stall` leaves the pipe unread."""

    def __init__(self, pipe, is_json):
        self.pipe, self.is_json = pipe, is_json
        self.count, self.recent, self.faults = 0, deque(maxlen=RECENT), []
        self.reads = threading.Event()
        self.reads.set()
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def stall(self):
        self.reads.clear()

    def resume(self):
        self.reads.set()

    def _read(self):
        rest = b""
        while True:
            self.reads.wait()
            data = os.read(self.pipe.fileno(), 1 << 14)
            if not data:
                break
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                self._take(line)
        if rest:
            self._take(rest)

    def _take(self, line):
        self.count += 1
        self.recent.append(line[:2000])
        what = fault(line, self.is_json)
        if what and len(self.faults) < MOST_FAULTS:
            self.faults.append((what, line[:600].decode(errors="replace")))

    def text(self):
        return b"\n".join(list(self.recent)).decode(errors="replace")


class Target(Address):
    """A running server with two keys, one for the good client and one for the attackers."""

    def __init__(self, limits, *args, is_json=True):
        super().__init__(None)
        self.limits, self.args = limits, args
        self.directory = tempfile.TemporaryDirectory(prefix="prefold-adversary-")
        command = [PREFOLD, "--hostname", "127.0.0.1", "--port", "0", *limits.flags(), *args, *(["--json-output"] if is_json else [])]
        command += ["--api-key", GOOD, "--api-key", BAD]
        self.process = subprocess.Popen(
            list(map(str, command)), cwd=self.directory.name, env=environment(self.directory.name), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.log = Log(self.process.stdout, is_json)
        self.wait_until_ready(self.process, self.log.text)

    def close(self):
        """Ends the process if it still runs."""
        self.log.resume()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.log.thread.join(10)
        self.process.stdout.close()
        self.directory.cleanup()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
