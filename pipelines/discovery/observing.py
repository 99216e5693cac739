"""What is counted of each row: the cell of its value on the public grid, and its text where values are looked for.

Guarantees. Never raises on data, whatever the Arrow type and value. What a row gives depends on that row alone: a value
is read by itself, by the readers that code columns, and never because of what else its column holds.

A text that is a number is a number, one that is a date is a date; others are words. Blank text and NaN are missing.
Blanks (ASCII) around a text are no part of it. Candidates for values are texts of at most `longest` letters.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.discovery.grid import MISSING, NOWHERE, WORD, cells_of_moments, cells_of_numbers
from understudy.pipelines.spec.formats import DateForm, Form, NumberForm
from understudy.pipelines.table.columns import DomainColumn, Kind
from understudy.pipelines.table.reading.arrow import is_number, is_text, plain, readable, texts, unboxed
from understudy.pipelines.table.reading.values import read

_WIDE: dict[str, tuple[float, ...]] = {"number": (-1e300, 1e300), "datetime": (-(2**62), 2**62)}


@dataclass(frozen=True)
class Looking:
    """How a column is looked at. `kind` None: whatever its values are. `form`: how they are written, if declared."""

    name: str
    kind: Kind | None
    form: Form | None = None
    longest: int = 100

    def as_column(self, kind: Kind) -> DomainColumn:
        form = self.form if isinstance(self.form, NumberForm if kind == "number" else DateForm) else None
        return DomainColumn(self.name, kind, (), _WIDE[kind], False, True, True, form=form)


@dataclass(frozen=True, eq=False)
class Different:
    """The different values of some rows: each one's text (null: no candidate), its cells, its bytes; and which of them
    each row has."""

    texts: pa.LargeStringArray
    coarse: np.ndarray
    fine: np.ndarray
    spelled: pa.LargeStringArray
    rows: np.ndarray


def different(values: pa.Array, looking: Looking) -> Different:
    """Every value is looked at once for all rows that hold it."""
    values = _sortable(plain(values))
    if not pa.types.is_dictionary(values.type):
        values = values.dictionary_encode()
    entries = values.dictionary
    rows = unboxed(pc.fill_null(pc.cast(values.indices, pa.int64()), len(entries)))
    entries = pa.concat_arrays([_flat(entries), pa.nulls(1, _flat(entries).type)])  # the last one: missing
    spelled = _spelled(entries)
    coarse, fine = _cells(entries, looking)
    return Different(_candidates(spelled, looking.longest), coarse, fine, spelled, rows)


def _sortable(values: pa.Array) -> pa.Array:
    """What has no text, such as lists, is no value here: each counts as missing."""
    if not readable(values.type, "category"):
        return pa.nulls(len(values), pa.string())
    return texts(values) if is_text(values.type) else values


def _flat(entries: pa.Array) -> pa.Array:
    entries = plain(entries)
    return entries.dictionary.take(entries.indices) if pa.types.is_dictionary(entries.type) else entries


def _spelled(entries: pa.Array) -> pa.LargeStringArray:
    """The text of each entry, without blanks around it."""
    if pa.types.is_null(entries.type):
        return pa.nulls(len(entries), pa.large_string())
    if pa.types.is_timestamp(entries.type) and entries.type.tz is not None:
        entries = pc.cast(entries, pa.timestamp(entries.type.unit))
    return pc.ascii_trim_whitespace(texts(entries))


def _candidates(spelled: pa.LargeStringArray, longest: int) -> pa.LargeStringArray:
    """Texts that may be listed in a spec: neither blank nor too long, in UTF-8, printable."""
    length = unboxed(pc.fill_null(pc.binary_length(spelled), 0))
    fits = (length > 0) & (length <= 4 * longest)
    kept = [text if _sayable(text, longest) else None for text in _decoded(spelled, fits)]
    return pa.array(kept, pa.large_string())


def _decoded(spelled: pa.LargeStringArray, fits: np.ndarray) -> list[str | None]:
    raw = spelled.view(pa.large_binary()).to_pylist()
    return [_text(value) if fit and value is not None else None for value, fit in zip(raw, fits.tolist(), strict=True)]


def _text(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def _sayable(text: str | None, longest: int) -> bool:
    return text is not None and len(text) <= longest and text.isprintable() and text == text.strip()


def _cells(entries: pa.Array, looking: Looking) -> tuple[np.ndarray, np.ndarray]:
    coarse = np.full(len(entries), WORD, np.int32)
    fine = np.full(len(entries), NOWHERE, np.int32)
    coarse[_missing(entries)] = MISSING
    for kind in ("number", "datetime"):
        if (kind == "number") is (looking.kind in ("date", "datetime")) and looking.kind is not None:
            continue
        left = np.flatnonzero(coarse == WORD)
        column = looking.as_column(kind)
        if not len(left) or not _may_be(entries.type, column, looking):
            continue
        numbers, understood = _numbers(entries.take(pa.array(left)), column)
        found = cells_of_numbers if kind == "number" else cells_of_moments
        coarse[left[understood]], fine[left[understood]] = found(numbers[understood])
    return coarse, fine


def _may_be(type_: pa.DataType, column: DomainColumn, looking: Looking) -> bool:
    """Numbers are dates only where a format says how; truths are words, unless numbers are asked for."""
    if looking.kind is None and pa.types.is_boolean(type_):
        return False
    if looking.kind is None and column.kind == "datetime" and is_number(type_):
        return False
    return readable(type_, column.kind, column.form)


def _numbers(entries: pa.Array, column: DomainColumn) -> tuple[np.ndarray, np.ndarray]:
    """The value of each entry in the column's units, and whether it has one."""
    reading = read(entries, column)
    understood = np.ones(len(entries), bool)
    for mask in (reading.null, reading.unreadable):
        if mask is not None:
            understood &= ~mask
    numbers = reading.numbers
    if numbers.dtype.kind == "f":
        understood &= np.isfinite(numbers)
        numbers = np.where(understood, numbers, 0.0)
    return numbers, understood


def _missing(entries: pa.Array) -> np.ndarray:
    missing = entries.is_null()
    if is_text(entries.type):
        missing = pc.equal(pc.binary_length(pc.ascii_trim_whitespace(texts(entries))), 0)
    elif pa.types.is_floating(entries.type):
        missing = pc.is_nan(entries)
    return unboxed(pc.fill_null(missing, True))
