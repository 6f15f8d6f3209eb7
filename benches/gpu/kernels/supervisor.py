"""Child processes that run the cases, with a time limit per case: one for the checks of each family, one for all timings, which import
torch, and a new one after each failure."""

import json
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

PACKAGE = Path(__file__).parent
# Maximum seconds until a child has a context and has found the modules.
START_LIMIT = 90
# Maximum seconds until a killed child has ended.
END_LIMIT = 10


class Failed(Exception):
    """A child ended, or was killed because it did not answer."""


class Child:
    """A process of worker.py, for a `with` block; `description` is its report on the device and the modules."""

    def __init__(self, settings, limit=START_LIMIT):
        self.said = tempfile.TemporaryFile("w+", errors="replace")
        command = [sys.executable, "-X", "faulthandler", str(PACKAGE), "--child"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.said, text=True)
        self.answers = queue.Queue()
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        try:
            answer = self.ask(settings, limit)
            if "refused" in answer:
                raise Failed(answer["refused"])
        except BaseException:
            self.end()
            raise
        self.description = answer["ready"]

    def _read(self):
        for line in self.process.stdout:
            self.answers.put(line)
        self.answers.put(None)

    def ask(self, message, limit):
        """The answer to a message; raises Failed if the child ends or takes longer than `limit` seconds."""
        try:
            self.process.stdin.write(json.dumps(message) + "\n")
            self.process.stdin.flush()
        except OSError:
            pass # It has ended, which the queue reports too.
        try:
            line = self.answers.get(timeout=limit)
        except queue.Empty:
            self.process.kill()
            raise Failed(f"did not answer within {limit:.0f} s and was ended") from None
        if line is None:
            raise Failed(self._end())
        return json.loads(line)

    def _end(self):
        status = self.process.wait()
        how = signal.Signals(-status).name if status < 0 else f"status {status}"
        self.said.seek(0)
        said = self.said.read()[-2000:].strip()
        return f"the process ended with {how}" + (f": {said}" if said else "")

    def end(self):
        self.process.kill()
        try:
            self.process.wait(END_LIMIT)
        except subprocess.TimeoutExpired:
            return # It hangs in the driver, waiting for the device; another process may still work.
        self.reader.join()
        self.process.stdout.close()
        try:
            self.process.stdin.close()
        except BrokenPipeError:
            pass # It did not read the message.
        self.said.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()


class Supervisor:
    """Runs cases one after another. `limit`: seconds of a case."""

    def __init__(self, settings, limit):
        self.settings, self.limit, self.child, self.part = settings, limit, None, None

    def run(self, family, case):
        """The result of a case: whether it is `ok`, with its figures or its `problem`."""
        part = "timings" if case.timed else family
        if part != self.part:
            self.stop()
        self.part = part
        try:
            self.child = self.child or Child(self.settings)
            request = {"family": family, "name": case.name, "timed": case.timed}
            result = self.child.ask(request, self.limit)["result"]
        except Failed as failure:
            result = {"ok": False, "problem": str(failure)}
        if not result["ok"]:
            # Any damage by the kernel ends with its process.
            self.stop()
        return result

    def stop(self):
        if self.child:
            self.child.end()
        self.child = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
