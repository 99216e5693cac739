"""A made-up table of any width: ordered and nominal columns that follow a few hidden factors; repeatable."""

from __future__ import annotations

import numpy as np

from benchmarks.support.tables import CodedTable

SIZES = (2, 5, 16, 3, 8, 32, 2, 12, 4, 20)
FACTORS = 4


def latent_table(columns: int, rows: int, seed: int = 0) -> CodedTable:
    """Every column cuts a noisy mixture of two factors into parts of unequal size; every second one shuffles them."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(FACTORS, rows)).astype(np.float32)
    sizes = tuple(SIZES[column % len(SIZES)] for column in range(columns))
    ordered = tuple(column % 2 == 0 for column in range(columns))
    codes = np.empty((rows, columns), dtype=np.int64)
    for column, size in enumerate(sizes):
        first, second = rng.choice(FACTORS, 2, replace=False)
        hidden = factors[first] + 0.5 * factors[second] + rng.uniform(0.5, 2.0) * rng.normal(size=rows)
        edges = np.cumsum(rng.dirichlet(np.full(size, 2.0)))[:-1]
        found = np.searchsorted(np.quantile(hidden, edges), hidden)
        codes[:, column] = found if ordered[column] else rng.permutation(size)[found]
    names = tuple(f"c{column}" for column in range(columns))
    return CodedTable(f"latent{columns}", names, codes, sizes, ordered, 0)
