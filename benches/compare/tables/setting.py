"""Base of all tables: the contenders of a command line, and the check of their answers."""

import sys
from dataclasses import dataclass
from pathlib import Path

import machine
from peer import PEERS, Peer
from prefold_server import Prefold
from rounds import turn
from tei import Tei

DTYPES = ["float32", "bfloat16", "int8"]


@dataclass
class Setting:
    prefold: Path
    peers: list | None  # as requested; None: the table's own
    rounds: int
    tei: Path | None = None
    wheel: Path | None = None  # None: the wheel in target/dist

    def own(self, model):
        """prefold in each type."""
        return [Prefold(self.prefold, model, dtype) for dtype in DTYPES]

    def other_server(self, exported):
        """text-embeddings-inference, if there is a build of it."""
        return [Tei(self.tei, exported)] if self.tei else []

    def others(self, own, models, streams=1):
        """The requested peers of the table; `models[form]` is the model in each form."""
        labels = own if self.peers is None else [label for label in own if label in self.peers]
        return [Peer(label, models[PEERS[label].form], machine.threads(), streams) for label in labels]


def check_all(contenders, check):
    """`check(contender)` returns (right, finding). Returns the contenders that are right, and a record of all; wrong peers are stopped, a
    wrong prefold ends the program."""
    right, records = [], []
    for contender in contenders:
        try:
            with turn(contender):
                good, finding = check(contender)
        except RuntimeError as error:
            good, finding = False, str(error)
        records.append({"name": contender.name, "dtype": contender.dtype, "right": good, "finding": finding})
        print(f"{contender.name}: {'right' if good else 'WRONG, left out'}: {finding}", file=sys.stderr)
        if good:
            right.append(contender)
        elif isinstance(contender, Prefold):
            sys.exit(f"{contender.name} is wrong: {finding}")
        else:
            contender.stop()
    return right, records


def row(contender, rounds, **more):
    return {"name": contender.name, "prefold": isinstance(contender, Prefold), "dtype": contender.dtype,
            "versions": contender.versions, "rounds": rounds, **more}
