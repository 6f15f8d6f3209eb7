"""Loads for a time: model folders of every maker, and hubs with endless answers, two at a time."""

import itertools
import random
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import folders
import hubs
import loader
import pickle_folders  # noqa: F401  Registers its makers.
import setting_folders  # noqa: F401
import tensor_folders  # noqa: F401
import tokenizer_folders  # noqa: F401

AT_ONCE = 2


def load_folder(name, seed, scale):
    """(description of the folder, findings as text) of a folder of this name."""
    with tempfile.TemporaryDirectory(prefix="prefold-folder-") as directory:
        draft = folders.make(name, seed, Path(directory) / "model", scale)
        load = loader.start if draft.chance.random() < 0.5 else loader.check
        found = load(draft.model(), size=draft.size(), room=draft.room)
        what = f"{name} of seed {seed}: {draft.size()} bytes, {', '.join(draft.words[:12])}; {load.__name__}, {found.seconds:.1f} s, {found.peak / 1e6:.0f} MB"
        return what, [f"{rule} ({name}): {detail}\n{found.said[-400:]}" for rule, detail in loader.faults(found)]


def size_of(seed, most):
    """Bytes of the largest file: the maximum in a first round, then random."""
    return most if "." not in str(seed) else int(folders.SHORT * (most / folders.SHORT) ** random.Random(seed).random())


def folder_jobs(seed, most):
    """(name, job) of every maker once, and then endlessly with other seeds and sizes."""
    for number in itertools.count():
        one = seed if number == 0 else f"{seed}.{number}"
        for name in folders.FOLDERS:
            yield f"{name} {one}", lambda name=name, one=one: load_folder(name, one, size_of(one, most))


def hub_jobs(seed, chosen=hubs.cases):
    """(name, job) of every request with every answer; a short selection sends less."""
    for case in chosen(seed):
        yield str(case), lambda case=case: (str(case), [f"{rule} ({case}): {detail}" for rule, detail in hubs.play(case,
            chosen is hubs.cases)])


def run(jobs, seconds, say=lambda line: None):
    """Runs jobs until the time is over or none is left; returns the findings and the number of jobs run."""
    deadline, found, count = time.monotonic() + seconds, [], 0

    def one(job):
        return job[1]() if time.monotonic() < deadline else None
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for batch in iter(lambda: list(itertools.islice(jobs, 4 * AT_ONCE)), []):
            for done in pool.map(one, batch):
                if done is not None:
                    count += 1
                    say(f"{done[0]} {len(done[1]) or ''}")
                    found += done[1]
            if time.monotonic() > deadline:
                break
    return found, count


def only(seed, name):
    """The jobs of this name: a maker, or a case of a hub."""
    folder = lambda: load_folder(name, seed, size_of(seed, folders.LONG))  # noqa: E731
    known = [(name, folder)] if name in folders.FOLDERS else [job for job in hub_jobs(seed) if name in job[0]]
    if not known:
        raise SystemExit(f"no load is called {name}")
    return iter(known)
