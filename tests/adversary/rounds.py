"""All kinds of servers, folders and hubs in turn, for the requested time; each round has another seed."""

import itertools
import time

import folders
import loads
import schedules
from kinds import KINDS

# Seconds of a part of a round.
LEAST, MOST = 30.0, 300.0
FOLDERS, HUBS = "folders", "hubs"
PARTS = (*KINDS, FOLDERS, HUBS)


def attacks_of(kind, number):
    """The schedule of a round: everything in the first round of the built-in model, later random attacks; for other models shapes,
    products and attacks by key."""
    if kind == "embedding":
        return schedules.everything_slowly
    return (schedules.all_but_shapes, schedules.shapes_only)[number % 2]


def load_jobs(part, seed, scale):
    return loads.folder_jobs(seed, scale) if part == FOLDERS else loads.hub_jobs(seed)


def run(attack, seed, seconds, say):
    """Runs parts in turn; yields (part, findings as text, field of a server or None). `attack` is `adversary.attack`."""
    deadline = time.monotonic() + seconds
    part_seconds = min(MOST, max(LEAST, seconds / len(PARTS)))
    for number in itertools.count():
        for part in PARTS:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            say(f"--- {part}, round {number + 1}, {left:.0f} s left")
            here = min(left, part_seconds)
            if part in KINDS:
                yield part, seed + number, attack(part, seed + number, here, say=say, attacks=attacks_of(part, number))
            else:
                yield part, seed + number, loads.run(load_jobs(part, seed + number, folders.LONG), here, say)
