"""Few groups of each column's values, so that an interaction of three columns has few cells and stands out from noise.

Theorem. A grouping maps every code to one of `groups_of(size)` groups, and every group has a code, whatever the noisy
  counts are. So a row lies in exactly one cell of a merged table, whose shape is public.
Relation, sensitivity, noise unit. Those of a table of the merged shape (counting/residuals.py).
Proof, reference. docs/proofs/triples.md, step 2.

Groups are made of released noisy counts and public facts alone: as even as the counts allow, neighbours together where
values have an order.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

MOST_GROUPS = 4

FloatArray = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int64]
"""For every code of a column, the number of its group."""


def groups_of(size: int) -> int:
    """How many groups a column of so many values is merged into."""
    return min(size, MOST_GROUPS)


def even_groups(counts: FloatArray, ordered: bool) -> Groups:
    """The groups of a column with these noisy counts, which may be negative or nought."""
    masses = np.maximum(counts, 0.0) + 1e-9
    if groups_of(len(counts)) == len(counts):
        return np.arange(len(counts))
    return _cut(masses) if ordered else _dealt(masses)


def other_groups(size: int) -> Groups:
    """A second way, by the order of the codes alone, for what the first does not see, such as odd against even."""
    return np.arange(size) % groups_of(size)


def merged(table: np.ndarray, groups: Sequence[Groups]) -> np.ndarray:
    """The sums of a table over the groups of each of its axes."""
    for axis, group in enumerate(groups):
        if len(group) > groups_of(len(group)):
            order = np.argsort(group, kind="stable")
            starts = np.searchsorted(group[order], np.arange(groups_of(len(group))))
            table = np.add.reduceat(np.take(table, order, axis=axis), starts, axis=axis)
    return table


def _cut(masses: FloatArray) -> Groups:
    """Runs of neighbours."""
    wanted = groups_of(len(masses))
    reached = np.cumsum(masses) / masses.sum()
    first = 0
    groups = np.zeros(len(masses), dtype=np.int64)
    for number in range(1, wanted):
        middle = int(np.searchsorted(reached - masses / masses.sum() / 2, number / wanted))
        first = min(max(middle, first + 1), len(masses) - (wanted - number))
        groups[first:] = number
    return groups


def _dealt(masses: FloatArray) -> Groups:
    """The heaviest value first, each to the group that has least."""
    wanted = groups_of(len(masses))
    groups = np.zeros(len(masses), dtype=np.int64)
    held = np.zeros(wanted)
    for code in np.argsort(-masses, kind="stable"):
        groups[code] = int(held.argmin())
        held[groups[code]] += masses[code]
    return groups
