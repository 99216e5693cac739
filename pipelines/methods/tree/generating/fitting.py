"""Rows under fixed parents, redrawn and polished until their tables fit.

Method: that of `privpgd.polish` (Gibbs redraws, then single moves that lower the squared gaps) on tables of roots: row
i counts 1/m_i in them, m_i being how many rows of this table its root has. Moving it from code a to b changes the loss
by 2 w_i sum_S w_S (gap_S[b] - gap_S[a] + w_i), and by the like of the tables of neighbouring siblings, of which it is
the later one in one pair and the earlier one in the next. Redraws use the gaps themselves as potentials, not w_i times
them: that is the distribution of greatest entropy where a row's entropy counts as its cells do, and rows of large
families are then as far from chance as those of small ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.constraints import Rule
from understudy.pipelines.methods.privpgd.polish import REDRAW_STRENGTH, build_fibres
from understudy.pipelines.methods.privpgd.polish_kernel import Fibres
from understudy.pipelines.methods.privpgd.targets import Target
from understudy.pipelines.methods.tree.generating.family_kernel import (
    Families,
    Lags,
    redraw_families,
    sweep_families,
)

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LagTarget:
    """What neighbouring siblings should look like: probabilities over (before, own) codes of two columns.

    `surprise`, where it is given, is what each cell costs by itself, as gaps do: a table of many cells is fitted beside
    what is likely in it, since squares of gaps hardly tell a row in a cell that should be empty.
    """

    before: int
    own: int
    probabilities: FloatArray
    weight: float
    surprise: FloatArray | None = None


@dataclass(frozen=True)
class Effort:
    """`redraws` of all rows, then at most so many `sweeps` of single moves."""

    redraws: int = 6
    sweeps: int = 12


def families_of(parent: Int64Array, root: Int64Array, ordered: int | None = None) -> Families:
    """Of rows that lie together by parent, in order, given the root of each."""
    rows = np.bincount(root)
    follows = np.zeros(len(parent) + 1, dtype=np.bool_)
    follows[1:-1] = parent[1:] == parent[:-1]
    pairs = np.bincount(root[follows[:-1]], minlength=len(rows))
    return Families(
        (1.0 / rows[root]).astype(np.float32),
        (1.0 / np.maximum(pairs, 1)[root]).astype(np.float32),
        follows,
        -1 if ordered is None else ordered,
    )


def fit_families(
    codes: Int32Array,
    targets: Sequence[Target],
    lags: Sequence[LagTarget],
    sizes: Sequence[int],
    families: Families,
    frozen: frozenset[int],
    rng: np.random.Generator,
    rules: Sequence[Rule] = (),
    effort: Effort = Effort(),
) -> None:
    """Improve the columns of `codes` that are not frozen, in place."""
    moving = np.array([c for c in range(len(sizes)) if c not in frozen], dtype=np.int64)
    targets = [t for t in targets if not frozen.issuperset(t.columns)]
    if not len(codes) or not len(moving) or not targets:
        return
    widths, weights = np.array(sizes, dtype=np.int64), families.weight.astype(np.float64)

    def gaps() -> tuple[Fibres, Families, Lags]:
        fibres = build_fibres(codes, targets, rules, sizes, weights, frozen)
        return fibres, families, build_lags(codes, lags, sizes, families)

    where = gaps()
    for _ in range(effort.redraws):
        rows, columns = rng.permutation(len(codes)), rng.permutation(moving)
        redraw_families(codes, rows, columns, widths, *where, np.float32(REDRAW_STRENGTH), rng)
    where = gaps()  # parts of rows added up in single precision are a little off by now
    for _ in range(effort.sweeps):
        moved = sweep_families(codes, rng.permutation(len(codes)), rng.permutation(moving), widths, *where)
        if moved * 1000 <= len(codes) * len(moving):
            break


def build_lags(codes: Int32Array, lags: Sequence[LagTarget], sizes: Sequence[int], families: Families) -> Lags:
    later = np.flatnonzero(families.follows)
    weights = families.pair_weight[later].astype(np.float64)
    total = float(weights.sum())
    parts: list[npt.NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)]
    own_last, before_last, position = [], [], 0
    for lag in lags:
        shape = sizes[lag.before], sizes[lag.own]
        cells = codes[later - 1, lag.before].astype(np.int64) * shape[1] + codes[later, lag.own]
        counts = np.bincount(cells, weights, minlength=shape[0] * shape[1]).reshape(shape)
        gap = (counts - total * lag.probabilities + (0.0 if lag.surprise is None else lag.surprise)).astype(np.float32)
        parts += [gap.ravel(), np.ascontiguousarray(gap.T).ravel()]
        own_last.append(position)
        before_last.append(position + gap.size)
        position += 2 * gap.size
    own, before = (np.array([getattr(lag, side) for lag in lags], dtype=np.int64) for side in ("own", "before"))
    columns, widths = np.arange(len(sizes) + 1), np.array(sizes, dtype=np.int64)
    by_own, by_before = np.argsort(own, kind="stable"), np.argsort(before, kind="stable")
    return Lags(
        np.concatenate(parts),
        np.array([lag.weight for lag in lags], dtype=np.float32),
        own,
        before,
        np.array(own_last, dtype=np.int64),
        np.array(before_last, dtype=np.int64),
        widths[own],
        widths[before],
        by_own,
        np.searchsorted(own[by_own], columns),
        by_before,
        np.searchsorted(before[by_before], columns),
    )
