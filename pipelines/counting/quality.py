"""How much of each column was understood: six noisy cells a column, bought with the marginals, in the same event.

Theorem. The cells of column i are a table of counts: each row falls into exactly one of them, decided by its own value
  and the public declaration (`table.coding.cells`). So they are plain tables of disjoint cells, released beside the
  residuals of `counting.residuals` or the one-way marginals of `counting.adaptive`, with a share of their budget: the
  event of those is of all of them, and these cost none of their own.
Relation, sensitivity. A unit of k rows moves the cells of one column by at most k (ADD_REMOVE) or sqrt(2) k
  (REPLACE_ONE) in L2, as it moves any marginal: `counts_sensitivity`. All columns are stacked, each with its std.
Noise unit. The std of a cell, in rows, or in ticks where entities are counted (`counting.weights`): shares are then of
  entities, each of which counts once whatever its rows.
Proof. docs/proofs/quality.md.
Reference. Dwork & Roth 2014, Appendix A.

What is derived from the noisy cells (shares, warnings, `publish.refuse_if`) is post-processing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.pipelines.counting.mechanism import MarginalNoise
from understudy.pipelines.counting.released import counted_total
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.table.columns import CELLS
from understudy.pipelines.table.domain import TableDomain

FACT = "quality_std"
ALARMING = 0.02
"""Above this share of rows that were not understood, beyond what noise explains, people are told in red."""

DEVIATIONS = 2.0
"""Of the noise, by which a share must pass a limit before it counts as above it."""


@dataclass(frozen=True)
class ColumnQuality:
    """The noisy shares of the CELLS of a column, in their order, and the standard deviation of each."""

    column: str
    shares: tuple[float, ...]
    std: float

    def share(self, cell: str) -> float:
        return self.shares[CELLS.index(cell)]

    def exceeds(self, cell: str, limit: float) -> bool:
        """Whether the share lies above the limit by more than the noise explains."""
        return self.share(cell) - DEVIATIONS * self.std > limit

    @property
    def is_alarming(self) -> bool:
        return self.exceeds("unreadable", ALARMING)


def quality_cliques(domain: TableDomain) -> list[Clique]:
    """One for each column that is read: the parts of a datetime are understood together."""
    first = {name: index for index, name in reversed(list(enumerate(_read_names(domain))))}
    return [(domain.quality_of(index),) for index in sorted(first.values())]


def _read_names(domain: TableDomain) -> list[str]:
    """Of each modelled column the name of what is read for it."""
    return [column.name for column in domain.countable[len(domain.columns) :]]


def quality_shares(share: float, domain: TableDomain) -> tuple[float, ...]:
    """Every column's cells get as much."""
    tables = len(quality_cliques(domain))
    return (share / tables,) * tables


def quality_by_name(cells: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    return {f"quality_{index}": counts for index, counts in enumerate(cells)}


def quality_fact(quality: Sequence[Clique], noise: MarginalNoise | None) -> dict[str, float]:
    """The std of their cells, which is the last of the noise's and the same for every column."""
    return {FACT: noise.stds[-1]} if quality and noise is not None else {}


def qualities_of(measured: Measurement, domain: TableDomain) -> tuple[ColumnQuality, ...]:
    """What was bought of each column; nothing where the spec did not ask for it."""
    if FACT not in measured.facts:
        return ()
    total, std = max(1.0, counted_total(measured)), float(measured.facts[FACT])
    return tuple(
        ColumnQuality(name, _shares(measured.arrays, index, total), std / total)
        for index, name in enumerate(dict.fromkeys(_read_names(domain)))
    )


def _shares(arrays: Mapping[str, np.ndarray], index: int, total: float) -> tuple[float, ...]:
    return tuple(float(share) for share in np.round(np.asarray(arrays[f"quality_{index}"], float) / total, 6))
