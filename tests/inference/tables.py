"""Small tables of which every answer can be computed by hand, and the noise of their residuals by enumeration."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np
import pandas as pd

from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.table.columns import DomainColumn

COLUMNS = (
    DomainColumn("sex", "category", ("F", "M"), (), False, False, False),
    DomainColumn("ward", "category", ("A", "B", "C"), (), True, False, False),
    DomainColumn("age", "integer", (), tuple(range(5)), False, True, True),
    DomainColumn("smoker", "boolean", (), (), False, False, True),
)
SIZES = tuple(column.size for column in COLUMNS)
PAIRS = tuple(combinations(range(len(COLUMNS)), 2))
TRIPLE = (0, 1, 2)


def closure(marginals: Sequence[Clique]) -> list[Clique]:
    found = {s for clique in marginals for order in range(len(clique) + 1) for s in combinations(clique, order)}
    return sorted(found, key=lambda clique: (len(clique), clique))


def centred(table: np.ndarray) -> np.ndarray:
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def some_codes(rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, size, rows) for size in SIZES], axis=1)
    codes[:, 2] = np.where(codes[:, 0] == 0, np.minimum(codes[:, 2], 2), codes[:, 2])  # so that columns depend
    return codes


def frame_of(codes: np.ndarray) -> pd.DataFrame:
    """The rows that the codes stand for; every bin of age is one number."""
    return pd.DataFrame(
        {
            "sex": np.array(["F", "M"])[codes[:, 0]],
            "ward": np.array(["A", "B", "C", "other"])[codes[:, 1]],
            "age": [None if code == 4 else int(code) for code in codes[:, 2]],
            "smoker": codes[:, 3] == 1,
        }
    ).astype({"age": "Int64"})


def counts_of(codes: np.ndarray, clique: Clique) -> np.ndarray:
    if not clique:
        return np.array(float(len(codes)))
    found = np.zeros([SIZES[column] for column in clique])
    np.add.at(found, tuple(codes[:, column] for column in clique), 1.0)
    return found


def told_of(
    codes: np.ndarray, marginals: Sequence[Clique] = PAIRS, stds: Mapping[Clique, float] | float = 1e-9, seed: int = 0
) -> Told:
    """Residuals of the codes with normal noise of these stds on the cells before they are centred."""
    rng, found = np.random.default_rng(seed), {}
    for clique in closure(marginals):
        std = stds if isinstance(stds, float) else stds[clique]
        table = counts_of(codes, clique)
        found[clique] = Residual(centred(table + rng.normal(0, std, table.shape)), std)
    return Told(Residuals(tuple(marginals), SIZES, found), COLUMNS)


def uneven(marginals: Sequence[Clique] = PAIRS) -> dict[Clique, float]:
    """A different noise for every set."""
    return {clique: 1.0 + 0.3 * place for place, clique in enumerate(closure(marginals))}


def noise_of_cells(told: Told, clique: Clique) -> np.ndarray:
    """The covariance of the estimated counts over the clique, cell by cell: noise on each raw cell of each residual
    is carried through the estimate, one unit at a time."""
    cells = math.prod(SIZES[column] for column in clique)
    covariance = np.zeros((cells, cells))
    none = {each: Residual(np.zeros([SIZES[c] for c in each]), 0.0) for each in told.residuals.by_clique}
    for each, residual in told.residuals.by_clique.items():
        shape = tuple(SIZES[column] for column in each)
        for cell in np.ndindex(shape):
            unit = np.zeros(shape)
            unit[cell] = residual.std
            moved = Residuals((), SIZES, {**none, each: Residual(centred(unit), 0.0)}).marginal(clique).ravel()
            covariance += np.outer(moved, moved)
    return covariance
