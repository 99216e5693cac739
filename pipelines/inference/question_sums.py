"""What a question sums over rows: functions of the columns it is about, by code, from its conditions and measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.axes import Axis, axis_of, meets
from understudy.pipelines.inference.intervals import EVERYTHING
from understudy.pipelines.inference.question import All, Any_, Condition, Not, Question, pieces
from understudy.pipelines.table.columns import DomainColumn

FloatArray = npt.NDArray[np.float64]
MOST_CELLS = 30_000_000


@dataclass(frozen=True, eq=False)
class Told:
    """Released residuals, what their codes stand for, and how many rows one unit may have."""

    residuals: Residuals
    columns: tuple[DomainColumn, ...]
    max_rows: int = 1

    @cached_property
    def places(self) -> dict[str, int]:
        return {column.name: place for place, column in enumerate(self.columns)}


class QuestionSums:
    """Arrays over pieces of the axes (axes.py), then over codes."""

    def __init__(self, question: Question, told: Told) -> None:
        self.question, self.told = question, told
        self.columns = tuple(sorted(told.places[name] for name in question.names))
        conditions = [*pieces(question.where), *pieces(question.measure.condition)]
        self.axes = [
            axis_of(told.columns[c], [each for each in conditions if told.places[each.column] == c])
            for c in self.columns
        ]
        if math.prod(len(axis.code) for axis in self.axes) > MOST_CELLS:
            raise SpecError("the question spans too many cells", "ask about fewer columns at a time")
        self.by = tuple(told.places[name] for name in question.by)

    @cached_property
    def where(self) -> FloatArray:
        return self._true(self.question.where)

    def _true(self, condition: Condition | None) -> FloatArray:
        return np.ones([1] * len(self.axes)) if condition is None else (self._level(condition) == 1.0).astype(float)

    def _level(self, condition: Condition) -> FloatArray:
        """True 1, false 0, unknown between: and is the least, or the greatest, as in SQL."""
        match condition:
            case Not(of):
                return 1.0 - self._level(of)
            case All(parts):
                return np.asarray(_fold(np.minimum, [self._level(part) for part in parts]))
            case Any_(parts):
                return np.asarray(_fold(np.maximum, [self._level(part) for part in parts]))
            case _:
                place = self._place(condition.column)
                return self._along(meets(condition, self.axes[place]), place)

    def _place(self, name: str) -> int:
        return self.columns.index(self.told.places[name])

    def _along(self, values: npt.NDArray[Any], place: int) -> FloatArray:
        shape = [1] * len(self.axes)
        shape[place] = len(values)
        return np.asarray(values, dtype=float).reshape(shape)

    def _by_codes(self, functions: Sequence[FloatArray]) -> FloatArray:
        whole = [len(axis.code) for axis in self.axes]
        found = np.stack([np.broadcast_to(function, whole) for function in functions])
        for place, axis in enumerate(self.axes):
            found = axis.to_codes(found, place + 1)
        return found

    def _cut(self, share: FloatArray) -> FloatArray:
        """The most by which a cell of codes that a condition cuts may be counted wrongly."""
        return np.where((share > 1e-9) & (share < 1 - 1e-9), np.maximum(share, 1 - share), 0.0)

    @cached_property
    def number(self) -> tuple[Axis, int]:
        name = self.question.measure.column or ""
        place = self._place(name)
        axis = self.axes[place]
        if axis.column.kind not in ("integer", "number", "boolean"):
            raise SpecError(f"{name} is no number", "count its groups, or ask about a column of numbers")
        return axis, place

    @cached_property
    def functions(self) -> FloatArray:
        """The sums that are asked for, then their products two by two, then what bins may hide."""
        measure, where = self.question.measure, self.where
        if measure.kind == "count":
            [counted] = self._by_codes([where])
            return np.stack([counted, counted, self._cut(counted)])
        if measure.kind == "share":
            inside = where * self._true(measure.condition) if measure.condition is not None else where
            above, below = self._by_codes([inside, where])
            return np.stack([above, below, above, above, below, np.maximum(self._cut(above), self._cut(below))])
        axis, place = self.number
        known = where * self._along(axis.has_value, place)
        mean, square, width = (
            known * self._along(np.nan_to_num(values), place) for values in (axis.mean, axis.square, axis.half_width)
        )
        total, below, squares, hidden = self._by_codes([mean, known, square, width])
        hidden = hidden + self._cut(below) * max(abs(end) for end in self._ends)
        if measure.kind == "sum":
            return np.stack([total, squares, hidden])
        return np.stack([total, below, squares, total, below, hidden])

    @cached_property
    def _ends(self) -> tuple[float, float]:
        axis, _ = self.number
        return float(np.nanmin(axis.low)), float(np.nanmax(axis.last))

    @property
    def possible(self) -> tuple[float, float]:
        """Values that the quantity can have at all."""
        match self.question.measure.kind:
            case "count":
                return 0.0, math.inf
            case "share":
                return 0.0, 1.0
            case "sum":
                return (0.0, math.inf) if self._ends[0] >= 0 else EVERYTHING
            case _:
                return self._ends

    @property
    def _terms(self) -> int:
        return 1 if self.question.measure.kind in ("count", "sum") else 2


def _fold(combine: Any, parts: Sequence[FloatArray]) -> Any:
    found = parts[0]
    for part in parts[1:]:
        found = combine(found, part)
    return found
