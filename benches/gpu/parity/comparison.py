"""Comparison of vectors with reference vectors of the same sequences."""

import numpy

# Minimum cosine of a sequence's vector and its reference.
GOAL = 0.999
# Maximum difference of their lengths, relative to the reference, which a cosine does not show.
MOST_LENGTH = 0.05


def compare(vectors, reference, goal=GOAL):
    """Figures of `vectors` against `reference`, both `[sequences, hidden_size]`, and `ok`, which is false if a value is not finite.

    `difference` is the largest difference of a component of the unit vectors. `misplaced` counts vectors that are closer to the
    reference of another sequence than to their own, except where the two references are as close to each other as the goal.
    """
    vectors, reference = (numpy.asarray(values, dtype=numpy.float64) for values in (vectors, reference))
    if vectors.shape != reference.shape:
        raise ValueError(f"vectors of shape {vectors.shape}, reference of shape {reference.shape}")
    ours, theirs = unit(vectors), unit(reference)
    cosines = (ours * theirs).sum(axis=1)
    lengths = numpy.abs(numpy.linalg.norm(vectors, axis=1) / numpy.linalg.norm(reference, axis=1) - 1)
    others = theirs @ theirs.T < goal
    misplaced = int(((ours @ theirs.T > cosines[:, None]) & others).any(axis=1).sum())
    # numpy's min, mean and max are NaN if one value is, and NaN reaches no goal.
    figures = {
        "smallest": float(cosines.min()),
        "mean": float(cosines.mean()),
        "difference": float(numpy.abs(ours - theirs).max()),
        "length": float(lengths.max()),
        "misplaced": misplaced,
    }
    ok = figures["smallest"] >= goal and figures["length"] <= MOST_LENGTH and misplaced == 0
    return figures | {"ok": bool(ok)}


def nearest(reference):
    """Largest cosine between references of two sequences, the limit of what a comparison can tell apart. None for a single sequence."""
    rows = unit(numpy.asarray(reference, dtype=numpy.float64))
    cosines = rows @ rows.T
    numpy.fill_diagonal(cosines, -numpy.inf)
    return float(cosines.max()) if len(rows) > 1 else None


def unit(rows):
    """Rows of length 1; a row of zeros becomes NaN."""
    with numpy.errstate(invalid="ignore", divide="ignore"):
        return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
