"""Largest errors, from how the kernels compute: in f32, then one rounding to the type of the output.

One table for each element type is in elements.py; what is here says how many roundings in f32 come before.
"""

import numpy as np

from elements import F32


def rounding(element, expected):
    """The error of rounding to the type a value that is near the expected one."""
    return 1.001 * element.rounding * np.abs(expected) + element.smallest


def of_results(element, ulps, magnitude=0.0):
    """Tolerance of results in the type with an error of `ulps` roundings in f32, relative to their size or to `magnitude`: that of
    the terms which cancel. A number, or a function of the rows' indices."""

    def tolerance(rows, expected):
        size = magnitude(rows) if callable(magnitude) else magnitude
        return rounding(element, expected) + ulps * F32.rounding * np.maximum(np.abs(expected), size)

    return tolerance
