"""Short form of `make soak`, and tests of its statistics."""

import math
import os
import random

import pytest
import soak
from chart import Panel, svg
from drift import drift, student_cdf, student_quantile

from harness import Server

# MIN_BLOCKING_THREADS in router/src/app.rs.
BLOCKING = max(4, os.cpu_count())


def noise(seed, count, memory):
    """Autocorrelated samples."""
    chance, value = random.Random(seed), 0.0
    for _ in range(count):
        value = memory * value + chance.gauss(0, 1)
        yield value


def test_a_minute_of_mixed_traffic_leaves_nothing_behind():
    with Server("--log-level", "info,request=off") as server:
        result = soak.soak(server, 45)
    answers = result["answers"]
    kinds = {name.removeprefix("ask_") for name in dir(soak.traffic.Mix) if name.startswith("ask_")}
    assert kinds <= {name.rsplit(" ", 1)[0] for name in answers}, answers
    assert answers["left"] and answers["idle"]
    memory = [value for _, value in soak.series(result["samples"], "resident_mb")]
    third = len(memory) // 3
    assert max(memory[-third:]) < 1.3 * max(memory[:-third]), memory
    threads = [value for _, value in soak.series(result["samples"], "threads", after=10)]
    # Threads that parse large bodies come and go.
    assert max(threads[third:]) <= min(threads[:third]) + BLOCKING, threads
    assert result["descriptors_after"] <= result["descriptors_before"]


def test_students_distribution():
    for freedom, quantile in [(1, 12.7062), (2, 4.3027), (13, 2.1604), (30, 2.0423), (200, 1.9719)]:
        assert student_quantile(0.975, freedom) == pytest.approx(quantile, abs=2e-4)
    assert student_cdf(0, 5) == 0.5 and student_cdf(-1, 1) == pytest.approx(0.25)


def test_what_grows_is_seen_to_grow():
    samples = [(i, 100 + i * 5 / 3600 + wobble) for i, wobble in enumerate(noise(1, 900, 0.9))]
    for leak in (20, 50):
        leaking = [(time, value + time * leak / 3600) for time, value in samples]
        found = drift(leaking)
        assert found.low > 0 and not found.is_zero and found.low < leak + 5 < found.high, found


@pytest.mark.parametrize("memory", [0.0, 0.9])
def test_flat_noise_is_taken_for_growth_as_rarely_as_the_confidence_says(memory):
    verdicts = [drift(list(enumerate(noise(seed, 900, memory)))).is_zero for seed in range(400)]
    # 95 % within four standard deviations, and slightly less for autocorrelated samples.
    assert sum(verdicts) >= (0.95 - 4 * math.sqrt(0.95 * 0.05 / 400) - 0.02) * 400, sum(verdicts)


def test_the_picture_has_every_panel_and_no_value_that_is_none():
    samples = [{"seconds": i, "resident_mb": 100 + i % 7, "descriptors": 10, "threads": 4, soak.LOAD: 9} for i in range(120)]
    drawn = soak.picture(samples, 30)
    for title in soak.QUANTITIES.values():
        assert title in drawn
    assert drawn.count("<polyline") == 8 and "nan" not in drawn and "inf" not in drawn
    assert "&lt;" in svg([Panel("<", [(0, 0), (1, 0)])])
