"""A table over fine codes that keeps what groups of them were measured to hold, the coarsest first.

Method: a pair was measured in groups of neighbours of several widths. A smooth field (`order`) predicts its table over
fine codes from all of them, but where the truth is not as smooth as the prediction, its sums over the coarse groups,
which were measured with little noise, would be worse than the measurement. So, from the coarsest groups to the finest:
what a measurement says beside the table's own sums, within the groups that came before, is kept as far as its noise
deserves (`shrinkage.shrink_interaction`), and the table is scaled to these sums and to its columns (iterative
proportional fitting). Finer groups and codes thus never cost what coarser ones tell: at worst they add nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.projection import project_to_marginals

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]
FITTING_ROUNDS = 50
SOMEWHERE, KEPT = 1e-4, 0.01  # of independent columns, and of what was expected: what is 0 could not be scaled
TOLERANCE = 1e-7


@dataclass(frozen=True, eq=False)
class Nested:
    """The measured interaction of a pair in some groups, by the first of the fine codes in each, or in these codes.

    It is centred along both columns, as shares of all rows; `variance` is that of a measured cell before it was
    centred, and `members` are how many of those a group has along each column.
    """

    starts: tuple[IntArray, IntArray]
    interaction: FloatArray
    variance: float
    members: tuple[FloatArray, FloatArray]

    @property
    def variances(self) -> float | FloatArray:
        """Of the cells: one number where each is one measured cell."""
        return self.variance * np.multiply.outer(*self.members) if self.are_merged else self.variance

    @property
    def are_merged(self) -> bool:
        return any(float(each.max()) > 1.0 for each in self.members)

    def centred(self, table: FloatArray) -> FloatArray:
        """What it says beside its rows, columns and total, as measured."""
        rows, columns = (each / each.sum() for each in self.members)
        table = table - rows[:, None] * table.sum(axis=0)
        return np.asarray(table - columns[None, :] * table.sum(axis=1, keepdims=True))

    def summed(self, table: FloatArray) -> FloatArray:
        return np.asarray(np.add.reduceat(np.add.reduceat(table, self.starts[0], axis=0), self.starts[1], axis=1))

    def holds(self, finer: Nested) -> bool:
        """Whether every one of the finer groups lies in one of these."""
        return all(np.isin(mine, its).all() for mine, its in zip(self.starts, finer.starts, strict=True))

    def within(self, finer: Nested) -> Nested:
        """The same groups, of the finer groups instead of the codes."""
        first, second = (np.searchsorted(its, mine) for mine, its in zip(self.starts, finer.starts, strict=True))
        return replace(self, starts=(first, second))

    def spread(self, sums: FloatArray, shape: Sequence[int]) -> FloatArray:
        """The value of every fine cell's group."""
        for axis, (starts, size) in enumerate(zip(self.starts, shape, strict=True)):
            sums = np.repeat(sums, np.diff(np.append(starts, size)), axis=axis)
        return sums


def joined(measured: Sequence[Nested]) -> list[Nested]:
    """The same, the coarsest first, each with what all finer ones say of it, by inverse variance."""
    ordered = sorted(measured, key=lambda each: each.interaction.size)
    return [_with_finer(each, ordered) for each in ordered]


def _with_finer(each: Nested, others: Sequence[Nested]) -> Nested:
    weight, total = 1 / each.variance, each.interaction / each.variance
    for finer in others:
        rows, columns = (_parts(fine, coarse) for fine, coarse in zip(finer.starts, each.starts, strict=True))
        if finer is each or finer.are_merged or rows is None or columns is None:
            continue
        sums = finer.interaction.reshape(len(each.starts[0]), rows, len(each.starts[1]), columns).sum(axis=(1, 3))
        precision = each.interaction.size / (finer.interaction.size * finer.variance)
        weight, total = weight + precision, total + precision * sums
    return replace(each, interaction=total / weight, variance=1 / weight)


def _parts(finer: IntArray, coarser: IntArray) -> int | None:
    """How many finer groups every coarser one has; None if not equally many, for then their means differ."""
    parts, left = divmod(len(finer), len(coarser))
    return parts if not left and np.array_equal(finer[::parts], coarser) else None


def fit_to_groups(
    table: FloatArray,
    measured: Sequence[Nested],
    shrink: Callable[[FloatArray, FloatArray, float | FloatArray], FloatArray],
) -> FloatArray:
    """`table` with the sums over groups that they were measured to have; its own rows and columns stay.

    `shrink` takes what is seen beside the expected table, that table, and the variance of the noise.
    """
    rows, columns = table.sum(axis=1), table.sum(axis=0)
    table = (1 - SOMEWHERE) * table + SOMEWHERE * np.outer(rows, columns)
    before: list[tuple[IntArray, IntArray]] = []
    wanted: list[tuple[Nested, FloatArray]] = []
    for each in joined(measured):
        expected = each.summed(table)
        beside = each.interaction - each.centred(expected)
        for axis in (0, 1):
            coarser = [starts[axis] for starts in before if len(starts[axis]) < len(each.starts[axis])]
            if coarser:
                groups = np.searchsorted(each.starts[axis], max(coarser, key=len))
                beside = _within(beside, groups, each.members[axis], axis)
        lower: dict[tuple[int, ...], FloatArray] = {(0,): expected.sum(axis=1), (1,): expected.sum(axis=0)}
        sums = project_to_marginals(expected + shrink(beside, _plausible(expected), each.variances), lower)
        coarser_ones = [(other.within(each), total) for other, total in wanted if other.holds(each)]
        sums = _fitted(np.maximum(sums, KEPT * expected), lower[(0,)], lower[(1,)], coarser_ones)
        before.append(each.starts)
        wanted.append((each, sums))
        table = _fitted(table, rows, columns, wanted)
    return table


def _plausible(expected: FloatArray) -> FloatArray:
    """Where departures are looked for: where the table has rows, and where its columns alone would have them."""
    return np.asarray((expected + np.outer(expected.sum(axis=1), expected.sum(axis=0))) / 2)


def _fitted(
    table: FloatArray, rows: FloatArray, columns: FloatArray, wanted: Sequence[tuple[Nested, FloatArray]]
) -> FloatArray:
    for _ in range(FITTING_ROUNDS):
        off = 0.0
        for groups, sums in reversed(wanted):
            current = groups.summed(table)
            off = max(off, float(np.abs(current - sums).sum()))
            table = table * groups.spread(_ratio(sums, current), table.shape)
        table = table * _ratio(rows, table.sum(axis=1))[:, None]
        table = table * _ratio(columns, table.sum(axis=0))[None, :]
        if off < TOLERANCE:
            break
    return table


def _within(table: FloatArray, groups: IntArray, members: FloatArray, axis: int) -> FloatArray:
    """The table with the sum of every group along the axis taken away, evenly."""
    sizes = np.diff(np.append(groups, table.shape[axis]))
    shares = members / np.repeat(np.add.reduceat(members, groups), sizes)
    sums = np.repeat(np.add.reduceat(table, groups, axis=axis), sizes, axis=axis)
    return np.asarray(table - sums * shares.reshape([-1 if other == axis else 1 for other in range(table.ndim)]))


def _ratio(wanted: FloatArray, current: FloatArray) -> FloatArray:
    return np.divide(wanted, current, out=np.zeros_like(wanted), where=current > 0)
