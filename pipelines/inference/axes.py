"""A column cut as finely as a question needs it: every piece lies wholly inside a condition or wholly outside.

A code of a category is one piece. A bin that a bound of the question cuts (`age >= 62` in a bin from 60 to 70) is cut
there, and its rows are taken to be spread over it evenly on the column's scale, as published rows are. What of an
answer rests on that is said with it (`within bins`). `tip > 0` cuts the bin that begins at 0, too: nobody measured how
many of its rows are exactly 0, so that value is a piece of its own, of hardly any share.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.question import Compare, IsNull, Truth
from understudy.pipelines.table.binning import EPOCH
from understudy.pipelines.table.columns import DomainColumn

FloatArray = npt.NDArray[np.float64]
_POINT = 1e-6
"""The share of a bin that one value of a continuous column is taken to have."""
_SAMPLES = 16
"""Points at which the values of a bin on a scale that is not linear are averaged."""

_TRUE, _FALSE = ("true", "yes", "1", "t", "y"), ("false", "no", "0", "f", "n")


@dataclass(frozen=True, eq=False)
class Axis:
    """Pieces in the order of codes. `share` is of the code's rows; `low`, `high` and `mean` are of numbers and times,
    NaN where a piece has no place among them."""

    column: DomainColumn
    code: npt.NDArray[np.int64]
    share: FloatArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    square: FloatArray

    @property
    def has_value(self) -> npt.NDArray[np.bool_]:
        return self.code < self.column.value_codes

    @property
    def half_width(self) -> FloatArray:
        """The most by which the mean of a piece's rows can differ from `mean`."""
        return np.maximum(self.mean - self.low, self.last - self.mean)

    @property
    def last(self) -> FloatArray:
        """The greatest value: of whole numbers the upper end is exclusive."""
        whole = self.column.kind in ("integer", "date", "datetime")
        return np.where(self.high > self.low, self.high - whole, self.high)

    def to_codes(self, pieces: FloatArray, axis: int) -> FloatArray:
        """Sums over the pieces of each code, weighed by their share, along that axis."""
        moved = np.moveaxis(pieces, axis, -1) * self.share
        summed = np.zeros((*moved.shape[:-1], self.column.size))
        starts = np.flatnonzero(np.r_[True, np.diff(self.code) > 0])
        summed[..., self.code[starts]] = np.add.reduceat(moved, starts, axis=-1)
        return np.moveaxis(summed, -1, axis)


def axis_of(column: DomainColumn, conditions: Sequence[Compare | IsNull | Truth] = ()) -> Axis:
    if column.kind == "category":
        return _listed(column, np.full(column.size, np.nan))
    if column.kind == "boolean":
        return _listed(column, np.r_[0.0, 1.0, np.full(column.size - 2, np.nan)])
    compared = [(number_of(each.value, column), each.operator) for each in conditions if isinstance(each, Compare)]
    edges = {edge for value, operator in compared for edge in _edges(column, value, operator)}
    return _binned(column, sorted(edges))


def meets(piece: Compare | IsNull | Truth, axis: Axis) -> FloatArray:
    """Of each piece of the axis: 1 it does, 0 it does not, 1/2 unknown, as of null."""
    column = axis.column
    known = axis.code != (-1 if column.null_code is None else column.null_code)
    if isinstance(piece, IsNull):
        return np.asarray(~known, dtype=float)
    if isinstance(piece, Truth):
        return np.where(known, axis.code == yes_code(column), 0.5)
    if column.kind in ("category", "boolean"):
        return np.where(known, _by_code(piece, axis), 0.5)
    value = number_of(piece.value, column)
    spike = axis.high <= axis.low
    point = axis.low
    if column.kind == "number":
        alone = spike | (axis.share <= 2 * _POINT)
        middle = (axis.low + axis.high) / 2
        point = np.where(alone & (axis.low == value), value, np.where(alone & (axis.high == value), value, middle))
    if piece.operator in ("=", "!=") and column.kind == "number" and not (spike & (axis.low == value)).any():
        raise SpecError(
            f"which rows of {column.name} are exactly {piece.value} was not measured",
            f"name a range, as `{column.name} between ... and ...`, or declare it in `spikes`",
        )
    with np.errstate(invalid="ignore"):
        return np.where(axis.has_value, _compared(point, piece.operator, value), 0.5)


def number_of(text: str, column: DomainColumn) -> float:
    """A bound in the column's own units."""
    try:
        if column.kind == "date":
            return float((dt.date.fromisoformat(text) - EPOCH).days)
        if column.kind == "datetime":
            moment = dt.datetime.fromisoformat(text)
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None) if moment.tzinfo else moment
            return float((moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1))
        number = float(text)
    except (ValueError, OverflowError):
        number = math.nan
    if math.isfinite(number):
        return number
    wanted = {"date": "a date such as 2026-03-01", "datetime": "a moment such as 2026-03-01T12:00"}
    raise SpecError(f"{text[:40]!r} is no value of {column.name}", f"give {wanted.get(column.kind, 'a number')}")


def code_of(text: str, column: DomainColumn) -> int:
    """Of a listed value, of yes and no, of `other` and null."""
    if text == "null" and column.null_code is not None:
        return column.null_code
    if column.kind == "boolean":
        if text.lower() in _TRUE + _FALSE:
            return int(text.lower() in _TRUE)
    elif column.kind == "category":
        listed = {str(value): code for code, value in reversed(list(enumerate(column.values)))}
        if text in listed:
            return listed[text]
        if text == "other" and column.other_code is not None:
            return column.other_code
    values = ", ".join(column.code_labels()[:12]) + (", ..." if column.size > 12 else "")
    raise SpecError(f"{column.name} has no value {text[:40]!r}", f"it has {values}")


def yes_code(column: DomainColumn) -> int:
    """The code of yes: of a boolean, of a number from 0 to 1, of a category that lists a yes and a no."""
    if column.kind == "boolean" or (column.kind == "integer" and column.edges == (0, 1, 2)):
        return 1
    words = [str(value).lower() for value in column.values]
    if len(words) == 2 and {word in _TRUE for word in words} == {True, False} and set(words) <= {*_TRUE, *_FALSE}:
        return next(code for code, word in enumerate(words) if word in _TRUE)
    raise SpecError(f"{column.name} is not a column of yes and no", f"compare it, as `{column.name} = ...`")


def group_value(column: DomainColumn, code: int) -> Any:
    """How a group is called: the listed value, yes or no, the value of a bin that holds one, else its range."""
    if code == column.null_code:
        return None
    if code == column.other_code:
        return "other"
    if column.kind == "category":
        return column.values[code]
    if column.kind == "boolean":
        return bool(code)
    lows, highs = column.intervals()
    low, high = lows[code].item(), highs[code].item()
    if column.kind in ("date", "datetime"):
        return column.code_labels()[code].removeprefix("= ")
    if high <= low or (column.kind == "integer" and high - low == 1):
        return low
    return f"{low} to {high - 1}" if column.kind == "integer" else f"{low:g} to {high:g}"


def _by_code(piece: Compare, axis: Axis) -> npt.NDArray[np.bool_]:
    code = code_of(piece.value, axis.column)
    if piece.operator in ("=", "!="):
        return np.asarray((axis.code == code) == (piece.operator == "="))
    if not axis.column.ordered:
        raise SpecError(f"the values of {axis.column.name} have no order", "use =, != or in (...)")
    return np.asarray(axis.has_value & _compared(axis.code, piece.operator, code))


def _compared(left: npt.NDArray[Any], operator: str, right: float) -> npt.NDArray[np.bool_]:
    compare = {"=": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
               ">=": np.greater_equal}[operator]  # fmt: skip
    return np.asarray(compare(left, right))


def _listed(column: DomainColumn, numbers: FloatArray) -> Axis:
    codes = np.arange(column.size)
    return Axis(column, codes, np.ones(column.size), numbers, numbers, numbers, numbers**2)


def _edges(column: DomainColumn, value: float, operator: str) -> tuple[float, ...]:
    """Where a comparison cuts a column. Of whole numbers before and after the value. Of others at it; and beside it,
    where it is the first value of a bin, or the greatest of all, and has to be told from the rest of its bin."""
    if column.kind != "number":
        return math.ceil(value), math.floor(value) + 1
    lows, highs = (ends.astype(float) for ends in column.intervals())
    scale = column.on_scale
    beside = []
    for low, high in zip(lows.tolist(), highs.tolist(), strict=True):
        if low >= high:
            continue
        start, end = (float(at) for at in scale.forward(np.array([low, high])))
        if operator in (">", "<=") and value == low:
            beside.append(start + (end - start) * _POINT)
        if operator in (">=", "<") and value == high == highs.max():
            beside.append(end - (end - start) * _POINT)
    return value, *scale.backward(np.array(beside)).tolist()


def _binned(column: DomainColumn, bounds: Sequence[float]) -> Axis:
    lows, highs = (ends.astype(float) for ends in column.intervals())
    whole = column.kind in ("integer", "date", "datetime")
    pieces: list[tuple[int, float, float]] = []
    for code, (low, high) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        inner = sorted(edge for edge in bounds if low < edge < high)
        ends = [low, *inner, high]
        pieces += [(code, start, end) for start, end in pairwise(ends)]
    codes, low, high = (np.array(part) for part in zip(*pieces, strict=True))
    start, end = (low, high) if column.scale == "linear" else (column.on_scale.forward(each) for each in (low, high))
    width = np.bincount(codes, end - start, column.value_codes)[codes]
    share = np.where(width > 0, (end - start) / np.where(width > 0, width, 1.0), 1.0)
    mean, square = _moments(column, low, high, whole)
    off = np.full(column.size - column.value_codes, np.nan)
    return Axis(
        column,
        np.r_[codes, np.arange(column.value_codes, column.size)].astype(np.int64),
        np.r_[share, np.ones(len(off))],
        *(np.r_[values.astype(float), off] for values in (low, high, mean, square)),
    )


def _moments(column: DomainColumn, low: FloatArray, high: FloatArray, whole: bool) -> tuple[FloatArray, FloatArray]:
    """Mean and mean square of values spread over each piece."""
    single = high <= low + whole  # one whole number, or a spike
    last = np.where(single, low, high - whole)
    if column.scale == "linear":
        mean = (low + last) / 2
        steps = last - low
        spread = steps * (steps + 2) / 12 if whole else steps**2 / 12
        return mean, mean**2 + spread
    scale = column.on_scale
    at = (np.arange(_SAMPLES) + 0.5) / _SAMPLES
    from_, to = scale.forward(low)[:, None], scale.forward(high)[:, None]
    points = scale.backward(from_ + (to - from_) * at) - whole / 2
    points = np.clip(np.where(single[:, None], low[:, None], points), low[:, None], last[:, None])
    return points.mean(axis=1), (points**2).mean(axis=1)
