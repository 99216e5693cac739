"""What a copy is good for, told from signal and noise alone: for each column and pair, and for the whole copy.

A table of C cells with noise of std s in each is off by sqrt(C s^2 / |N|^2), the root of noise over signal: the
relative error of a typical cell, cells counting by how many rows they hold. |N|^2, the sum of squared counts, is at
least n^2 / C, which is all that is known before anything is measured (every cell alike); afterwards it is estimated
without bias, by taking the noise's own squares away. Good: off by at most a tenth. Noise: off by as much as there is.

A pair may be well known and yet tell nothing of how its columns go together: whether their interaction stands out of
its noise is told beside it, by the sum of its squares, which noise alone would exceed in 5 of 200 pairs.
Everything here is post-processing of released numbers, or of a public plan.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.released import KIND, RESIDUALS, counts_entities
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.residuals import residuals_of
from understudy.pipelines.privacy.measurement import Measurement

Grade = Literal["good", "usable with care", "noise"]
GRADES: tuple[Grade, ...] = ("good", "usable with care", "noise")
GOOD, NOISE = 0.1, 1.0
QUOTED = 0.1
"""The error, one standard deviation, at which a group may be quoted."""

WELL = 0.9
"""The part of the pairs that must be good for a good copy."""


def grade_of(off: float) -> Grade:
    return "good" if off <= GOOD else "noise" if off >= NOISE else "usable with care"


@dataclass(frozen=True)
class TableVerdict:
    """Of one column or pair; `std` is the noise of a cell, in rows. `stands_out` is of a pair that was measured."""

    columns: tuple[str, ...]
    cells: int
    std: float
    off: float
    stands_out: bool | None = None

    @property
    def grade(self) -> Grade:
        return grade_of(self.off)

    @property
    def name(self) -> str:
        return " x ".join(self.columns)


@dataclass(frozen=True)
class Verdict:
    """`tables` are columns and pairs, the worst first. Noise and groups are in what was counted: rows, or entities."""

    rows: float
    tables: tuple[TableVerdict, ...]
    of: str = "rows"

    @cached_property
    def columns(self) -> tuple[TableVerdict, ...]:
        return tuple(table for table in self.tables if len(table.columns) == 1)

    @cached_property
    def pairs(self) -> tuple[TableVerdict, ...]:
        return tuple(table for table in self.tables if len(table.columns) == 2)

    def pair(self, one: str, other: str) -> TableVerdict:
        for table in self.pairs:
            if set(table.columns) == {one, other}:
                return table
        raise SpecError(f"{one} and {other} were not measured together", "ask about two columns that were")

    @cached_property
    def grade(self) -> Grade:
        """Good: every column and nine of ten pairs. Noise: half of the columns, or every pair unless its columns are
        all good by themselves."""
        lost = sum(column.grade == "noise" for column in self.columns)
        fine = all(column.grade == "good" for column in self.columns)
        drowned = bool(self.pairs) and all(pair.grade == "noise" for pair in self.pairs)
        if (lost and 2 * lost >= len(self.columns)) or (drowned and not fine):
            return "noise"
        well = sum(pair.grade == "good" for pair in self.pairs) >= WELL * len(self.pairs)
        return "good" if well and fine else "usable with care"

    def is_refused(self, worst: Grade) -> bool:
        """Whether it is as bad as that, or worse."""
        return GRADES.index(self.grade) >= GRADES.index(worst)

    @property
    def smallest_group(self) -> int:
        """Rows of the smallest group, of one cell of a usual table, that is off by no more than a tenth."""
        return self._group(QUOTED)

    def _group(self, error: float) -> int:
        wide = [pair.std for pair in self.pairs] or [column.std for column in self.columns]
        return math.ceil(float(np.median(wide)) / error) if wide else 0

    @property
    def sentence(self) -> str:
        counted = [
            _counted([table.grade for table in tables], one)
            for tables, one in ((self.columns, "column"), (self.pairs, "pair"))
            if tables
        ]
        kinds = "two columns" if self.pairs else "one column"
        return (
            f"{self.grade}: {'; '.join(counted)}. Groups (by {kinds}) below {self._group(0.25):,} {self.of} are off by "
            f"more than a quarter; the smallest to quote at 10% error has {self.smallest_group:,} {self.of}."
        )


def verdict_of(told: Residuals, names: Sequence[str], of: str = "rows") -> Verdict:
    """After measuring. `names` are the columns'; marginals of three columns and more are judged by their parts."""
    rows = max(1.0, told.total)
    named = [clique for clique in told.by_clique if all(column < len(names) for column in clique)]
    asked = [clique for clique in named if len(clique) in (1, 2)]
    return ranked(rows, [_measured(clique, told, rows, names) for clique in asked], of)


def measured_verdict(measured: Measurement, names: Sequence[str]) -> Verdict | None:
    """None where a method measured no tables of counts."""
    if measured.kind not in (KIND, RESIDUALS):
        return None
    return verdict_of(residuals_of(measured), names, "entities" if counts_entities(measured) else "rows")


def expected_verdict(tables: Sequence[tuple[tuple[str, ...], int, float]], rows: int, of: str = "rows") -> Verdict:
    """Before measuring: columns, cells and noise of the tables that a plan will measure, for so many rows."""
    judged = [
        TableVerdict(columns, cells, std, cells * std / max(1, rows))
        for columns, cells, std in tables
        if len(columns) < 3
    ]
    return ranked(float(rows), judged, of)


def rows_needed(verdict: Verdict) -> int:
    """The fewest rows, every cell being alike, with which such a copy would not be noise."""

    def is_noise(rows: int) -> bool:
        tables = tuple(replace(table, off=table.cells * table.std / rows) for table in verdict.tables)
        return Verdict(rows, tables).grade == "noise"

    few, many = 0, 1
    while is_noise(many):
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (middle, many) if is_noise(middle) else (few, middle)
    return many


def ranked(rows: float, tables: Sequence[TableVerdict], of: str = "rows") -> Verdict:
    return Verdict(rows, tuple(sorted(tables, key=lambda table: (-table.off, table.columns))), of)


def _measured(clique: Clique, told: Residuals, rows: float, names: Sequence[str]) -> TableVerdict:
    counts, variance = told.marginal(clique), told.variance(clique)
    noise = counts.size * variance
    signal = max(float((counts**2).sum()) - noise, rows**2 / counts.size)
    out = _stands_out(clique, told) if len(clique) == 2 else None
    return TableVerdict(
        tuple(names[c] for c in clique), counts.size, math.sqrt(variance), math.sqrt(noise / signal), out
    )


def _stands_out(clique: Clique, told: Residuals) -> bool:
    """By the sum of squares over its noise: chi-squared, if there is no interaction, with the 97.5% point of Wilson and
    Hilferty 1931."""
    residual = told.by_clique[clique]
    freedom = math.prod(told.sizes[column] - 1 for column in clique)
    if residual.std == 0:
        return True
    limit = freedom * (1 - 2 / (9 * freedom) + 1.96 * math.sqrt(2 / (9 * freedom))) ** 3
    return float((residual.counts**2).sum()) / residual.std**2 > limit


def _counted(grades: Sequence[Grade], one: str) -> str:
    many = f"{len(grades)} {one}" + "s" * (len(grades) != 1)
    told = [f"{grades.count(grade)} {grade}" for grade in GRADES if grade in grades]
    return f"of {many} {', '.join(told)}"
