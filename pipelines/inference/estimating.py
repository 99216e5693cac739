"""From a question to its answers, by released residuals alone: no row is looked at, synthetic or not.

For this table, what is uncertain is the noise. For the population, rows are taken to have come independently (each
entity's together: at most `max_rows` of them, and their number bounds how much more that lets a sum vary), so that the
sum of f has sampling variance sum f^2, which is a sum too and estimated like any other.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import LEVEL, Answer
from understudy.pipelines.inference.answers import told as written
from understudy.pipelines.inference.axes import Axis, code_of, group_value
from understudy.pipelines.inference.intervals import Interval, deviations
from understudy.pipelines.inference.quantiles import bins_of, of_quantile, quantile
from understudy.pipelines.inference.question import Question
from understudy.pipelines.inference.question_sums import QuestionSums, Told
from understudy.pipelines.inference.sums import Grouping, Sums, sums
from understudy.pipelines.inference.uncertain import Uncertain, answer_of, compared_answer, positive
from understudy.pipelines.table.columns import DomainColumn

__all__ = ["Told", "estimate", "unknown"]

FloatArray = npt.NDArray[np.float64]
MOST_COMPARED = 3000
"""Groups whose covariances are all computed."""


def estimate(question: Question, told: Told, level: float = LEVEL) -> tuple[Answer, ...]:
    """Of a question without `unknown` columns; NotMeasured if some of them were not measured together."""
    asked = _Asked(question, told)
    asked.require_some()
    z = deviations(level)
    if question.measure.kind == "quantile":
        return tuple(asked.quantiles(z))
    if question.measure.kind == "share" and question.measure.condition is None:
        return tuple(asked.parts(z))
    return tuple(asked.compared(z) if question.contrast is not None else asked.plain(z))


class _Asked(QuestionSums):
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

    def require_some(self) -> None:
        """SpecError if no row can meet the condition, whatever the table."""
        if self.where.any():
            return
        ends = [
            f"{axis.column.name} from {written(float(np.nanmin(axis.low)))} to {written(float(np.nanmax(axis.last)))}"
            for axis in self.axes
            if axis.column.kind in ("integer", "number")
        ]
        declared = f" (it declares {', '.join(ends)}; values beyond count as the nearest)" if ends else ""
        raise SpecError("no row can meet that condition", f"ask about values that the release can have{declared}")

    def _named(self, columns: Sequence[int], codes: Sequence[int]) -> dict[str, Any]:
        return {self.told.columns[c].name: self._labels[c][code] for c, code in zip(columns, codes, strict=True)}

    @cached_property
    def _labels(self) -> dict[int, list[Any]]:
        """How the groups of each column are called."""
        described = {c: self.told.columns[c] for c in self.by}
        return {c: [group_value(column, code) for code in range(column.size)] for c, column in described.items()}

    def _summed(self, grouping: Grouping) -> Sums:
        inner = math.prod(self.told.columns[c].size for c in grouping.inner)
        if inner > MOST_COMPARED:
            raise SpecError(f"{inner:,} groups are too many to compare", "use fewer, by `where`")
        return sums(self.told.residuals, self.columns, self.functions, grouping, self._terms)

    def _uncertain(self, values: FloatArray, noise: FloatArray) -> Uncertain:
        terms = self._terms
        own, hidden = values[:terms], float(values[-1])
        if terms == 1:
            sampling = np.array([[max(0.0, float(values[1]))]]) * self.told.max_rows
            value = float(own[0])
        else:
            sampling = positive(np.array([[values[2], values[3]], [values[3], values[4]]])) * self.told.max_rows
            value = float(own[0] / own[1]) if own[1] > 0 else math.nan
        bound = max(0.0, hidden) if terms == 1 else max(0.0, hidden) / own[1] if own[1] > 0 else math.inf
        low, high = self.possible
        bound = min(bound, high - low)
        return Uncertain(value, noise, sampling, own, self.possible, bound if bound > 1e-12 else 0.0)

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
                answers.append(answer_of(self._named(self.by, codes), one, z))
        return answers

    def _all_rows(self, one: Uncertain, z: float) -> Answer:
        """How many rows there are is whole, and so is its noise: the interval ends halfway between two numbers, lest
        rounding lets the truth fall out of it."""
        answer, off = answer_of({}, one, z), 0.5 * bool(one.noise.any())
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
            one = Uncertain(value, matrix, positive(squares) * self.told.max_rows, own, (0.0, 1.0), max(0.0, hidden))
            answers.append(answer_of(self._named(self.by, codes), one, z))
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
                    column.name: self._labels[self.by[-1]][code],
                    "against": self._labels[self.by[-1]][reference],
                }
                between = found.noise[place, code, :, reference]
                answers.append(compared_answer(group, one, base, between, contrast.kind, z))
        return answers

    def quantiles(self, z: float) -> list[Answer]:
        axis, place = self.number
        measured = self.columns[place]
        if axis.column.kind == "boolean" or measured in self.by:
            raise SpecError("that has no quantile", "ask for the quantile of a number, by another column")
        known = self.where * self._along(axis.has_value, place)
        functions = self._by_codes([known])
        low, high = self._spans(axis, place, known)
        usable = np.flatnonzero(np.isfinite(low))
        if not len(usable):
            raise SpecError("no row can meet that condition", "ask about values that the column has")
        order = usable[np.lexsort((high[usable], low[usable]))]
        present = functions[0].max(axis=tuple(p for p, c in enumerate(self.columns) if c not in self.by))
        left = [c for c in self.columns if c in self.by]
        there = np.transpose(present, [left.index(c) for c in self.by]).reshape(-1) > 0
        level, spans, answers = self.question.measure.level, (order.tolist(), low, high), []
        found = bins_of(self.told.residuals, self.columns, functions[0], self.by, measured, spans, level)
        for group, bins, some in zip(self._groups(Grouping(self.by))[0], found, there, strict=True):
            if not some:
                continue
            own, wide = of_quantile(bins, z), of_quantile(bins.sampled(self.told.max_rows), z)
            value = own.nearest(quantile(bins)) if bins.counts.sum() > 0 else None
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


def _reference(column: DomainColumn, against: str | None, present: npt.NDArray[np.bool_]) -> int:
    if against is None:
        return int(np.flatnonzero(present)[0])
    for code in range(column.size):
        if str(group_value(column, code)) == against:
            return code
    return code_of(against, column)


def _squared(interval: Interval) -> float:
    return (interval.high - interval.low) ** 2


def unknown(told: Told, question: Question) -> list[str]:
    """The columns of the question that no released number is about."""
    return [name for name in question.names if name not in told.places]
