"""From a question to its answers, by released residuals alone: no row is looked at, synthetic or not.

For this table, what is uncertain is the noise. For the population, rows are taken to have come independently (each
entity's together: at most `max_rows` of them, and their number bounds how much more that lets a sum vary), so that the
sum of f has sampling variance sum f^2, which is a sum too and estimated like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import LEVEL, Answer, Uncut
from understudy.pipelines.inference.axes import Axis, axis_of, code_of, group_value, meets
from understudy.pipelines.inference.intervals import (
    EVERYTHING,
    Bins,
    Interval,
    deviations,
    of_difference,
    of_quantile,
    of_quotient,
    of_ratio,
    of_sum,
    quantile,
    ratio_variance,
)
from understudy.pipelines.inference.question import All, Any_, Condition, Not, Question, pieces
from understudy.pipelines.inference.sums import Grouping, Sums, sums
from understudy.pipelines.table.columns import DomainColumn

FloatArray = npt.NDArray[np.float64]
MOST_COMPARED = 3000
"""Groups whose covariances are all computed."""

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


def estimate(question: Question, told: Told, level: float = LEVEL) -> tuple[Answer, ...]:
    """Of a question without `unknown` columns; NotMeasured if some of them were not measured together."""
    asked = _Asked(question, told)
    z = deviations(level)
    if question.measure.kind == "quantile":
        return tuple(asked.quantiles(z))
    if question.measure.kind == "share" and question.measure.condition is None:
        return tuple(asked.parts(z))
    return tuple(asked.compared(z) if question.contrast is not None else asked.plain(z))


@dataclass(frozen=True)
class _Uncertain:
    """One quantity with its two intervals, before it is compared with another."""

    value: float
    noise: FloatArray
    sampling: FloatArray
    sums: FloatArray
    possible: tuple[float, float]
    within_bins: float

    @property
    def is_ratio(self) -> bool:
        return len(self.sums) == 2

    @property
    def is_told(self) -> bool:
        return math.isfinite(self.value)

    def interval(self, z: float, population: bool) -> Interval:
        matrix = self.noise + self.sampling if population else self.noise
        if self.is_ratio:
            return of_ratio(float(self.sums[0]), float(self.sums[1]), matrix, z, self.possible)
        return of_sum(float(self.sums[0]), float(matrix[0, 0]), z).within(*self.possible)

    def uncut(self, matrix: FloatArray, z: float) -> Interval:
        """Also where it is not possible: what noise does to it is what a comparison must know."""
        if not self.is_ratio:
            return of_sum(self.value, float(matrix[0, 0]), z)
        return of_ratio(float(self.sums[0]), float(self.sums[1]), matrix, z)

    def variance(self, matrix: FloatArray) -> float:
        if self.is_ratio:
            return ratio_variance(float(self.sums[0]), float(self.sums[1]), matrix)
        return max(0.0, float(matrix[0, 0]))

    def slope(self) -> FloatArray:
        """How the quantity moves with its sums."""
        return np.array([1.0, -self.value]) / self.sums[1] if self.is_ratio else np.ones(1)


class _Asked:
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

    # What is summed: arrays over pieces of the axes, then over codes.

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

    # Groups.

    def _groups(self, grouping: Grouping) -> list[list[tuple[int, ...]]]:
        """Codes of each outer and inner group, in the order in which sums are given."""
        parts = [product(*(range(self.told.columns[c].size) for c in part))
                 for part in (grouping.outer, grouping.inner)]  # fmt: skip
        return [list(part) for part in parts]

    def _present(self, grouping: Grouping) -> npt.NDArray[np.bool_]:
        """Which groups the condition leaves any rows in, whatever the table: (outer, inner)."""
        last = self.functions[1 if self._terms == 2 else 0] if self.question.measure.kind != "sum" else None
        counted = self._by_codes([self.where])[0] if last is None else last
        rest = tuple(p for p, c in enumerate(self.columns) if c not in grouping.columns)
        some = np.abs(counted).max(axis=rest) if rest else np.abs(counted)
        left = [c for c in self.columns if c in grouping.columns]
        some = np.transpose(some, [left.index(c) for c in grouping.columns])
        sizes = [math.prod(self.told.columns[c].size for c in part) for part in (grouping.outer, grouping.inner)]
        return np.asarray(some.reshape(sizes) > 0)

    def _named(self, columns: Sequence[int], codes: Sequence[int]) -> dict[str, Any]:
        described = [self.told.columns[c] for c in columns]
        return {column.name: group_value(column, code) for column, code in zip(described, codes, strict=True)}

    def _summed(self, grouping: Grouping) -> Sums:
        inner = math.prod(self.told.columns[c].size for c in grouping.inner)
        if inner > MOST_COMPARED:
            raise SpecError(f"{inner:,} groups are too many to compare", "use fewer, by `where`")
        return sums(self.told.residuals, self.columns, self.functions, grouping, self._terms)

    def _uncertain(self, values: FloatArray, noise: FloatArray) -> _Uncertain:
        terms = self._terms
        own, hidden = values[:terms], float(values[-1])
        if terms == 1:
            sampling = np.array([[max(0.0, float(values[1]))]]) * self.told.max_rows
            value = float(own[0])
        else:
            sampling = _positive(np.array([[values[2], values[3]], [values[3], values[4]]])) * self.told.max_rows
            value = float(own[0] / own[1]) if own[1] > 0 else math.nan
        bound = max(0.0, hidden) if terms == 1 else max(0.0, hidden) / own[1] if own[1] > 0 else math.inf
        low, high = self.possible
        bound = min(bound, high - low)
        return _Uncertain(value, noise, sampling, own, self.possible, bound if bound > 1e-12 else 0.0)

    # Answers.

    def plain(self, z: float) -> list[Answer]:
        grouping = Grouping(outer=self.by)
        found, present = self._summed(grouping), self._present(grouping)
        if not self.columns:
            return [self._all_rows(self._uncertain(found.values[0, 0], found.noise[0, 0, :, 0]), z)]
        answers = []
        for place, codes in enumerate(self._groups(grouping)[0]):
            if present[place, 0]:
                one = self._uncertain(found.values[place, 0], found.noise[place, 0, :, 0])
                answers.append(_answer(self._named(self.by, codes), one, z))
        return answers

    def _all_rows(self, one: _Uncertain, z: float) -> Answer:
        """How many rows there are is whole, and so is its noise: the interval ends halfway between two numbers, lest
        rounding lets the truth fall out of it."""
        answer, off = _answer({}, one, z), 0.5 * bool(one.noise.any())
        own, wide = (
            None if each is None else Interval(each.low - off, each.high + off).within(*self.possible)
            for each in (answer.interval, answer.population)
        )
        return replace(answer, interval=own, population=wide)

    def parts(self, z: float) -> list[Answer]:
        """Of all rows, the share of each group: the total is the sum of the groups."""
        grouping = Grouping(inner=self.by)
        plain = replace(self.question, measure=replace(self.question.measure, kind="count"))
        counted = _Asked(plain, self.told)
        found, present = counted._summed(grouping), counted._present(grouping)
        values, noise = found.values[0, :, 0], found.noise[0, :, 0, :, 0]
        total, with_total = values.sum(), noise.sum(axis=1)
        all_noise = float(with_total.sum())
        answers = []
        for place, codes in enumerate(self._groups(grouping)[1]):
            if not present[0, place]:
                continue
            matrix = np.array([[noise[place, place], with_total[place]], [with_total[place], all_noise]])
            own = np.array([values[place], total])
            squares = np.maximum([[values[place], values[place]], [values[place], total]], 0.0)
            value = float(own[0] / total) if total > 0 else math.nan
            hidden = float(found.values[0, place, -1]) / total if total > 0 else 0.0
            one = _Uncertain(value, matrix, _positive(squares) * self.told.max_rows, own, (0.0, 1.0), max(0.0, hidden))
            answers.append(_answer(self._named(self.by, codes), one, z))
        return answers

    def compared(self, z: float) -> list[Answer]:
        contrast = self.question.contrast
        assert contrast is not None
        grouping = Grouping(self.by[:-1], self.by[-1:])
        found, present = self._summed(grouping), self._present(grouping)
        column = self.told.columns[self.by[-1]]
        reference = _reference(column, contrast.against, np.asarray(present.any(axis=0)))
        answers = []
        for place, codes in enumerate(self._groups(grouping)[0]):
            base = self._uncertain(found.values[place, reference], found.noise[place, reference, :, reference])
            for code in range(column.size):
                if code == reference or not (present[place, code] and present[place, reference]):
                    continue
                one = self._uncertain(found.values[place, code], found.noise[place, code, :, code])
                group = {
                    **self._named(self.by[:-1], codes),
                    column.name: group_value(column, code),
                    "against": group_value(column, reference),
                }
                between = found.noise[place, code, :, reference]
                answers.append(_compared(group, one, base, between, contrast.kind, z))
        return answers

    def quantiles(self, z: float) -> list[Answer]:
        axis, place = self.number
        measured = self.columns[place]
        if axis.column.kind == "boolean" or measured in self.by:
            raise SpecError("that has no quantile", "ask for the quantile of a number, by another column")
        grouping = Grouping(self.by, (measured,))
        known = self.where * self._along(axis.has_value, place)
        functions = self._by_codes([known])
        found = sums(self.told.residuals, self.columns, functions, grouping)
        codes = np.arange(axis.column.value_codes)
        low, high = self._spans(axis, place, known)
        usable = codes[np.isfinite(low)]
        if not len(usable):
            raise SpecError("no row can meet that condition", "ask about values that the column has")
        order = usable[np.lexsort((high[usable], low[usable]))]
        present = functions[0].max(axis=tuple(p for p, c in enumerate(self.columns) if c not in self.by))
        left = [c for c in self.columns if c in self.by]
        there = np.transpose(present, [left.index(c) for c in self.by]).reshape(-1) > 0
        level, answers = self.question.measure.level, []
        for number, group in enumerate(self._groups(grouping)[0]):
            if not there[number]:
                continue
            counts = found.values[number, order, 0]
            noise = found.noise[number, :, 0, :, 0][np.ix_(order, order)]
            bins = Bins(low[order], high[order], counts, noise)
            sampled = replace(bins, noise=noise + np.diag(np.maximum(counts, 0.0)) * self.told.max_rows)
            own, wide = of_quantile(bins, level, z), of_quantile(sampled, level, z)
            value = own.nearest(quantile(bins, level)) if counts.sum() > 0 else None
            width = 0.0
            if value is not None:
                inside = (low[order] <= value) & (value <= high[order])
                width = float((high - low)[order][inside].max(initial=0.0))
                width = max(0.0, width - (axis.column.kind == "integer"))
            share = _squared(own) / _squared(wide) if _squared(wide) > 0 else None
            answers.append(Answer(self._named(self.by, group), value, own, wide, share, width))
        return answers

    def _spans(self, axis: Axis, place: int, known: FloatArray) -> tuple[FloatArray, FloatArray]:
        """From where to where the rows of each code lie that the condition leaves; NaN where it leaves none."""
        others = tuple(p for p in range(len(self.axes)) if p != place)
        whole = np.broadcast_to(known, [len(each.code) for each in self.axes])
        kept = whole.max(axis=others) > 0 if others else whole > 0
        low, high = (np.full(axis.column.value_codes, np.nan) for _ in range(2))
        for piece in np.flatnonzero(kept):
            code = axis.code[piece]
            low[code] = np.fmin(low[code], axis.low[piece])
            high[code] = np.fmax(high[code], axis.high[piece])
        return low, high


def _answer(group: dict[str, Any], one: _Uncertain, z: float) -> Answer:
    own, wide = one.interval(z, population=False), one.interval(z, population=True)
    value = own.nearest(one.value) if one.is_told else None
    noise, all_of_it = (one.variance(matrix) if one.is_told else math.nan
                        for matrix in (one.noise, one.noise + one.sampling))  # fmt: skip
    share = noise / all_of_it if all_of_it > 0 else None
    spans = (one.uncut(matrix, z) for matrix in (one.noise, one.noise + one.sampling))
    uncut = Uncut(one.value, *spans) if one.is_told else None
    return Answer(group, value, own, wide, share, one.within_bins, uncut=uncut)


def _compared(
    group: dict[str, Any], one: _Uncertain, base: _Uncertain, between: FloatArray, kind: str, z: float
) -> Answer:
    if not (one.is_told and base.is_told):
        return Answer(group, None, Interval(*EVERYTHING), Interval(*EVERYTHING))
    bound = one.within_bins + base.within_bins if kind == "difference" else 0.0
    found = []
    for population in (False, True):
        first, second = (each.noise + each.sampling * population for each in (one, base))
        if not one.is_ratio and kind == "difference":
            variance = float(first[0, 0] + second[0, 0] - 2 * between[0, 0])
            found.append((of_sum(one.value - base.value, variance, z), variance))
            continue
        if not one.is_ratio:
            matrix = np.array([[first[0, 0], between[0, 0]], [between[0, 0], second[0, 0]]])
            possible = _possible(one.possible, kind)
            variance = ratio_variance(one.value, base.value, matrix) if base.value else math.inf
            found.append((of_ratio(one.value, base.value, matrix, z, possible), variance))
            continue
        variances = [one.variance(first), base.variance(second)]
        together = float(one.slope() @ between @ base.slope())
        both = math.sqrt(variances[0] * variances[1])
        correlation = min(max(together / both, -1.0), 1.0) if both > 0 else 0.0
        combine = of_difference if kind == "difference" else of_quotient
        spans = one.uncut(first, z), base.uncut(second, z)
        scale = 1.0 if kind == "difference" else base.value or math.inf
        variance = (variances[0] + variances[1] - 2 * together) / scale**2
        put_together = combine(one.value, spans[0], base.value, spans[1], correlation)
        found.append((put_together.within(*_possible(one.possible, kind)), variance))
    (own, noise), (wide, all_of_it) = found
    value: float | None = one.value - base.value if kind == "difference" else None
    if kind == "ratio" and base.value:
        value = one.value / base.value
    share = noise / all_of_it if all_of_it > 0 and math.isfinite(all_of_it) else None
    return Answer(group, None if value is None else own.nearest(value), own, wide, share, bound)


def _possible(possible: tuple[float, float], kind: str) -> tuple[float, float]:
    """Of the difference or the ratio of two quantities that can have these values."""
    low, high = possible
    if kind == "difference":
        return low - high, high - low
    return (0.0, math.inf) if low >= 0 else EVERYTHING


def _reference(column: DomainColumn, against: str | None, present: npt.NDArray[np.bool_]) -> int:
    if against is None:
        return int(np.flatnonzero(present)[0])
    for code in range(column.size):
        if str(group_value(column, code)) == against:
            return code
    return code_of(against, column)


def _positive(matrix: FloatArray) -> FloatArray:
    """The nearest matrix that is a covariance: noise may make an estimate of one none."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _fold(combine: Any, parts: Sequence[FloatArray]) -> Any:
    found = parts[0]
    for part in parts[1:]:
        found = combine(found, part)
    return found


def _squared(interval: Interval) -> float:
    return (interval.high - interval.low) ** 2


def unknown(told: Told, question: Question) -> list[str]:
    """The columns of the question that no released number is about."""
    return [name for name in question.names if name not in told.places]
