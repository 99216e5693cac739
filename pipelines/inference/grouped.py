"""What groups of neighbouring codes say, joined with what the codes themselves say: one residual, and its noise.

A wide ordered column is measured code by code and in groups of neighbours too (counting/groups.py), alone and beside
other columns. All of these tables have independent noise, so the best linear unbiased estimate of a residual weighs
them by inverse variance. Groups tell nothing of how rows are spread within the smallest of them: there, codes answer
alone. Elsewhere, in coordinates of each axis in which what its groupings tell is diagonal with strengths alpha (the
eigenvectors of sum_g w_g P_g' C_g P_g, P_g summing codes to groups and C_g centring), the estimate of a pair has in its
coordinates a, b the variance
    lambda_ab = 1 / (1/s^2 + alpha_a beta_b),
s being the std of the codes' own noise, since the ways in which a pair is measured are all pairs of its columns'
groupings, with noise that is a product of a factor for each. Where they are not all, or not quite, a part of them is
used, and no more of their information than such a product holds: the intervals are then wider than need be.

Groups that are not of one size (null is one of its own) also see the residuals of fewer columns: centring over groups
does not take away what is alike in all codes. That part, `offset`, is taken away by the estimate that the fewer columns
have, whose noise it brings along (grouped_noise.py). Fewer columns are not corrected in turn, so that every question
sees the same numbers; what that would gain is of the order of the squared share of a group.
Everything here is post-processing of released numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.groups import Starts
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.workload import Clique

FloatArray = npt.NDArray[np.float64]
Ways = Mapping[tuple[Starts | None, ...], Residual]
MOST_SUBSETS = 10


@dataclass(frozen=True, eq=False)
class GroupedAxis:
    """Coordinates of a column's centred functions, as far as groups see them. `basis` has them as columns, orthonormal
    over codes; None where each code is a group, and a centred function is its own coordinates."""

    size: int
    basis: FloatArray | None
    strength: FloatArray
    offset: FloatArray

    def coordinates(self, centred: FloatArray) -> FloatArray:
        """Of functions over codes, which are the last axis."""
        return centred if self.basis is None else centred @ self.basis

    def codes(self, coordinates: FloatArray) -> FloatArray:
        return coordinates if self.basis is None else coordinates @ self.basis.T


@dataclass(frozen=True, eq=False)
class Joined(Residual):
    """A residual with what groups added to it: `std` is still that of its codes, `variance` what is left of std^2 in
    the coordinates of the axes."""

    axes: tuple[GroupedAxis, ...]
    variance: FloatArray

    @property
    def less(self) -> FloatArray:
        return np.asarray(self.variance - self.std**2)

    @property
    def leans(self) -> bool:
        """Whether it rests on estimates of fewer columns."""
        return any(axis.offset.any() for axis in self.axes)


def with_groups(told: Residuals) -> Residuals:
    """All residuals joined with their groups: what questions are answered from."""
    ways: dict[Clique, dict[tuple[Starts | None, ...], Residual]] = {}
    for each, residual in told.grouped.items():
        if each.columns in told.by_clique and len(each.columns) <= 2:
            ways.setdefault(each.columns, {})[each.starts] = residual
    found = dict(told.by_clique)
    for clique in sorted(ways, key=len):
        found[clique] = _joined(clique, found, ways[clique], told.sizes)
    return replace(told, by_clique=found)


def _joined(clique: Clique, known: Mapping[Clique, Residual], ways: Ways, sizes: Sequence[int]) -> Residual:
    own = known[clique]
    if own.std == 0 or any(residual.std == 0 for residual in ways.values()):
        return own
    chosen, weights = _product(ways)
    axes = tuple(
        _axis(sizes[column], starts, weight) for column, starts, weight in zip(clique, chosen, weights, strict=True)
    )
    strength = axes[0].strength
    for axis in axes[1:]:
        strength = np.multiply.outer(strength, axis.strength)
    variance = 1 / (1 / own.std**2 + strength)
    seen = own.counts
    told = np.zeros(strength.shape)
    for place, axis in enumerate(axes):
        seen = np.moveaxis(axis.coordinates(np.moveaxis(seen, place, -1)), -1, place)
    for starts, residual in ways.items():
        if all(each in of for each, of in zip(starts, chosen, strict=True)):
            part = residual.counts
            for place, (each, axis, of, weight) in enumerate(zip(starts, axes, chosen, weights, strict=True)):
                mapped = np.moveaxis(part, place, -1) * weight[of.index(each)]
                part = np.moveaxis(_from_groups(mapped, each, axis), -1, place)
            told += part
    told -= _seen_of_fewer(clique, known, axes)
    change = variance * (seen / own.std**2 + told) - seen
    for place, axis in enumerate(axes):
        change = np.moveaxis(axis.codes(np.moveaxis(change, place, -1)), -1, place)
    return Joined(own.counts + change, own.std, axes, variance)


def _from_groups(part: FloatArray, starts: Starts | None, axis: GroupedAxis) -> FloatArray:
    """Numbers of groups, along the last axis, by the coordinates that make them up."""
    if axis.basis is None:
        return part
    summed = axis.basis if starts is None else np.add.reduceat(axis.basis, starts, axis=0)
    return np.asarray(part @ summed)


def _seen_of_fewer(clique: Clique, known: Mapping[Clique, Residual], axes: Sequence[GroupedAxis]) -> FloatArray:
    """What groups of unequal sizes see of the residuals of fewer columns, in coordinates."""
    offsets = [axis.offset / axis.size for axis in axes]
    total = float(known[()].counts)
    if len(clique) == 1:
        return total * offsets[0]
    one, other = (
        axis.strength * axis.coordinates(known[(column,)].counts) for column, axis in zip(clique, axes, strict=True)
    )
    return np.asarray(
        np.outer(one, offsets[1]) + np.outer(offsets[0], other) + total * np.outer(offsets[0], offsets[1])
    )


def _axis(size: int, ways: Sequence[Starts | None], weights: FloatArray) -> GroupedAxis:
    if all(starts is None for starts in ways):
        return GroupedAxis(size, None, np.full(size, float(weights.sum())), np.zeros(size))
    starts = [np.arange(size) if each is None else np.array(each) for each in ways]
    cells = np.unique(np.concatenate(starts))  # the smallest groups that all groupings are made of
    many = np.diff(np.r_[cells, size])
    root = np.sqrt(many)
    told = np.zeros((len(cells), len(cells)))
    for each, weight in zip(starts, weights, strict=True):
        of = np.searchsorted(each, cells, side="right") - 1
        summed = np.zeros((len(each), len(cells)))
        summed[of, np.arange(len(cells))] = root
        summed -= summed.mean(axis=0)
        told += weight * summed.T @ summed
    whole = np.linalg.qr(np.column_stack([root, np.eye(len(cells))[:, 1:]]))[0][:, 1:]  # centred functions
    strength, turned = np.linalg.eigh(whole.T @ told @ whole)
    basis = whole @ turned
    by_code = np.repeat(basis / root[:, None], many, axis=0)
    return GroupedAxis(size, by_code, np.maximum(strength, 0.0), basis.T @ told @ root)


def _product(ways: Ways) -> tuple[list[list[Starts | None]], list[FloatArray]]:
    """Of each axis the groupings that are used, and weights whose products are at most the information of each way."""
    information = {starts: 1 / residual.std**2 for starts, residual in ways.items()}
    firsts = list(dict.fromkeys(starts[0] for starts in ways))
    if len(next(iter(ways))) == 1:
        return [firsts], [np.array([information[(each,)] for each in firsts])]
    seconds = list(dict.fromkeys(starts[1] for starts in ways))
    best: tuple[float, list[Starts | None], list[Starts | None]] = (0.0, [], [])
    for rows in _subsets(firsts):
        columns = [other for other in seconds if all((one, other) in information for one in rows)]
        worth = sum(information[one, other] for one in rows for other in columns)
        if worth > best[0]:
            best = worth, rows, columns
    _, rows, columns = best
    table = np.array([[information[one, other] for other in columns] for one in rows])
    second = table[0]
    first = (table / second).min(axis=1)
    return [rows, columns], [first, second]


def _subsets(ways: list[Starts | None]) -> list[list[Starts | None]]:
    if len(ways) > MOST_SUBSETS:
        return [ways, *([each] for each in ways)]
    return [list(kept) for many in range(len(ways), 0, -1) for kept in combinations(ways, many)]
