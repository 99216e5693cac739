"""The public problem a generator solves: noisy marginals over a grid of codes, and nothing else.

Everything in this package is post-processing of these values (PrivPGD, Algorithm 3 and Lemma 3.2): no
private row is in reach, so ordinary random generators are used and every step may be retried for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.entity_rows import EntityResiduals
from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.table.domain import TableDomain

MAX_ORDER = 4
MAX_CELLS = 50_000_000


class GenerationError(UnderstudyError, ValueError):
    """The noisy marginals or the request cannot be turned into a table."""

    exit_code = 2


@dataclass(frozen=True, eq=False)
class NoisyMarginal:
    """Noisy counts over the cells of `columns`; `sigma` is the noise's std per cell, in counts."""

    columns: tuple[int, ...]
    counts: npt.NDArray[np.generic]
    sigma: float

    @property
    def variance(self) -> float:
        return float(self.sigma) ** 2


@dataclass(frozen=True)
class GridColumn:
    """A column of codes 0..size-1; `unordered_codes` (null, other) lie off the axis of an ordered column."""

    size: int
    ordered: bool
    unordered_codes: tuple[int, ...] = ()


Noisy = Sequence[NoisyMarginal] | Residuals | EntityResiduals
"""What was released: marginals noised one by one, or the residuals that answer them all, of rows or of entities."""


def grid_of(domain: TableDomain) -> list[GridColumn]:
    return [GridColumn(column.size, column.ordered, column.off_axis_codes) for column in domain.columns]


def validate(noisy: Noisy, columns: Sequence[GridColumn]) -> None:
    """Refuse anything the later stages could only misread; messages name columns and shapes, never counts."""
    if not columns:
        raise GenerationError("there are no columns to generate. Declare at least one column.")
    for index, column in enumerate(columns):
        if column.size < 1:
            raise GenerationError(f"column {index} has size {column.size}; a column needs at least one code.")
        if any(not 0 <= code < column.size for code in column.unordered_codes):
            raise GenerationError(f"column {index} lists unordered codes outside 0..{column.size - 1}.")
    if isinstance(noisy, EntityResiduals):
        _validate_residuals(noisy.residuals, [*columns, GridColumn(len(noisy.weights.levels), True)])
        return
    if isinstance(noisy, Residuals):
        _validate_residuals(noisy, columns)
        return
    for marginal in noisy:
        _validate_marginal(marginal, columns)


def _validate_residuals(residuals: Residuals, columns: Sequence[GridColumn]) -> None:
    if residuals.sizes != tuple(column.size for column in columns):
        raise GenerationError("the residuals were measured over columns of other sizes.")
    widest = max((len(clique) for clique in residuals.asked), default=0)
    if widest > MAX_ORDER:
        raise GenerationError(f"a marginal has {widest} columns; 1 to {MAX_ORDER} are supported.")


def _validate_marginal(marginal: NoisyMarginal, columns: Sequence[GridColumn]) -> None:
    name = f"marginal {marginal.columns}"
    if not 1 <= len(marginal.columns) <= MAX_ORDER:
        raise GenerationError(f"{name} has {len(marginal.columns)} columns; 1 to {MAX_ORDER} are supported.")
    if list(marginal.columns) != sorted(set(marginal.columns)):
        raise GenerationError(f"{name} must list distinct columns in increasing order.")
    if not 0 <= marginal.columns[0] <= marginal.columns[-1] < len(columns):
        raise GenerationError(f"{name} names a column outside 0..{len(columns) - 1}.")
    expected = tuple(columns[c].size for c in marginal.columns)
    if np.shape(marginal.counts) != expected:
        raise GenerationError(f"{name} has shape {np.shape(marginal.counts)} but its columns have sizes {expected}.")
    if np.size(marginal.counts) > MAX_CELLS:
        raise GenerationError(f"{name} has over {MAX_CELLS:,} cells; use coarser bins or fewer columns.")
    if not np.isfinite(marginal.sigma) or marginal.sigma < 0:
        raise GenerationError(f"{name} needs a finite sigma >= 0.")
    if not np.all(np.isfinite(np.asarray(marginal.counts, dtype=np.float64))):
        raise GenerationError(f"{name} holds counts that are not finite.")
