"""Bins and spikes of a column of numbers, from noisy masses. Post-processing."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np

from understudy.pipelines.discovery.axes import Axis
from understudy.pipelines.discovery.found import SURE, Found
from understudy.pipelines.spec.open import AUTO, QUANTILES, OpenColumn

MOST_SPIKES = 40
SPIKE = 0.25
"""A value is a spike if it has at least this part of what a bin would have, and"""
STANDS_OUT = 3.0
"""among whole numbers, so many times what a number beside it has."""
BESIDE = 5
ONE_A_VALUE = 1.25
"""Whole numbers that are so many times the bins still have one each."""
MOST_WHOLE = 2**53


def binned(
    column: OpenColumn, body: dict[str, Any], axis: Axis | None, found: Found, bins: int, whole: bool
) -> dict[str, Any]:
    """The body with bounds, completed by its bins and spikes."""
    body = {**body, **_whole_ends(body)} if whole else body
    asked = bool(column.asks & {"kind", "spikes"})
    spikes = spikes_of(found, axis, body, bins, whole) if asked else {}
    wants_bins = column.kind is None or column.declared.get("bins") in (QUANTILES, AUTO)
    span = body["max"] - body["min"] + 1
    evenly = column.declared.get("bins") != QUANTILES and span <= found.rules.narrow * bins
    if wants_bins and whole and span <= ONE_A_VALUE * bins:
        return {**body, "bins": int(span)}  # one a value, so that spikes have theirs
    if spikes:
        body = {**body, "spikes": list(spikes)}
    if not wants_bins:
        return body
    if axis is None or (whole and evenly):
        return {**body, "bins": math.ceil(span / max(1, round(span / bins))) if whole else bins}
    rest = axis.without(spikes)
    kept = bins * (rest.total / max(axis.total, 1e-9)) ** 0.25  # the fewer rows, the fewer bins
    return {**body, "bins": _between(body["min"], body["max"], rest.quantiles(max(round(kept), 4), whole), whole)}


def spikes_of(found: Found, axis: Axis | None, body: dict[str, Any], bins: int, whole: bool) -> dict[float, float]:
    """Values that have about as many rows as a whole bin would have, and how many, most frequent first."""
    total = axis.total if axis is not None else found.units
    shared: dict[float, float] = {}
    for text, mass in found.values.items():
        number = number_in(text)
        if number is not None and (not whole or number.is_integer()):
            shared[number] = shared.get(number, 0.0) + mass
    if whole and axis is not None and found.fine is not None:
        for value, mass in _single(axis, found.fine_std).items():
            shared.setdefault(value, mass)
    kept = {
        value: mass
        for value, mass in sorted(shared.items(), key=lambda one: -one[1])
        if abs(value) < 2**53
        and mass >= max(SPIKE * total / bins, STANDS_OUT * _beside(axis, value, shared) if whole else 0.0)
    }
    return {(int(value) if whole else value): mass for value, mass in _told_apart(kept, body).items()}


def _single(axis: Axis, std: float) -> dict[float, float]:
    """Whole numbers that have an interval to themselves, and a mass beyond doubt."""
    alone = (axis.highs - axis.lows == 1.0) & (axis.masses > SURE * std)
    return dict(zip(axis.lows[alone].tolist(), axis.masses[alone].tolist(), strict=True))


def _beside(axis: Axis | None, value: float, shared: dict[float, float]) -> float:
    """What a whole number near this one has: the median of those beside it; nothing, if most of them were not found."""
    if axis is None:
        near = [shared.get(value + step, 0.0) for step in range(-BESIDE, BESIDE + 1) if step]
        return float(np.median(near))
    near = (axis.highs > value - BESIDE) & (axis.lows <= value + BESIDE) & ~_at(axis, value)
    masses = axis.masses[near] / np.maximum(axis.highs[near] - axis.lows[near], 1.0)
    return float(np.median(masses)) if len(masses) else 0.0


def _at(axis: Axis, value: float) -> np.ndarray:
    here: np.ndarray = (axis.lows <= value) & (value < axis.highs)
    return here


def _told_apart(spikes: dict[float, float], body: dict[str, Any]) -> dict[float, float]:
    """Without those that are too close to a more frequent one."""
    room = max(1e-9 * (float(body["max"]) - float(body["min"])), 1e-12)
    kept: dict[float, float] = {}
    for value, mass in list(spikes.items())[:MOST_SPIKES]:
        if all(abs(value - other) > 8 * max(room, 2.0**-23 * max(abs(value), abs(other))) for other in kept):
            kept[value] = mass
    return kept


def number_in(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _whole_ends(body: dict[str, Any]) -> dict[str, int]:
    low, high = (max(-MOST_WHOLE, min(MOST_WHOLE, end)) for end in (math.floor(body["min"]), math.ceil(body["max"])))
    return {"min": low if low < high else high - 1, "max": high} if high > -MOST_WHOLE else {"min": low, "max": low + 1}


def _between(low: float, high: float, inner: list[float], whole: bool) -> list[float] | list[int]:
    """Edges from the lowest to the highest value that rise."""
    if whole:
        found = sorted({int(low), int(high), *(edge for edge in map(math.ceil, inner) if low < edge < high)})
        return found if len(found) > 1 else [int(low), int(low) + 1]
    least = 1e-9 * (high - low)
    edges = [low]
    for edge in sorted(float(f"{edge:.4g}") for edge in inner):
        if edge - edges[-1] > least and high - edge > least:
            edges.append(edge)
    return [*edges, high] if all(a < b for a, b in pairwise([*edges, high])) else [low, high]
