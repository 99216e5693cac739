"""A moment by how long it lies after another: `dropoff` after `pickup`, in seconds, from nothing to the most declared.

Reading is total and row by row. A row whose moment lies before the other one is below the range and counts as no time
at all, one beyond the most is above it and counts as the most. Where either moment is unreadable there is no number (an
infinity, which is unreadable), and where either is null there is none. What is published is the other moment and the
seconds after it, so that no row is in the wrong order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.composed import Lapse
from understudy.pipelines.table.reading.values import NULL, UNDERSTOOD, UNREADABLE, read

MICROSECONDS_A_SECOND = 1_000_000


def seconds_between(start: pa.Array, end: pa.Array, lapse: Lapse) -> pa.Array:
    """Whole seconds, begun ones left out, as doubles; infinite where a moment is unreadable, null where one is."""
    clock = lapse.after
    if all(pa.types.is_timestamp(each.type) and each.type.tz is not None for each in (start, end)):
        clock = replace(clock, form=None)  # in UTC, where no hour comes twice
    readings = [read(start, clock), read(end, clock)]
    kinds = [each.kinds(clock) for each in readings]
    known = (kinds[0] == UNDERSTOOD) & (kinds[1] == UNDERSTOOD)
    first, last = (np.clip(np.where(known, each.numbers, 0), -(2**61), 2**61) for each in readings)
    seconds = ((last - first) // MICROSECONDS_A_SECOND).astype(np.float64)
    seconds[(kinds[0] == UNREADABLE) | (kinds[1] == UNREADABLE)] = np.inf
    return pa.array(seconds, mask=(kinds[0] == NULL) | (kinds[1] == NULL))


def moments_after(start: pa.Array, seconds: pa.Array) -> pa.Array:
    """The start and the seconds after it, in the type of the start; null where either is."""
    whole = start.cast(pa.timestamp("us")).cast(pa.int64())
    missing = np.asarray(whole.is_null()) | np.asarray(seconds.is_null())
    first = whole.fill_null(0).to_numpy(zero_copy_only=False)
    after = seconds.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return pa.array(first + after * MICROSECONDS_A_SECOND, mask=missing).cast(pa.timestamp("us"))
