"""Numbers as they stand in Arrow, or written as text, read without ever raising.

Text, after trimming ASCII white space: a sign, digits with a point, an exponent. Anything else is unreadable.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.reading.arrow import is_text, texts, unboxed, wholes

NUMBER_TEXT = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,6})?$"


def numbers_of(values: pa.Array) -> np.ndarray:
    """Numbers as int64 or float64, NaN where unreadable; nulls become arbitrary."""
    if pa.types.is_boolean(values.type) or pa.types.is_integer(values.type):
        return wholes(values)
    if is_text(values.type):
        trimmed = pc.ascii_trim_whitespace(texts(values))
        spelled = pc.if_else(pc.match_substring_regex(trimmed, NUMBER_TEXT), trimmed, "nan")
        return unboxed(pc.fill_null(pc.cast(spelled, pa.float64()), 0.0))
    return unboxed(pc.fill_null(pc.cast(values, pa.float64(), safe=False), 0.0))
