"""Numbers on the grid do not depend on how a file holds them: a writer gives up a dictionary because of other rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.table.coding.strategies import domain_of
from understudy.pipelines.table.coding.grid import to_grid
from understudy.pipelines.table.reading.values import read_numbers

[COLUMN] = domain_of({"x": {"type": "number", "min": 0.05, "max": 9000, "scale": "log", "nullable": True}}).columns


def on_grid(values: pa.Array) -> list[float]:
    numbers = read_numbers(values, COLUMN)
    places, missing = np.empty(len(numbers)), np.empty(len(numbers))
    to_grid(numbers, COLUMN, 2**12, places, missing)
    return places.tolist()


@pytest.mark.parametrize("type_", [pa.float16(), pa.float32(), pa.float64(), pa.int64()])
def test_a_number_has_one_place_plain_coded_beside_a_null_or_alone(type_: pa.DataType) -> None:
    drawn = np.random.default_rng(2).gamma(1, 900, 100_000)
    plain = pa.array(drawn.astype(type_.to_pandas_dtype()))
    places = on_grid(plain)
    assert on_grid(plain.dictionary_encode()) == places
    assert on_grid(pa.concat_arrays([plain, pa.nulls(1, type_)]))[:-1] == places
    assert [on_grid(plain.slice(row, 1))[0] for row in range(200)] == places[:200]
