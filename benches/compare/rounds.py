"""Alternating measurements: contenders in turn, the order reversed in every second round, all but one stopped."""

import statistics
import sys
from contextlib import contextmanager


@contextmanager
def running(contenders):
    """Starts the contenders one after another and leaves them paused; ends them on exit. Only the contender being started runs."""
    started = []
    try:
        for contender in contenders:
            print(f"starting {contender.name}", file=sys.stderr)
            started.append(contender)
            contender.start()
            contender.pause()
        yield
    finally:
        for contender in started:
            contender.stop()


@contextmanager
def turn(contender):
    contender.resume()
    try:
        yield
    finally:
        contender.pause()


def alternate(contenders, measure, rounds):
    """`measure(contender)` for each contender in each round; a list of `rounds` results for each, in the contenders' order."""
    results = [[None] * rounds for _ in contenders]
    for number in range(rounds):
        order = range(len(contenders)) if number % 2 == 0 else reversed(range(len(contenders)))
        for index in order:
            with turn(contenders[index]):
                results[index][number] = measure(contenders[index])
            print(f"round {number + 1} of {rounds}: {contenders[index].name}", file=sys.stderr)
    return results


def spread(values):
    """{"median", "low", "high"} of the rounds."""
    return {"median": statistics.median(values), "low": min(values), "high": max(values)}


def ratios(ours, theirs):
    """Spread of the ratios of values from the same round."""
    return spread([a / b for a, b in zip(ours, theirs, strict=True)])
