"""Groups of neighbouring codes, in which wide ordered columns are measured beside their codes: from public facts.

A range over 1,000 codes sums as many noises as it has codes, and over two such columns a thousand times as many, where
a few groups would have told it with a few. So an ordered column of more than `NARROW` codes is measured in 8, 32, 128,
512 ... groups of neighbours too, and what it has to do with another column in 8 and in 64 (or 32) groups. The coarse
ones get most of the budget (counting/shares.py) and tell with little noise what the fine ones need not tell again, so
that more codes hardly cost a range its accuracy. Codes off its axis (other, null) are groups of their own.
Groups are a function of the code alone, so that residuals over groups are residuals over columns of fewer values
(counting/residuals.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.table.domain import TableDomain

NARROW = 64
COARSEST, FACTOR = 8, 4
PAIRED_COARSE, PAIRED_FINE = 8, (64, 32)

Starts = tuple[int, ...]
"""The first code of every group."""


@dataclass(frozen=True)
class GroupedClique:
    """Columns, and the groups in which each of them is counted: None where it is counted code by code."""

    columns: Clique
    starts: tuple[Starts | None, ...]

    def shape(self, sizes: Sequence[int]) -> tuple[int, ...]:
        found = zip(self.columns, self.starts, strict=True)
        return tuple(sizes[column] if starts is None else len(starts) for column, starts in found)

    def summed(self, table: np.ndarray) -> np.ndarray:
        """A table over the columns' codes, summed within groups."""
        for axis, starts in enumerate(self.starts):
            if starts is not None:
                table = np.add.reduceat(table, starts, axis=axis)
        return table


@dataclass(frozen=True)
class Groupings:
    """How a wide ordered column is grouped: `alone` by itself and `paired` beside others, the coarsest first."""

    alone: tuple[Starts, ...]
    paired: tuple[Starts, ...]


def groupings(size: int, ordered: bool, off_axis: Sequence[int]) -> Groupings | None:
    """None for a narrow column or one without order."""
    on_axis = size - len(off_axis)
    if not ordered or on_axis <= NARROW or any(code < on_axis for code in off_axis):
        return None

    def starts(groups: int) -> Starts:
        return (*(place * on_axis // groups for place in range(groups)), *range(on_axis, size))

    alone = [COARSEST]
    while 2 * FACTOR * alone[-1] <= on_axis:
        alone.append(FACTOR * alone[-1])
    fine = next(groups for groups in PAIRED_FINE if 2 * groups <= on_axis)
    return Groupings(tuple(map(starts, alone)), (starts(PAIRED_COARSE), starts(fine)))


def groupings_of(domain: TableDomain) -> dict[int, Groupings]:
    """Of every column that is wide and ordered."""
    found = ((i, groupings(c.size, c.ordered, c.off_axis_codes)) for i, c in enumerate(domain.columns))
    return {place: ways for place, ways in found if ways is not None}
