"""Drift of a series of samples: a straight line through block means, with a confidence interval.

Samples one second apart are correlated (memory is released late, a large request has lasting effects), so an interval that assumes
independence is far too narrow. Means of blocks much longer than this correlation are nearly independent, so the line is fitted to
them. The result includes the correlation of the blocks for inspection.
"""

import math
from dataclasses import asdict, dataclass
from functools import lru_cache


@dataclass
class Drift:
    """Slope in units per hour, with its interval."""

    slope: float
    low: float
    high: float
    confidence: float
    blocks: int
    block_seconds: float
    mean: float
    # Correlation of residuals of neighbouring blocks: about 0 if blocks are independent.
    correlation: float

    @property
    def is_zero(self):
        """True if the drift is indistinguishable from noise."""
        return self.low <= 0 <= self.high

    def json(self):
        return {name: round(value, 6) for name, value in asdict(self).items()} | {"indistinguishable_from_zero": self.is_zero}


def student_cdf(t, freedom):
    """P(T <= t), by Simpson's rule on the density after x = sqrt(freedom) * tan(a)."""
    angle, steps = math.atan(abs(t) / math.sqrt(freedom)), 2000
    width = angle / steps
    density = [math.cos(i * width) ** (freedom - 1) for i in range(steps + 1)]
    integral = width / 3 * (density[0] + density[-1] + 4 * sum(density[1:-1:2]) + 2 * sum(density[2:-1:2]))
    half = integral * math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return 0.5 + math.copysign(half, t)


@lru_cache
def student_quantile(probability, freedom):
    """t with P(T <= t) = probability, for probabilities above one half."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if student_cdf(middle, freedom) < probability else (low, middle)
    return (low + high) / 2


def block_means(samples, count):
    """Splits samples (time, value) into `count` blocks of equal size; drops the remainder at the start."""
    size = len(samples) // count
    if size == 0:
        raise ValueError(f"{len(samples)} samples do not fill {count} blocks")
    kept = samples[len(samples) - size * count:]
    blocks = [kept[i * size:(i + 1) * size] for i in range(count)]
    return [tuple(math.fsum(column) / size for column in zip(*block)) for block in blocks]


def line(points):
    """Least squares: (slope, value at time 0)."""
    n = len(points)
    mean_t, mean_v = (math.fsum(column) / n for column in zip(*points))
    squares = math.fsum((t - mean_t) ** 2 for t, _ in points)
    slope = math.fsum((t - mean_t) * (v - mean_v) for t, v in points) / squares
    return slope, mean_v - slope * mean_t


def drift(samples, blocks=15, confidence=0.95):
    """Drift of samples (seconds, value), in units per hour."""
    points = block_means(samples, blocks)
    slope, start = line(points)
    residuals = [value - (start + slope * time) for time, value in points]
    variance = math.fsum(r * r for r in residuals)
    mean_t = math.fsum(time for time, _ in points) / blocks
    squares = math.fsum((time - mean_t) ** 2 for time, _ in points)
    error = math.sqrt(variance / (blocks - 2) / squares)
    margin = error * student_quantile((1 + confidence) / 2, blocks - 2)
    correlation = math.fsum(a * b for a, b in zip(residuals, residuals[1:])) / variance if variance else 0.0
    return Drift(
        slope=slope * 3600, low=(slope - margin) * 3600, high=(slope + margin) * 3600, confidence=confidence, blocks=blocks,
        block_seconds=points[1][0] - points[0][0], mean=math.fsum(value for _, value in points) / blocks,
        correlation=correlation)
