"""The one reader of values: what a row's value is in its column, whatever the source and however it is stored.

A value is one of four kinds: there and understood, null, unreadable (NaN, an infinity, text that is no number), or not
listed. Understood ones have a number: of a category its place in the list, of a boolean 0 or 1, of the others the value
in the column's own units (numbers, whole numbers, days or microseconds since 1970). Codes (`coding.encode`), doubles
for methods that add values up (`read_numbers`), and the bytes by which rows are told apart all come from here.

Guarantees. `read` never raises on data, whatever the Arrow type and value. What a row is depends on that row alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.table.domain import MICROSECONDS_A_DAY, DomainColumn
from understudy.pipelines.table.reading.arrow import nulls, plain, readable, unboxed
from understudy.pipelines.table.reading.dates import moments_of
from understudy.pipelines.table.reading.numbers import numbers_of
from understudy.pipelines.table.reading.words import NEITHER, places_of, truths_of

UNDERSTOOD, NULL, UNREADABLE, UNLISTED = range(4)


@dataclass(frozen=True, eq=False)
class Reading:
    """`numbers` are int64 or doubles, of which those that are not finite are unreadable too; arbitrary where a mask
    says that a row is null or unreadable. A mask is None where it holds for no row. Of categories and booleans the
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
            found[~np.isfinite(self.numbers)] = UNREADABLE
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
    if not readable(values.type, column.kind):
        return Reading(np.zeros(len(values), np.int64), null, np.ones(len(values), np.bool_))
    match column.kind:
        case "category":
            return Reading(places_of(values, column.values), null)
        case "boolean":
            return Reading(truths_of(values), null)
        case "integer" | "number":
            return Reading(numbers_of(values), null)
    moments, known = moments_of(values)
    if column.kind == "date":
        moments //= MICROSECONDS_A_DAY
    return Reading(moments, null, None if known is None else ~known)


def read_numbers(values: pa.Array, column: DomainColumn) -> np.ndarray:
    """The column as doubles in its own units; NaN where null, NaN or infinite where unreadable."""
    return read(values, column).doubles()


assert NEITHER == 2  # which is `value_codes` of a boolean
