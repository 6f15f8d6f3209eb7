"""Vectors beside reference vectors of the same sequences."""

import numpy

# Smallest cosine of a sequence's vector and its reference.
GOAL = 0.999
# Largest difference of their lengths, relative to the reference: what a cosine does not see.
MOST_LENGTH = 0.05


def compare(vectors, reference, goal=GOAL):
    """Figures of `vectors` beside `reference`, both `[sequences, hidden_size]`, and `ok`, which values that are not finite never are.

    `difference` is the largest of a value of the unit vectors. `misplaced` counts vectors that are closer to the reference of another
    sequence than to their own, those not counted whose references are as close to each other as the goal asks.
    """
    vectors, reference = (numpy.asarray(values, dtype=numpy.float64) for values in (vectors, reference))
    if vectors.shape != reference.shape:
        raise ValueError(f"vectors of shape {vectors.shape} beside {reference.shape}")
    ours, theirs = unit(vectors), unit(reference)
    cosines = (ours * theirs).sum(axis=1)
    lengths = numpy.abs(numpy.linalg.norm(vectors, axis=1) / numpy.linalg.norm(reference, axis=1) - 1)
    others = theirs @ theirs.T < goal
    misplaced = int(((ours @ theirs.T > cosines[:, None]) & others).any(axis=1).sum())
    # numpy's min, mean and max are NaN where one value is, and NaN is at no goal.
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
    """Largest cosine of references of two sequences: a comparison cannot tell these apart by less. None of a single sequence."""
    rows = unit(numpy.asarray(reference, dtype=numpy.float64))
    cosines = rows @ rows.T
    numpy.fill_diagonal(cosines, -numpy.inf)
    return float(cosines.max()) if len(rows) > 1 else None


def unit(rows):
    """Rows of length 1; a row of zeros becomes NaN."""
    with numpy.errstate(invalid="ignore", divide="ignore"):
        return rows / numpy.linalg.norm(rows, axis=1, keepdims=True)
