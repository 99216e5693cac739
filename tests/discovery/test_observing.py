"""What is counted of a value: total, row by row, on one grid."""

from __future__ import annotations

import datetime as dt
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.table.coding.strategies import arrays, odd_arrays
from understudy.pipelines.discovery import grid
from understudy.pipelines.discovery.observing import Looking, different
from understudy.pipelines.spec.formats import NumberForm
from understudy.pipelines.table.columns import Kind

ANY = Looking("x", None)
kinds = st.sampled_from([None, "category", "integer", "number", "date", "datetime"])


def seen(values: pa.Array, looking: Looking) -> list[tuple[str | None, int, int]]:
    found = different(values, looking)
    rows = found.rows.tolist()
    return [(found.texts[i].as_py(), int(found.coarse[i]), int(found.fine[i])) for i in rows]


@settings(max_examples=300, deadline=None)
@given(st.one_of(arrays, odd_arrays), kinds)
def test_whatever_a_column_holds_each_row_is_looked_at_by_itself(values: pa.Array, kind: Kind | None) -> None:
    looking = Looking("x", kind)
    found = seen(values, looking)
    assert len(found) == len(values)
    assert found == [seen(values.slice(i, 1), looking)[0] for i in range(len(values))]
    for text, coarse, fine in found:
        assert 0 <= coarse < grid.COARSE_CELLS
        assert -1 <= fine < grid.FINE_CELLS
        assert text is None or (0 < len(text) <= 100 and text == text.strip())


def test_what_a_text_is() -> None:
    values = pa.array(["7", " 7.50 ", "word", "", None, "2014-05-01", "2014-05-01 10:30", "0", "-3", "NaN", "1e400"])
    coarse = [cell for _, cell, _ in seen(values, ANY)]
    numbers = grid.Masses(np.arange(grid.COARSE_CELLS), np.arange(grid.FINE_CELLS)).numbers
    years = grid.Masses(np.arange(grid.COARSE_CELLS), np.arange(grid.FINE_CELLS)).years
    seven, three, at = 2 - grid.LEAST, 1 - grid.LEAST, 2014 - grid.FIRST_YEAR
    assert coarse == [
        numbers[0, 0, seven], numbers[1, 0, seven], grid.WORD, grid.MISSING, grid.MISSING, years[0, at], years[1, at],
        grid.ZERO, numbers[0, 1, three], grid.WORD, grid.WORD,
    ]  # fmt: skip
    assert [text for text, _, _ in seen(values, ANY)][:3] == ["7", "7.50", "word"]


def test_formats_that_are_declared_are_read() -> None:
    euros = Looking("x", "number", NumberForm(decimal=",", thousands="."))
    ((_, coarse, fine),) = seen(pa.array(["1.024,50"]), euros)
    assert (coarse, fine) == tuple(int(cells[0]) for cells in grid.cells_of_numbers(np.array([1024.5])))


@settings(max_examples=200, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_lies_between_the_edges_of_its_part(number: float) -> None:
    coarse, fine = (int(cells[0]) for cells in grid.cells_of_numbers(np.array([number])))
    if number == 0:
        assert (coarse, fine) == (grid.ZERO, grid.NOWHERE)
        return
    octave, part = fine // grid.FINE % grid.OCTAVES, fine % grid.FINE
    assert fine // (grid.FINE * grid.OCTAVES) == (number < 0)
    low, high = grid.part_edges(octave)[part : part + 2]
    size = min(max(abs(number), 2.0**grid.LEAST), math.nextafter(2.0**grid.END, 0))
    assert low <= size < high


def test_whole_numbers_up_to_128_have_a_cell_each() -> None:
    _, fine = grid.cells_of_numbers(np.arange(1.0, 129.0))
    assert len(set(fine.tolist())) == 128


@pytest.mark.parametrize("day", [dt.date(1700, 5, 1), dt.date(1800, 1, 1), dt.date(2014, 2, 28), dt.date(9999, 12, 31)])
def test_a_day_lies_in_its_month_or_at_the_end_of_the_grid(day: dt.date) -> None:
    ((_, coarse, fine),) = seen(pa.array([day]), ANY)
    month = fine - (grid.FINE_CELLS - 12 * grid.YEARS)
    first = grid.first_day(month)
    inside = grid.FIRST_YEAR <= day.year <= grid.LAST_YEAR
    assert first == (day.replace(day=1) if inside else dt.date(1800, 1, 1) if day.year < 1800 else dt.date(2199, 12, 1))
    assert coarse == grid.COARSE_CELLS - 2 * grid.YEARS + (first.year - grid.FIRST_YEAR)
