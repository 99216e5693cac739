"""One fixed public grid for every value: which kind it is of and roughly where, and then where more exactly.

Coarse cells: missing; no number and no date; zero; numbers by sign, octave (a factor of two) and how they are written
(whole, in hundredths, finer); dates and moments by year. Fine cells: 64 to an octave and sign, which up to 128 tells
whole numbers apart; months. Beyond its ends the grid's last cell counts. A value lies in exactly one coarse cell and in
at most one fine one, decided by that value alone. Nothing here was chosen by looking at data.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import numpy as np

MISSING, WORD, ZERO = 0, 1, 2
FORMS = ("whole", "hundredths", "finer")
LEAST, END = -30, 64  # octaves [2^e, 2^(e+1)), smaller numbers in the first, larger ones in the last
OCTAVES = END - LEAST
FINE = 64
FIRST_YEAR, LAST_YEAR = 1800, 2199
YEARS = LAST_YEAR - FIRST_YEAR + 1

_NUMBERS = 3  # the first coarse cell of numbers: [form, sign, octave]
_DATES = _NUMBERS + len(FORMS) * 2 * OCTAVES  # [date or moment, year]
COARSE_CELLS = _DATES + 2 * YEARS
_MONTHS = 2 * OCTAVES * FINE  # the first fine cell of months, after [sign, octave, part]
FINE_CELLS = _MONTHS + 12 * YEARS
NOWHERE = -1
_EPOCH_YEAR = 1970


@dataclass(frozen=True)
class Masses:
    """Coarse and fine sums, as they lie on the grid. Views; noisy or exact."""

    coarse: np.ndarray
    fine: np.ndarray

    @property
    def numbers(self) -> np.ndarray:
        """By form, sign (plus, minus) and octave."""
        return self.coarse[_NUMBERS:_DATES].reshape(len(FORMS), 2, OCTAVES)

    @property
    def years(self) -> np.ndarray:
        """By date or moment, and year."""
        return self.coarse[_DATES:].reshape(2, YEARS)

    @property
    def parts(self) -> np.ndarray:
        """By sign, octave and part of the octave."""
        return self.fine[:_MONTHS].reshape(2, OCTAVES, FINE)

    @property
    def months(self) -> np.ndarray:
        return self.fine[_MONTHS:].reshape(YEARS, 12)


def cells_of_numbers(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The coarse and the fine cell of each finite double."""
    numbers = np.asarray(numbers, np.float64)
    size, sign = np.abs(numbers), (numbers < 0).astype(np.int64)
    fraction, exponent = np.frexp(size)  # size = fraction 2^exponent, fraction in [1/2, 1)
    octave = np.clip(exponent.astype(np.int64) - 1 - LEAST, 0, OCTAVES - 1)
    part = np.floor((fraction * 2 - 1) * FINE).astype(np.int64)
    part = np.where(exponent - 1 < LEAST, 0, np.where(exponent - 1 >= END, FINE - 1, part))
    with np.errstate(over="ignore", invalid="ignore"):
        hundred = size * 100
        whole = np.where(size >= 2.0**53, True, np.floor(size) == size)
        hundredths = np.abs(np.round(hundred) - hundred) <= 1e-9 * np.maximum(hundred, 1.0)
    form = np.where(whole, 0, np.where(hundredths, 1, 2))
    coarse = np.where(size == 0, ZERO, _NUMBERS + (form * 2 + sign) * OCTAVES + octave)
    fine = np.where(size == 0, NOWHERE, (sign * OCTAVES + octave) * FINE + part)
    return coarse.astype(np.int32), fine.astype(np.int32)


def cells_of_moments(microseconds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The coarse and the fine cell of each moment since 1970; those at midnight are dates."""
    days = microseconds // 86_400_000_000
    months = np.clip(days, -1_000_000, 1_000_000).astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    year = np.clip(months // 12 + _EPOCH_YEAR, FIRST_YEAR, LAST_YEAR)
    month = np.where(
        months // 12 + _EPOCH_YEAR < FIRST_YEAR, 0, np.where(months // 12 + _EPOCH_YEAR > LAST_YEAR, 11, months % 12)
    )
    moment = (microseconds % 86_400_000_000 != 0).astype(np.int64)
    coarse = _DATES + moment * YEARS + (year - FIRST_YEAR)
    return coarse.astype(np.int32), (_MONTHS + (year - FIRST_YEAR) * 12 + month).astype(np.int32)


def octave_edges(octave: int) -> tuple[float, float]:
    """From where to where the size of its numbers lies."""
    return 2.0 ** (octave + LEAST), 2.0 ** (octave + LEAST + 1)


def part_edges(octave: int) -> np.ndarray:
    """The edges of the parts of an octave, one more than parts."""
    low, high = octave_edges(octave)
    return low + (high - low) * np.arange(FINE + 1) / FINE


def first_day(month: int) -> dt.date:
    """The first day of a month of the grid, counted from the first one."""
    return dt.date(FIRST_YEAR + month // 12, month % 12 + 1, 1)
