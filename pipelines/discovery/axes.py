"""Noisy masses along an axis: bounds that leave out only what noise could hide, and bins of about equal mass.

Post-processing of released sums. A number's axis is made of the occupied octaves of both signs and of zero, in order,
each octave cut into its fine parts; a date's axis of months. The fine parts of an octave share what the octave has:
their own noisy masses say in which proportion, clipped at nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from understudy.pipelines.discovery.found import SURE, Found
from understudy.pipelines.discovery.grid import OCTAVES, part_edges
from understudy.pipelines.discovery.rules import Rules

EVENLY = 0.3
EXPLAINED = 4.0
"""Standard deviations of a sum of parts that noise explains."""


@dataclass(frozen=True, eq=False)
class Axis:
    """Intervals in rising order, which may leave gaps, and the mass of each."""

    lows: np.ndarray
    highs: np.ndarray
    masses: np.ndarray

    @property
    def total(self) -> float:
        return float(self.masses.sum())

    def without(self, values: dict[float, float]) -> Axis:
        """The same without what single values have of it."""
        masses = self.masses.copy()
        for value, mass in values.items():
            here = (self.lows <= value) & ((value < self.highs) | (self.lows == self.highs))
            masses[here] = np.maximum(0.0, masses[here] - mass)
        return Axis(self.lows, self.highs, masses)

    def quantiles(self, bins: int, whole: bool) -> list[float]:
        """Inner edges of so many bins, of about equal mass where there is much of it and of equal length elsewhere.

        Long tails would otherwise be one bin, within which values are smeared: so `EVENLY` of the bins go by length,
        in whole numbers or, beyond what the parts of an octave tell apart, in parts.
        """
        lengths = np.minimum(self.highs - self.lows, 1.0) if whole else (self.highs > self.lows).astype(float)
        if self.total <= 0 or lengths.sum() <= 0:
            return []
        shares = (1 - EVENLY) * self.masses / self.total + EVENLY * lengths / lengths.sum()
        ends = np.cumsum(shares)
        starts = np.concatenate([[0.0], ends[:-1]])
        found = []
        for part in range(1, bins):
            at = min(int(np.searchsorted(ends, part / bins, side="left")), len(ends) - 1)
            inside = (part / bins - starts[at]) / max(ends[at] - starts[at], 1e-12)
            found.append(float(self.lows[at] + (self.highs[at] - self.lows[at]) * min(max(inside, 0.0), 1.0)))
        return found


@dataclass(frozen=True, eq=False)
class _Piece:
    """A stretch of the axis that is occupied: its intervals, their noisy masses, and what they have of the whole."""

    lows: np.ndarray
    highs: np.ndarray
    raw: np.ndarray
    masses: np.ndarray


def number_axis(found: Found, whole: bool) -> Axis | None:
    """None where nothing stands above the noise. Of whole numbers, parts of an octave that hold none are left out."""
    if found.coarse is None:
        return None
    numbers, parts = found.sure.numbers, found.masses.parts
    octaves = numbers[0] if whole else numbers.sum(axis=0)  # sign, octave
    taken = [(1, octave) for octave in range(OCTAVES - 1, -1, -1)] + [(0, octave) for octave in range(OCTAVES)]
    pieces = [
        _octave(sign, octave, parts[sign, octave], float(octaves[sign, octave]), whole)
        for sign, octave in taken
        if octaves[sign, octave] > 0
    ]
    pieces = [piece for piece in pieces if len(piece.lows)]
    if found.zero > 0:
        at, mass = sum(bool(piece.lows[0] < 0) for piece in pieces), np.array([found.zero])
        pieces.insert(at, _Piece(np.array([0.0]), np.array([float(whole)]), mass, mass))
    return _joined(pieces, found.fine_std, found.rules) if pieces else None


def _octave(sign: int, octave: int, parts: np.ndarray, mass: float, whole: bool) -> _Piece:
    lows, highs = part_edges(octave)[:-1], part_edges(octave)[1:]
    if whole:
        lows, highs = np.ceil(lows), np.ceil(highs)
        held = lows < highs
        lows, highs, parts = lows[held], highs[held], parts[held]
    if sign:  # whole numbers up to -low, the end not among them
        lows, highs, parts = whole - highs[::-1], whole - lows[::-1], parts[::-1]
    return _Piece(lows, highs, parts, _shared(parts, mass))


def month_axis(found: Found) -> Axis | None:
    """Months counted from the first of the grid."""
    years = found.sure.years.sum(axis=0)
    occupied = np.flatnonzero(years > 0)
    if not len(occupied):
        return None
    first, last = int(occupied[0]), int(occupied[-1])
    raw = found.masses.months[first : last + 1]
    starts = [np.arange(12 * year, 12 * (year + 1), dtype=float) for year in range(first, last + 1)]
    pieces = [
        _Piece(lows, lows + 1, months, _shared(months, float(years[first + i])))
        for i, (lows, months) in enumerate(zip(starts, raw, strict=True))
    ]
    return _joined(pieces, found.fine_std, found.rules)


def _shared(parts: np.ndarray, whole: float) -> np.ndarray:
    """What an octave or year has, in proportion to its noisy parts."""
    clipped: np.ndarray = np.maximum(parts, 0.0)
    total = float(clipped.sum())
    return clipped * (whole / total) if total > 0 else np.full(len(parts), whole / max(len(parts), 1))


def _joined(pieces: list[_Piece], std: float, rules: Rules) -> Axis:
    """One axis, without the outer parts that hold no more than noise explains, and then a part of a piece wider."""
    lows, highs, masses = (np.concatenate([getattr(p, name) for p in pieces]) for name in ("lows", "highs", "masses"))
    total = float(masses.sum())
    first = _left_out(pieces[0].raw, std, total, rules)
    last = len(lows) - _left_out(pieces[-1].raw[::-1], std, total, rules)
    first, last = (0, len(lows)) if first >= last else (first, last)
    return Axis(lows[first:last], highs[first:last], masses[first:last])


def _left_out(parts: np.ndarray, std: float, total: float, rules: Rules) -> int:
    """How many parts from the end on are left out."""
    empty = _empty(parts, std)
    if rules.hidden is None:
        return max(0, empty - len(parts) // rules.widened)
    hidden = EXPLAINED * std * math.sqrt(empty) / max(total, 1.0)
    return max(0, empty - math.ceil(len(parts) * min(1 / rules.widened, rules.hidden * hidden)))


def _empty(parts: np.ndarray, std: float) -> int:
    """How many parts from the end on hold, together, no more than noise explains; at least one part stays."""
    sums = np.cumsum(parts)
    explained = EXPLAINED * std * np.sqrt(np.arange(1, len(parts) + 1))
    above = np.flatnonzero((sums > explained) | (parts > SURE * std))
    return int(above[0]) if len(above) else 0


def rounded_out(low: float, high: float) -> tuple[float, float]:
    """Bounds with two digits each, a little wider."""
    return -_up(-low), _up(high)


def _up(bound: float) -> float:
    if bound == 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(abs(bound))) - 1)
    return math.ceil(bound / step) * step
