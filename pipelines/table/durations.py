"""A moment by how long it lies after another: `dropoff` after `pickup`, in seconds, from nothing to the most declared.

Reading is total and row by row. A row whose moment lies before the other one counts as no time at all, one beyond the
most as the most; where either moment is null or cannot be read there is no number, as with any unreadable value. What
is published is the other moment and the seconds after it, so that no row is in the wrong order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from understudy.pipelines.table.composed import Lapse
from understudy.pipelines.table.parts import read_moments

MICROSECONDS_A_SECOND = 1_000_000


def seconds_between(start: pa.Array, end: pa.Array, lapse: Lapse) -> pa.Array:
    """Whole seconds, begun ones left out, clipped; null where either moment is missing."""
    first, known_first = read_moments(start, lapse.after)
    last, known_last = read_moments(end, replace(lapse.after, name=lapse.name))
    known = known_first & known_last
    first, last = np.where(known, first, 0), np.where(known, last, 0)
    first = np.clip(first, -(2**61), 2**61)
    last = np.clip(last, -(2**61), 2**61)
    seconds = np.clip((last - first) // MICROSECONDS_A_SECOND, 0, lapse.most)
    return pa.array(seconds, mask=~known)


def moments_after(start: pa.Array, seconds: pa.Array) -> pa.Array:
    """The start and the seconds after it, in the type of the start; null where either is."""
    whole = start.cast(pa.timestamp("us")).cast(pa.int64())
    missing = np.asarray(whole.is_null()) | np.asarray(seconds.is_null())
    first = whole.fill_null(0).to_numpy(zero_copy_only=False)
    after = seconds.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return pa.array(first + after * MICROSECONDS_A_SECOND, mask=missing).cast(pa.timestamp("us"))
