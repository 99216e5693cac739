"""What sums over rows ask of each released residual: one pass over their functions for all groups (sums.py).

Of groups k by columns G the function is f times [G = k], and [G = k] is a product over G whose averages and centred
parts are known: (e_k - 1/n) along a column of A and 1/n along others. So all groups cost one pass over f.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.grouped import GroupedAxis, Joined
from understudy.pipelines.inference.grouped_noise import Alone, Factor, GroupNoise

FloatArray = npt.NDArray[np.float64]
NEGLIGIBLE = 1e-12
"""Relative to the largest value of a function: what is left of a zero by rounding."""


class NotMeasured(Exception):
    """These columns were not measured together, so that no released number answers."""

    def __init__(self, columns: Clique) -> None:
        super().__init__(columns)
        self.columns = columns


@dataclass(frozen=True)
class Grouping:
    """`outer` groups stand for themselves; between `inner` ones covariances are wanted too."""

    outer: Clique = ()
    inner: Clique = ()

    @property
    def columns(self) -> Clique:
        return self.outer + self.inner

    def alone(self, held: Clique, sizes: Sequence[int]) -> float:
        """The variance that one outer group has of the unit noise of a set, whose grouped columns are `held`."""
        found = 1.0
        for column in self.outer:
            found *= 1 - 1 / sizes[column] if column in held else 1 / sizes[column] ** 2
        return found


class Passes:
    """One pass for each set of columns that the functions have beside the groups: what they are there, as
    `flat[o, i, j, c]` (once where all o are alike), and the sets of groups that are `held` beside it, with the std of
    each residual. Values add up as they go."""

    def __init__(
        self, told: Residuals, columns: Clique, functions: FloatArray, grouping: Grouping, noisy: int | None = None
    ) -> None:
        self._told, self._groups = told, grouping.columns
        self._rest = tuple(column for column in columns if column not in self._groups)
        order = [0, *(1 + columns.index(column) for column in (*self._groups, *self._rest))]
        self._arranged = np.transpose(functions, order)
        outer, inner = (math.prod(told.sizes[c] for c in part) for part in (grouping.outer, grouping.inner))
        first = len(functions) if noisy is None else noisy
        self.shape = outer, inner, first
        self.values = np.zeros((outer, inner, len(functions)))
        self._of_total = np.zeros(self.shape)
        joined = any(isinstance(told.by_clique.get(clique), Joined) for clique in _subsets(columns))
        self.in_groups = InGroups(told, grouping, *self.shape) if joined else None

    def __iter__(self) -> Iterator[tuple[FloatArray, dict[Clique, float]]]:
        told, groups, rest = self._told, self._groups, self._rest
        outer, inner, first = self.shape
        largest = float(np.abs(self._arranged).max(initial=0.0))
        for kept in _subsets(rest):
            part = _averaged(self._arranged, len(groups), rest, kept, told.sizes)
            if float(np.abs(part).max(initial=0.0)) <= NEGLIGIBLE * largest:
                continue
            # Of every group and function, the coefficients over the kept columns.
            flat = np.moveaxis(part, 0, len(groups)).reshape(outer, inner, len(part), -1)
            if (flat == flat[:1]).all():
                flat = flat[:1]
            stds = {}
            for held in _subsets(groups):
                clique = tuple(sorted((*held, *kept)))
                if any(told.sizes[column] == 1 for column in clique):
                    continue
                if clique not in told.by_clique:
                    raise NotMeasured(clique)
                residual = told.by_clique[clique]
                along = _along(residual.counts, clique, held, kept, groups, told)
                self.values += _applied(flat, along, held, groups, told)
                stds[held] = residual.std
                if not clique:
                    self._of_total = flat[:, :, :first, 0] / math.prod(_sizes(groups, told))
                if self.in_groups is not None:
                    self.in_groups.add(clique, held, kept, flat[:, :, :first])
            yield flat[:, :, :first], stds

    @property
    def of_total(self) -> FloatArray:
        """After the noise."""
        return (
            np.broadcast_to(self._of_total, self.shape)
            if self.in_groups is None
            else self.in_groups.of_total.reshape(self.shape)
        )


class InGroups:
    """What is different about the noise where residuals were joined with groups of neighbours (grouped.py)."""

    def __init__(self, told: Residuals, grouping: Grouping, outer: int, inner: int, many: int) -> None:
        self._told, self._grouping = told, grouping
        self._shape = outer, inner, many
        self._joined = GroupNoise(told, outer, inner * many)
        self._alone: dict[int, Alone] = {}
        self._total = np.zeros((outer, inner * many))
        parts = zip((grouping.outer, grouping.inner), (outer, inner), strict=True)
        self._codes = {
            column: (side, codes)
            for side, (part, size) in enumerate(parts)
            for column, codes in zip(part, _codes(size, _sizes(part, told)), strict=True)
        }

    def add(self, clique: Clique, held: Clique, kept: Clique, flat: FloatArray) -> None:
        """Of a set of columns, those `held` by groups and those `kept` in the functions."""
        _, inner, many = self._shape
        lacked = [column for column in self._grouping.columns if column not in held]
        functions = flat.reshape(len(flat), inner * many, -1) / math.prod(_sizes(lacked, self._told))
        residual = self._told.by_clique[clique]
        if not clique:
            self._total = functions[:, :, 0]
        elif len(clique) == 1:
            code = None if kept else self._code(held[0])
            self._alone[clique[0]] = Alone(functions if kept else functions[:, :, 0], code)
        elif isinstance(residual, Joined):
            axes = dict(zip(clique, residual.axes, strict=True))
            if not held:
                table = functions.reshape(*functions.shape[:2], *_sizes(kept, self._told))
                table = np.moveaxis(axes[kept[0]].coordinates(np.moveaxis(table, 2, -1)), -1, 2)
                table = axes[kept[1]].coordinates(table)
                self._joined.table(clique, table if kept == clique else table.swapaxes(2, 3))
                return
            parts = {column: self._indicators(column, axes[column]) for column in held}
            if kept:
                parts[kept[0]] = axes[kept[0]].coordinates(functions)
            else:
                by_inner = max(held, key=lambda column: parts[column].shape[1])  # the other stays alike within o
                parts[by_inner] = parts[by_inner] * functions
            self._joined.pair(clique, *(parts[column] for column in clique))

    def noise(self) -> FloatArray:
        outer, inner, many = self._shape
        return self._joined.finished(self._alone, self._total).reshape(outer, inner, many, inner, many)

    def factors(self) -> list[Factor]:
        return self._joined.factors(self._alone, self._total)

    @property
    def of_total(self) -> FloatArray:
        """After `noise`."""
        return self._total + self._joined.of_total

    def _code(self, column: int) -> npt.NDArray[np.int64]:
        """Of the groups, [o, 1] or [1, k]."""
        side, codes = self._codes[column]
        return codes[:, None] if side == 0 else np.repeat(codes, self._shape[2])[None]

    def _indicators(self, column: int, axis: GroupedAxis) -> FloatArray:
        """Coordinates of the indicator of each group's code, [o, 1 or k, coordinates]."""
        basis = np.eye(axis.size) - 1 / axis.size if axis.basis is None else axis.basis
        found = basis[self._code(column)]
        return np.broadcast_to(found, (self._shape[0], *found.shape[1:]))


def _sizes(columns: Sequence[int], told: Residuals) -> list[int]:
    return [told.sizes[column] for column in columns]


def _codes(groups: int, sizes: Sequence[int]) -> Sequence[npt.NDArray[np.int64]]:
    return np.unravel_index(np.arange(groups), sizes) if sizes else ()


def _subsets(columns: Clique) -> list[Clique]:
    return [kept for order in range(len(columns) + 1) for kept in combinations(columns, order)]


def _averaged(functions: FloatArray, groups: int, rest: Clique, kept: Clique, sizes: Sequence[int]) -> FloatArray:
    """Averaged over the columns of the rest that are not kept, centred along those that are."""
    lacked = tuple(1 + groups + place for place, column in enumerate(rest) if column not in kept)
    part = functions.mean(axis=lacked) if lacked else functions
    for axis in range(1 + groups, part.ndim):
        part = part - part.mean(axis=axis, keepdims=True)
    return np.asarray(part)


def _along(
    counts: FloatArray, clique: Clique, held: Clique, kept: Clique, groups: Clique, told: Residuals
) -> FloatArray:
    """The residual as (groups..., kept cells): one entry along groups that it does not have."""
    shape = [told.sizes[column] for column in clique]
    arranged = counts.reshape(shape).transpose([clique.index(column) for column in (*held, *kept)])
    cells = math.prod(told.sizes[column] for column in kept)
    return arranged.reshape([told.sizes[column] if column in held else 1 for column in groups] + [cells])


def _applied(flat: FloatArray, residual: FloatArray, held: Clique, groups: Clique, told: Residuals) -> FloatArray:
    shape = [told.sizes[column] for column in groups]
    spread = math.prod(told.sizes[column] for column in groups if column not in held)
    cells = residual.shape[-1]
    full = np.broadcast_to(residual, (*shape, cells)).reshape(-1, flat.shape[1], cells)
    return np.asarray(np.einsum("oijc,oic->oij", flat, full) / spread)
