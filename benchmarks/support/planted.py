"""Made tables whose label depends on two columns jointly, in ways that pairs of columns tell or do not tell."""

from __future__ import annotations

import numpy as np

from benchmarks.support.tables import CodedTable

SIZES = (2, 3, 4, 5, 6, 8, 10, 12, 14, 16, 2)
ROWS, HELD_OUT = 60_000, 20_000
DESIGNS = ("xor", "noisy_xor", "and", "table", "odd_sum", "none")
FLIPPED = 0.2


def planted(design: str, seed: int) -> CodedTable:
    """Ten columns of 2 to 16 values, two thirds of which follow one hidden factor, and a label; 80,000 rows.

    Which two columns make the label depends on the seed. xor: whether exactly one lies in its upper half; noisy_xor:
    the same, with a fifth of the labels turned round; and: whether both do; table: a probability of its own for each
    pair of values of two wide columns; odd_sum: whether the sum of two wide columns is odd; none: the hidden factor.
    """
    rng = np.random.default_rng((seed, DESIGNS.index(design)))
    rows = ROWS + HELD_OUT
    hidden = rng.normal(size=rows)
    columns = [_column(size, 0.5 * hidden * bool(i % 3) + 0.9 * rng.normal(size=rows)) for i, size in enumerate(SIZES)]
    wide = design in ("table", "odd_sum")
    a, b = rng.choice(np.arange(5, 10) if wide else np.arange(0, 10), 2, replace=False)
    upper = [columns[c] >= SIZES[c] / 2 for c in (a, b)]
    chances = rng.random((SIZES[a], SIZES[b]))
    label = {
        "xor": upper[0] ^ upper[1],
        "noisy_xor": upper[0] ^ upper[1] ^ (rng.random(rows) < FLIPPED),
        "and": upper[0] & upper[1],
        "table": rng.random(rows) < chances[columns[a], columns[b]],
        "odd_sum": (columns[a] + columns[b]) % 2 == 1,
        "none": hidden + rng.normal(size=rows) > 0,
    }[design]
    codes = np.stack([*columns[:-1], label.astype(np.int64)], axis=1)
    names = tuple(f"c{i}" for i in range(10))
    return CodedTable(f"planted_{design}", (*names, "label"), codes, SIZES, (True,) * 10 + (False,), 10)


def _column(size: int, values: np.ndarray) -> np.ndarray:
    """Equally many rows a value."""
    return np.searchsorted(np.quantile(values, np.arange(1, size) / size), values).astype(np.int64)
