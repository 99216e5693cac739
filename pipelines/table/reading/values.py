"""The one reader of values: what a row's value is in its column, whatever the source and however it is stored.

A value is one of four kinds: there and understood, null (NaN too, and blank text where a number, date or truth is
asked for), unreadable (an infinity, text that is no number), or not listed. Understood ones have a number: of a
category its place in the list, of a boolean 0 or 1, of the others the value in the column's own units (numbers, whole
numbers, days or microseconds since 1970). Codes (`coding.encode`), doubles for methods that add values up
(`read_numbers`), and the bytes by which rows are told apart all come from here.

Guarantees. `read` never raises on data, whatever the Arrow type and value. What a row is depends on that row alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.formats import NumberForm, TruthForm, WordForm
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.reading.arrow import is_text, nulls, plain, readable, texts, unboxed
from understudy.pipelines.table.reading.dates import dates_of
from understudy.pipelines.table.reading.numbers import numbers_of
from understudy.pipelines.table.reading.words import NEITHER, places_of, truths_of

UNDERSTOOD, NULL, UNREADABLE, UNLISTED = range(4)


@dataclass(frozen=True, eq=False)
class Reading:
    """`numbers` are int64 or doubles, of which NaN is null and an infinity unreadable; arbitrary where a mask says that
    a row is null or unreadable. A mask is None where it holds for no row. Of categories and booleans the
    number after the last place or truth says that the value is none of them."""

    numbers: np.ndarray
    null: np.ndarray | None = None
    unreadable: np.ndarray | None = None

    def kinds(self, column: DomainColumn) -> np.ndarray:
        """UNDERSTOOD, NULL, UNREADABLE or UNLISTED, one a row."""
        found = np.full(len(self.numbers), UNDERSTOOD, np.uint8)
        if column.kind in ("category", "boolean"):
            found[self.numbers == column.value_codes] = UNLISTED if column.kind == "category" else UNREADABLE
        elif self.numbers.dtype.kind == "f":
            found[np.isinf(self.numbers)] = UNREADABLE
            found[np.isnan(self.numbers)] = NULL
        if self.unreadable is not None:
            found[self.unreadable] = UNREADABLE
        if self.null is not None:
            found[self.null] = NULL
        return found

    def doubles(self) -> np.ndarray:
        """The numbers as doubles, NaN where null, NaN or infinite where unreadable.

        Always doubles: a row must not be rounded another way because its file holds it in a dictionary.
        """
        found = self.numbers.astype(np.float64, copy=False)
        for mask in (self.unreadable, self.null):
            if mask is not None:
                found = np.where(mask, np.nan, found)
        return found

    def at(self, places: np.ndarray) -> Reading:
        """The rows at these places."""
        masks = (None if mask is None else mask[places] for mask in (self.null, self.unreadable))
        return Reading(self.numbers[places], *masks)


def read(values: pa.Array, column: DomainColumn) -> Reading:
    values = plain(values)
    if pa.types.is_dictionary(values.type):
        entries = read(pa.concat_arrays([values.dictionary, pa.nulls(1, values.dictionary.type)]), column)
        places = pc.fill_null(pc.cast(values.indices, pa.int64()), len(values.dictionary))
        return entries.at(unboxed(places))
    if pa.types.is_null(values.type):
        return Reading(np.zeros(len(values), np.int64), null=np.ones(len(values), np.bool_))
    null = nulls(values)
    if not readable(values.type, column.kind, column.form):
        return Reading(np.zeros(len(values), np.int64), null, np.ones(len(values), np.bool_))
    match column.kind:
        case "category":
            return Reading(places_of(values, column.values, column.form_of(WordForm)), null)
        case "boolean":
            truths = truths_of(values, column.form_of(TruthForm))
            return _without_blanks(values, truths, null, truths == NEITHER)
        case "integer" | "number":
            numbers = numbers_of(values, column.form_of(NumberForm))
            if not is_text(values.type):
                return Reading(numbers, null)
            return _without_blanks(values, numbers, null, np.isnan(numbers))
    dates, unreadable = dates_of(values, column)
    return _without_blanks(values, dates, null, unreadable)


def _without_blanks(
    values: pa.Array, numbers: np.ndarray, null: np.ndarray | None, unreadable: np.ndarray | None
) -> Reading:
    """Blank text is null: nothing is written there. Only rows that could not be read are looked at again."""
    rows = np.flatnonzero(unreadable) if unreadable is not None and is_text(values.type) else np.zeros(0, np.int64)
    if not rows.size:
        return Reading(numbers, null, unreadable)
    trimmed = pc.ascii_trim_whitespace(texts(values).take(pa.array(rows)))
    blank = unboxed(pc.fill_null(pc.equal(pc.binary_length(trimmed), 0), True))
    null = np.zeros(len(values), np.bool_) if null is None else null.copy()
    null[rows[blank]] = True
    return Reading(numbers, null, unreadable)


def read_numbers(values: pa.Array, column: DomainColumn) -> np.ndarray:
    """The column as doubles in its own units; NaN where null, NaN or infinite where unreadable."""
    return read(values, column).doubles()


assert NEITHER == 2  # which is `value_codes` of a boolean
