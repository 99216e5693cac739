"""A coded column: its codes, their order and what one stands for; and how its values were understood.

Codes are laid out as bins or listed values first, then `other` if declared, then null if declared.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Literal, TypeVar

import numpy as np

from understudy.pipelines.spec.formats import DateForm, Form, NumberForm, TruthForm, WordForm
from understudy.pipelines.table.binning import EPOCH
from understudy.pipelines.table.scales import Scale, ScaleName

AnyForm = TypeVar("AnyForm", NumberForm, DateForm, TruthForm, WordForm)
Kind = Literal["category", "integer", "number", "boolean", "date", "datetime"]


@dataclass(frozen=True)
class DomainColumn:
    """A column as codes 0..size-1.

    `values` are the listed values of a category, in code order. `edges` bound the bins of the other kinds: bin i is
    [edges[i], edges[i+1]), the last one closed, in the column's own units: numbers, whole numbers, days or microseconds
    since 1970. A boolean has codes 0 (false) and 1 (true).

    `spikes` are (bin, value): every value of that bin is published as this one. `span` is the declared range where
    spikes lie outside it: no other value is published outside. `step` is of what published values are multiples.
    """

    name: str
    kind: Kind
    values: tuple[str | int, ...]
    edges: tuple[float, ...] | tuple[int, ...]
    has_other: bool
    nullable: bool
    ordered: bool
    scale: ScaleName = "linear"
    decimals: int | None = None
    spikes: tuple[tuple[int, float | int], ...] = ()
    span: tuple[float, float] | tuple[int, int] | None = None
    step: Fraction | None = None
    form: Form | None = None
    """How its values are written, where the spec says more than what is understood without."""

    def form_of(self, kind: type[AnyForm]) -> AnyForm | None:
        return self.form if isinstance(self.form, kind) else None

    @property
    def places(self) -> int | None:
        """How many decimals its published values have, where they are multiples of a step that has as many."""
        if self.step is None:
            return None
        return next((digits for digits in range(13) if (self.step * 10**digits).denominator == 1), None)

    @property
    def log_scale(self) -> bool:
        return self.scale == "log"

    @property
    def declared_span(self) -> tuple[float, float] | tuple[int, int]:
        """The declared range; of whole numbers, days and moments the upper end is exclusive."""
        return self.span or (self.edges[0], self.edges[-1])

    @property
    def ends(self) -> tuple[float | int, float | int]:
        """The least and greatest value that may be published, spikes included."""
        low, high = self.declared_span
        if self.kind in ("integer", "date"):
            high -= 1
        spikes = [value for _, value in self.spikes]
        return min([low, *spikes]), max([high, *spikes])

    @property
    def on_scale(self) -> Scale:
        low, high = self.declared_span
        return Scale(self.scale, float(low), float(high))

    def intervals(self) -> tuple[np.ndarray, np.ndarray]:
        """From where to where (exclusive) the published values of each bin lie; a spike's both ends are its value."""
        edges = np.array(self.edges, np.float64 if self.kind == "number" else np.int64)
        low, high = self.declared_span
        lows, highs = np.maximum(edges[:-1], low), np.minimum(edges[1:], high)
        for code, value in self.spikes:
            lows[code] = highs[code] = value
        return lows, highs

    @property
    def is_spike(self) -> np.ndarray:
        marked = np.zeros(self.value_codes, bool)
        marked[[code for code, _ in self.spikes]] = True
        return marked

    @property
    def value_codes(self) -> int:
        """Codes that stand for a value, that is without `other` and null."""
        if self.kind == "category":
            return len(self.values)
        return 2 if self.kind == "boolean" else len(self.edges) - 1

    @property
    def size(self) -> int:
        return self.value_codes + self.has_other + self.nullable

    @property
    def other_code(self) -> int | None:
        return self.value_codes if self.has_other else None

    @property
    def null_code(self) -> int | None:
        return self.size - 1 if self.nullable else None

    @property
    def fallback_code(self) -> int:
        """Where a value that cannot be read as this kind goes, so that no row can make encoding fail."""
        if self.other_code is not None:
            return self.other_code
        return self.null_code if self.null_code is not None else 0

    @property
    def missing_code(self) -> int:
        return self.null_code if self.null_code is not None else self.fallback_code

    @property
    def off_axis_codes(self) -> tuple[int, ...]:
        """`other` and null: codes that have no place in the column's order."""
        return tuple(range(self.value_codes, self.size))

    def code_labels(self) -> list[str]:
        """A public, readable name of each code, for plans and cards."""
        labels: list[str]
        if self.kind == "category":
            labels = [str(value) for value in self.values]
        elif self.kind == "boolean":
            labels = ["false", "true"]
        else:
            exactly = dict(self.spikes)
            labels = [
                f"= {value_text(self.kind, exactly[code])}" if code in exactly else value_text(self.kind, low)
                for code, low in enumerate(self.edges[:-1])
            ]
        return labels + ["other"] * self.has_other + ["null"] * self.nullable


CELLS = ("fine", "null", "unreadable", "below", "above", "other")
"""What became of a value: understood, missing, not understood, out of the declared range on either side, not listed."""


@dataclass(frozen=True)
class QualityColumn(DomainColumn):
    """The same column with codes that say how its values were understood, CELLS, and not which they are.

    Each row falls into one cell, decided by its own value alone.
    """

    @classmethod
    def of(cls, column: DomainColumn) -> QualityColumn:
        return cls(**{field.name: getattr(column, field.name) for field in fields(column)})

    @property
    def size(self) -> int:
        return len(CELLS)

    @property
    def fallback_code(self) -> int:
        return CELLS.index("unreadable")

    @property
    def missing_code(self) -> int:
        return CELLS.index("null")

    def code_labels(self) -> list[str]:
        return list(CELLS)


def value_text(kind: Kind, edge: float | int) -> str:
    """A number, day or moment in the column's own units, as people write it."""
    if kind == "date":
        return str(EPOCH + dt.timedelta(days=int(edge)))
    if kind == "datetime":
        return str(dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(edge)))
    return f"{edge:g}" if kind == "number" else str(int(edge))
