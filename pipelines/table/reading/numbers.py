"""Numbers as they stand in Arrow, or written as text (`number_text`), read without ever raising."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.formats import NumberForm
from understudy.pipelines.table.reading.arrow import is_text, texts, unboxed, wholes
from understudy.pipelines.table.reading.number_text import numbers_in


def numbers_of(values: pa.Array, form: NumberForm | None = None) -> np.ndarray:
    """Numbers as int64 or float64, NaN where unreadable; nulls become arbitrary."""
    if pa.types.is_boolean(values.type) or pa.types.is_integer(values.type):
        return wholes(values)
    if is_text(values.type):
        return numbers_in(texts(values), form)
    return unboxed(pc.fill_null(pc.cast(values, pa.float64(), safe=False), 0.0))
