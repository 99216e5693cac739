"""Where the bins of a column lie: edges from its public declaration, and the spikes that have a bin of their own.

A spike is a value that many rows hold exactly, such as a tip of 0: its bin holds nothing else, and what is published
from it is the value itself. Of whole numbers, days and moments the bin is that one value. Of numbers it is the value
and what differs from it by less than single precision tells apart (0.1 stored in four bytes is 0.1), half a step at
most. A spike may lie outside the bounds, as 999 for "unknown" does: what lies between the bounds and it still goes to
the bin of the bound or, where a spike is between, to the spike that is nearer to the bounds.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from understudy.pipelines.table.scales import Scale, ScaleName

EPOCH = dt.date(1970, 1, 1)
MICROSECONDS_A_DAY = 86_400_000_000
SINGLE = 2.0**-23
"""What single precision does not tell apart, relative to the value."""

NEAR_ZERO = 1e-12
"""And near zero, relative to the range: what is left of a difference of equal amounts."""

Edges: TypeAlias = tuple[float, ...] | tuple[int, ...]


@dataclass(frozen=True)
class Binning:
    """Edges of every bin in order, the (bin, value) of each spike, and the declared range within them."""

    edges: Edges
    spikes: tuple[tuple[int, float | int], ...]
    span: tuple[float, float] | tuple[int, int]


def whole_bins(start: int, end: int, inner: Sequence[int], spikes: Sequence[int]) -> Binning:
    """Bins of whole numbers from start to end (exclusive), cut at the inner edges and around every spike."""
    cuts = {edge for edge in inner if start < edge < end}
    for spike in spikes:
        cuts |= {spike, spike + 1}
    first, last = min([start, *spikes]), max([end, *(spike + 1 for spike in spikes)])
    edges = (first, *sorted(cut for cut in cuts if first < cut < last), last)
    return _binning(edges, spikes, (start, end))


def number_bins(
    low: float, high: float, inner: Sequence[float], spikes: Sequence[float], step: float | None
) -> Binning:
    """Bins of numbers from low to high, cut at the inner edges and a hair around every spike."""
    if not spikes:
        return Binning((low, *inner, high), (), (low, high))  # also where bins are so narrow that some are empty
    cuts = [edge for edge in inner if low < edge < high]
    first, last = min([low, *spikes]), max([high, *spikes])
    for spike in spikes:
        hair = hair_around(spike, low, high, step)
        below, above = spike - hair, spike + hair
        cuts = [edge for edge in cuts if not below <= edge <= above] + [below, above]
    edges = (first, *(float(cut) for cut in sorted(cuts) if first < cut < last), last)
    return _binning(edges, spikes, (low, high))


def hair_around(spike: float, low: float, high: float, step: float | None) -> float:
    """How far from a spike a number still is the spike."""
    hair = max(abs(spike) * SINGLE, NEAR_ZERO * (high - low))
    return hair if step is None else min(hair, 0.49 * step)


def _binning(edges: Edges, spikes: Sequence[float | int], span: tuple[Any, Any]) -> Binning:
    """Without the bins that hold neither a spike nor a part of the range."""
    starred = {place for place, _ in _placed(edges, spikes)}
    gaps = [place for place in range(len(edges) - 1) if place not in starred]
    dropped = {place + 1 for place in gaps if edges[place + 1] <= span[0]}
    dropped |= {place for place in gaps if edges[place] >= span[1]}
    kept = tuple(edge for place, edge in enumerate(edges) if place not in dropped)
    return Binning(kept, _placed(kept, spikes), span)


def _placed(edges: Edges, spikes: Sequence[float | int]) -> tuple[tuple[int, float | int], ...]:
    bins = np.searchsorted(np.array(edges[1:-1]), np.array(spikes), side="right") if spikes else ()
    return tuple(sorted((int(place), spike) for place, spike in zip(bins, spikes, strict=True)))


def inner_wholes(start: int, end: int, bins: int | Sequence[int], scale: ScaleName) -> list[int]:
    """Edges between nearly equal bins on the scale, from start to end (exclusive); one a value if that is fewer."""
    if not isinstance(bins, int):
        return list(bins[1:-1])
    if bins >= end - start:
        return list(range(start + 1, end))
    span = end - start
    if scale == "linear":
        return [start + (span * i) // bins for i in range(1, bins)]
    if scale == "log":
        spaced = np.expm1(np.linspace(0.0, np.log1p(span), bins + 1))
        return sorted({start + max(1, round(offset)) for offset in spaced[1:-1]})
    return sorted({int(np.ceil(edge - 1e-9)) for edge in Scale(scale, start, end).inner(bins).tolist()})


def inner_numbers(low: float, high: float, bins: int | Sequence[float], scale: ScaleName) -> list[float]:
    if not isinstance(bins, int):
        return list(bins[1:-1])
    if scale == "linear":
        return [float(edge) for edge in np.linspace(low, high, bins + 1)[1:-1]]
    if scale == "log":
        offsets = np.expm1(np.linspace(0.0, np.log1p(high - low), bins + 1))
        return [float(low + offset) for offset in offsets[1:-1]]
    return sorted({float(edge) for edge in Scale(scale, low, high).inner(bins)})


def period_starts(first: dt.date, last: dt.date, period: str) -> list[int]:
    """First days, counted from 1970, of every period that meets [first, last]."""
    if period == "day":
        return list(range((first - EPOCH).days, (last - EPOCH).days + 1))
    if period == "week":
        monday = (first - EPOCH).days - first.weekday()
        return list(range(monday, (last - EPOCH).days + 1, 7))
    months = {"month": 1, "quarter": 3, "year": 12}[period]
    month = (first.year * 12 + first.month - 1) // months * months
    starts = []
    while (start := dt.date(month // 12, month % 12 + 1, 1)) <= last:
        starts.append((start - EPOCH).days)
        month += months
        if month // 12 > 9999:
            break
    return starts


def microseconds(moment: dt.datetime) -> int:
    return (moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
