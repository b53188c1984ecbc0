"""Thin long series without losing peaks and dips."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def keep_extremes(y: NDArray[Any], buckets: int) -> NDArray[np.int64]:
    """Indices of the points to draw: lowest and highest of each of `buckets` equal buckets, first, last.

    y: (n,). Ascending and unique, at most 2 * buckets + 2 of them; all n when that is no more. The global
    minimum and maximum are always among them. NaN counts as neither low nor high.
    """
    n = len(y)
    if n <= 2 * buckets + 2:
        return np.arange(n, dtype=np.int64)
    edges = np.linspace(0, n, buckets + 1).astype(np.int64)
    width = int(np.diff(edges).max())
    index = edges[:-1, None] + np.arange(width)[None, :]
    inside = index < edges[1:, None]
    index = np.minimum(index, n - 1)
    values = y[index].astype(np.float64)
    known = inside & ~np.isnan(values)
    rows = np.arange(buckets)
    low = index[rows, np.where(known, values, np.inf).argmin(axis=1)]
    high = index[rows, np.where(known, values, -np.inf).argmax(axis=1)]
    return np.unique(np.concatenate([low, high, np.array([0, n - 1])]))
