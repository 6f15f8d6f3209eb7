"""References of the kernels in float64, as simple as possible. Matrices are [rows, width]; no function changes its arguments."""

import math

import numpy as np

# f32 overflows beyond: a norm of such a row is NaN rather than 0.
LARGEST_F32 = float(np.finfo(np.float32).max)
ACTIVATIONS = ("gelu", "gelu_tanh", "relu", "silu")
POOLINGS = ("mean", "max", "mean_sqrt_len", "weighted_mean")

_erf = np.vectorize(math.erf, otypes=[float])


def rows_or_nan(matrix, index):
    """The rows of these indices; NaN for indices out of range."""
    index = index.astype(np.int64)
    inside = index < matrix.shape[0]
    rows = matrix[np.where(inside, index, 0)].copy()
    rows[~inside] = np.nan
    return rows


def own_columns(x, own, group, groups):
    """Each row's columns at its group's place, zeros elsewhere; NaN for a group out of range. `x` has the columns of all groups, or
    the row's group alone."""
    out = np.zeros((len(x), groups * group))
    for row, mine in enumerate(own.astype(np.int64)):
        if mine >= groups:
            out[row] = np.nan
            continue
        columns = slice(mine * group, (mine + 1) * group)
        out[row, columns] = x[row] if x.shape[1] == group else x[row, columns]
    return out


def pooled(x, kind, normalize):
    """Pools the rows of a sequence; a single row is returned unchanged."""
    count = len(x)
    if kind == "max":
        result = x.max(0)
    elif kind == "weighted_mean" and count > 1:
        weights = np.arange(1.0, count + 1)
        result = weights @ x / weights.sum()
    else:
        result = x.sum(0) / (math.sqrt(count) if kind == "mean_sqrt_len" else count)
    length = np.linalg.norm(result)
    return result / length if normalize and length != 0 else result


def _inverse_root(x):
    return np.where(x <= LARGEST_F32, 1 / np.sqrt(x), np.nan)


def rms_norm(x, weight, eps):
    return x * _inverse_root(np.mean(x * x, -1, keepdims=True) + eps) * weight


def layer_norm_scale(x, eps):
    """1 / standard deviation of each row."""
    return _inverse_root(np.var(x, -1, keepdims=True) + eps)


def layer_norm(x, weight, bias, eps):
    return (x - x.mean(-1, keepdims=True)) * layer_norm_scale(x, eps) * weight + bias


def rope(heads, angles):
    """Split-half rotation of heads [rows, heads, dim] by rows [cos | sin] [rows, dim]."""
    half = heads.shape[-1] // 2
    low, high = heads[..., :half], heads[..., half:]
    cosines, sines = angles[:, None, :half], angles[:, None, half:]
    return np.concatenate([low * cosines - high * sines, high * cosines + low * sines], -1)


def activation(kind, x):
    if kind == "gelu":
        return 0.5 * x * (1 + _erf(x / math.sqrt(2)))
    if kind == "gelu_tanh":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    if kind == "relu":
        return np.where(x <= 0, 0.0, x)
    # exp overflows to infinity where the result is -0.
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def route(scores, top):
    """The experts of each row, [rows, experts]: whether chosen, and the softmax of all scores. Equal scores go to the lower number. A
    NaN score compares neither better nor worse than any other, so that its expert gets the row."""
    others, own = scores[:, None, :], scores[:, :, None]
    number = np.arange(scores.shape[1])
    better = (others > own) | ((others == own) & (number[None, None, :] < number[None, :, None]))
    chosen = better.sum(-1) < top
    weights = np.exp(scores - np.nanmax(scores, -1, keepdims=True))
    return chosen, weights / weights.sum(-1, keepdims=True)


def attention_query(q, k, v, added, scale):
    """Attention of queries [queries, heads, dim] over keys and values [keys, heads, dim]. `added`, [queries, heads, keys], is added
    to the scaled scores: biases, or -infinity. Returns the output and the sum of weight times absolute value, both [queries, heads,
    dim]."""
    scores = np.einsum("qhd,khd->qhk", q, k, optimize=True) * scale + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    mix = "qhk,khd->qhd"
    return np.einsum(mix, weights, v, optimize=True), np.einsum(mix, weights, np.abs(v), optimize=True)
