"""The child process: runs cases on the device, one for each line on stdin, and answers each with a line on stdout.

A kernel that breaks the context, crashes or hangs ends only this process, not the later cases.
"""

import ctypes
import json
import os
import signal
import sys
import time
import traceback
import zlib

import numpy as np

import cases
import torch_side
from check import Mismatch, Session
from driver import CudaError, Device
from modules import ModuleError, Modules, find
from timing import LONG, SHORT, Timer


def die_with_parent():
    """Ends this process when its parent ends (prctl(2), PR_SET_PDEATHSIG)."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Worker:
    """The device with its modules. `settings`: modules, seed, rows, small, torch."""

    def __init__(self, settings):
        self.settings = settings
        self.images = find(settings["modules"])
        self.device = Device()
        self.modules = Modules(self.device, self.images)
        self.timer = self.torch = None

    def description(self):
        return {"device": self.device.description(), "modules": {name: image.description() for name, image in self.images.items()}}

    def case(self, family, name, timed):
        known = cases.timings(family, self.settings["rows"]) if timed else cases.checks(family)
        return next(case for case in known if case.name == name)

    def run(self, family, name, timed):
        case = self.case(family, name, timed)
        # Independent of the cases that run before.
        rng = np.random.default_rng([self.settings["seed"], zlib.crc32(name.encode()), timed])
        run = case.build(rng)
        if run.launch.kernel != case.kernel:
            raise Mismatch(f"prefold would launch {run.launch.kernel}")
        function = self.modules.function(cases.module_of(family, case.kernel), case.kernel)
        with Session(self.device, function, run) as session:
            result = {"worst": session.check(rng, everything=not timed)}
            if timed:
                result |= self.time(session, rng)
        return result

    def time(self, session, rng):
        if self.timer is None:
            self.timer = Timer(self.device, SHORT if self.settings["small"] else LONG)
            self.torch, self.without_torch = torch_side.version() if self.settings["torch"] else (None, "not asked for")
        result = self.timer.times(session, rng, with_torch=self.torch is not None)
        return {**result, "torch": self.torch} if self.torch else {**result, "without_torch": self.without_torch}


def answer(worker, request):
    """The result of a case; `lost`: this process can do no more."""
    start = time.monotonic()
    try:
        result = {"ok": True, **worker.run(**request)}
    except (Mismatch, ModuleError) as problem:
        result = {"ok": False, "problem": str(problem)}
    except CudaError as error:
        result = {"ok": False, "problem": str(error), "lost": error.is_lasting}
    except Exception:
        result = {"ok": False, "problem": traceback.format_exc()}
    return {**result, "seconds": time.monotonic() - start}


def main():
    die_with_parent()
    # Other output must not be mistaken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(message):
        print(json.dumps(message), file=answers, flush=True)

    settings = json.loads(sys.stdin.readline())
    try:
        worker = Worker(settings)
        say({"ready": worker.description()})
    except (OSError, ModuleError, CudaError) as problem:
        say({"refused": str(problem)})
        return
    for line in sys.stdin:
        result = answer(worker, json.loads(line))
        say({"result": result})
        if result.get("lost"):
            # The driver may hang, so nothing is cleaned up.
            answers.flush()
            os._exit(1)
