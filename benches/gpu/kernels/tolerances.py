"""Maximum errors, derived from the kernels' arithmetic: in f32, then one rounding to the type of the output.

The rounding errors of each element type are in elements.py; this file adds the number of roundings in f32 before.
"""

import numpy as np

from elements import F32


def rounding(element, expected):
    """The error of rounding a value near the expected one to the type."""
    return 1.001 * element.rounding * np.abs(expected) + element.smallest


def of_results(element, ulps, magnitude=0.0):
    """Tolerance of results in the type with an error of `ulps` roundings in f32, relative to their magnitude or to `magnitude`,
    the magnitude of terms that cancel. A number, or a function of the rows' indices."""

    def tolerance(rows, expected):
        size = magnitude(rows) if callable(magnitude) else magnitude
        return rounding(element, expected) + ulps * F32.rounding * np.maximum(np.abs(expected), size)

    return tolerance
