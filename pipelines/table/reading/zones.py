"""Moments in UTC as a zone's clock on the wall shows them, and back, by a table of the clock's changes."""

from __future__ import annotations

import datetime as dt
from functools import lru_cache
from zoneinfo import ZoneInfo

import numpy as np

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_SECOND = 1_000_000
_STEP = 6 * 3600
"""Seconds between two looks at a clock; no zone changed its clock twice within so short a time."""

_FIRST, _LAST = -62_135_500_000, 253_402_200_000
"""Seconds since 1970 that Python's calendar has, a day short at either end."""


def on_the_wall(moments: np.ndarray, zone: str, low: int, high: int) -> np.ndarray:
    """Microseconds on the clock of a zone; outside of `low` to `high` it is taken to stay as it was at that end."""
    starts, offsets = _changes(zone, low // _SECOND, high // _SECOND)
    places = np.maximum(np.searchsorted(starts, moments, side="right") - 1, 0)
    shown: np.ndarray = moments + offsets[places]
    return shown


def from_the_wall(times: np.ndarray, zone: str) -> np.ndarray:
    """The moments in UTC (microseconds) at which the clock of a zone shows these times, never decreasing with them: the
    earlier one of two, and the end of the gap for a time that the clock skips."""
    if not len(times):
        return times
    starts, offsets = _changes(zone, int(times.min()) // _SECOND, int(times.max()) // _SECOND)
    shown_until = starts[1:] + offsets[:-1]
    places = np.searchsorted(shown_until, times, side="right")
    moments = times - offsets[places]
    found: np.ndarray = np.where(places > 0, np.maximum(moments, starts[places]), moments)
    return found


@lru_cache(maxsize=64)
def _changes(zone: str, low: int, high: int) -> tuple[np.ndarray, np.ndarray]:
    """From when on (microseconds in UTC) which offset (microseconds) is added."""
    clock = ZoneInfo(zone)
    low, high = max(_FIRST, low - 2 * 86_400), min(_LAST, high + 2 * 86_400)
    starts, offsets = [low], [_offset(clock, low)]
    for second in range(low + _STEP, high + _STEP, _STEP):
        if _offset(clock, second) != offsets[-1]:
            before, after = second - _STEP, second
            while after - before > 1:
                middle = (before + after) // 2
                before, after = (middle, after) if _offset(clock, middle) == offsets[-1] else (before, middle)
            starts.append(after)
            offsets.append(_offset(clock, second))
    return np.array(starts, np.int64) * _SECOND, np.array(offsets, np.int64) * _SECOND


def _offset(clock: ZoneInfo, second: int) -> int:
    shown = (_EPOCH + dt.timedelta(seconds=second)).astimezone(clock).utcoffset()
    assert shown is not None
    return int(shown.total_seconds())
