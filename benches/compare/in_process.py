"""prefold as a contender in a Python process: the wheel, without HTTP."""

import sys

import machine
import venvs
from peer import Kind, Peer


class InProcess(Peer):
    def __init__(self, wheel, model, dtype):
        self.kind = Kind(f"prefold {dtype} in process", "prefold", "prefold_in_process", dtype, "checkpoint")
        super().__init__(f"prefold-{dtype}-in-process", model, machine.threads(), kind=self.kind)
        self.wheel = wheel or self.built()

    def built(self):
        wheels = sorted((venvs.ROOT / "target" / "dist").glob("prefold-*.whl"))
        if not wheels:
            sys.exit("there is no wheel in target/dist: make wheel, or --wheel FILE")
        return wheels[-1]

    def interpreter(self):
        return venvs.with_wheel(self.wheel)

    def calls(self, texts):
        """Seconds of a call for each text, one after another, and seconds of its forward pass."""
        answer = self.ask(do="calls", texts=texts)
        return answer["calls"], answer["forwards"]

    def load(self, texts, clients, seconds):
        """Calls of one text per second, by `clients` threads at once."""
        return self.ask(do="calls_at_once", texts=texts, clients=clients, seconds=seconds)["per_s"]
