"""Listed values and truths, however they are stored: which of the listed ones a value is.

A category matches by its text, so 7, 7.0 and "7" are one value; true and false also match listed 1 and 0. Decimals are
compared as doubles. A truth is one of the usual words, in any case and with white space around it, or the number 0
or 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.reading.arrow import is_text, texts, unboxed, wholes
from understudy.pipelines.table.reading.numbers import numbers_of

TRUTHS = {"false": 0, "true": 1, "f": 0, "t": 1, "no": 0, "yes": 1, "n": 0, "y": 1, "0": 0, "1": 1}
NEITHER = 2
"""What stands for a value that is neither false (0) nor true (1)."""

_SPELLED = (("0", "False", "false"), ("1", "True", "true"))


def truths_of(values: pa.Array) -> np.ndarray:
    """0, 1 or NEITHER; nulls become arbitrary."""
    if is_text(values.type):
        lowered = pc.ascii_lower(pc.ascii_trim_whitespace(texts(values)))
        return _positions(lowered, pa.array(list(TRUTHS), pa.large_string()), list(TRUTHS.values()), NEITHER)
    numbers = numbers_of(values)
    return np.where(numbers == 1, 1, np.where(numbers == 0, 0, NEITHER))


def places_of(values: pa.Array, listed: tuple[str | int, ...]) -> np.ndarray:
    """The place of each value in the list, as many as there are where it is not listed; nulls become arbitrary."""
    type_, absent, by_text = values.type, len(listed), _by_text(listed)
    if pa.types.is_boolean(type_):
        of_truth = [absent, absent]
        for truth, names in enumerate(_SPELLED):
            for name in names:
                of_truth[truth] = by_text.get(name, of_truth[truth])
        return np.array(of_truth, np.int64).take(wholes(values))
    if pa.types.is_integer(type_):
        low, high = (0, 2**64) if pa.types.is_unsigned_integer(type_) else (-(2**63), 2**63)
        wide = pa.uint64() if low == 0 else pa.int64()
        whole = {int(text): place for text, place in by_text.items() if is_whole(text) and low <= int(text) < high}
        return _positions(pc.cast(values, wide), pa.array(list(whole), wide), list(whole.values()), absent)
    if pa.types.is_floating(type_) or (pa.types.is_decimal(type_) and type_.scale != 0):
        numbers = numbers_of(pa.array(list(by_text), pa.large_string())) + 0.0  # -0.0 and 0.0 are one value
        known = np.isfinite(numbers)
        places = np.array(list(by_text.values()))[known]
        return _positions(pa.array(numbers_of(values) + 0.0), pa.array(numbers[known]), places, absent)
    if pa.types.is_timestamp(type_) and type_.tz is not None:
        values = pc.cast(values, pa.timestamp(type_.unit))
    return _positions(texts(values), pa.array(list(by_text), pa.large_string()), list(by_text.values()), absent)


@lru_cache(maxsize=1024)
def _by_text(listed: tuple[str | int, ...]) -> dict[str, int]:
    return {str(value): place for place, value in reversed(list(enumerate(listed)))}


def is_whole(text: str) -> bool:
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and len(digits) < 25 and str(int(text)) == text


def _positions(values: pa.Array, listed: pa.Array, places: Sequence[int] | np.ndarray, absent: int) -> np.ndarray:
    """The place that goes with each value; the first of equal listed values counts."""
    found = pc.fill_null(pc.index_in(values, value_set=listed, skip_nulls=True), len(listed))
    return np.append(np.asarray(places, np.int64), absent).take(unboxed(found))
