"""Types kept: a published column has the type that its source's catalogue gives it, where its values have such a type.

The catalogue is public metadata, read without a row, and stored beside the measurement, so that rows generated later
have the types too. A type is written as Arrow names it (`int16`, `decimal128(10, 2)`, `timestamp[us, tz=UTC]`), or as
`varchar(20)`, `char(5)`, `enum` or, where the order of its words is known, `enum["low", "high"]`. A whole number stays
one even where nulls made its source a column of doubles, and text that holds numbers or dates is published as what it
holds.

Moments of a column with a `zone` are times on that zone's clock. Where the type has a zone too, whichever, the moment
is published at which the clock shows that time: the earlier of two, and the first after a gap for a time that it skips.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.spec.formats import DateForm
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.derived import derive
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.zones import from_the_wall

SQL_TYPE = b"understudy.type"
"""Metadata of a field: its SQL type, where Arrow has none."""

_LENGTH = re.compile(r"(?:var)?char\(([1-9][0-9]{0,8})\)")
_DECIMAL = re.compile(r"decimal(?:32|64|128)?\((\d{1,2}), ?(\d{1,2})\)")
_TIMESTAMP = re.compile(r"timestamp\[(s|ms|us|ns)(?:, tz=([A-Za-z0-9_+:/-]{1,60}))?\]")
_PLAIN = {
    str(type_): type_
    for type_ in (
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float32(), pa.float64(), pa.bool_(), pa.date32(), pa.string()),
    )
}
Types = Mapping[str, str]


@dataclass(frozen=True)
class Kept:
    """The Arrow type of a published column, its SQL type where that says more, and the zone on whose clock its values
    are, where the type has one."""

    type: pa.DataType
    sql: str | None = None
    zone: str | None = None

    @property
    def labels(self) -> list[str] | None:
        """The words of an enum in their order."""
        return None if self.sql is None else enum_labels(self.sql)

    def field(self, name: str) -> pa.Field:
        return pa.field(name, self.type, metadata=None if self.sql is None else {SQL_TYPE: self.sql})


def enum_name(labels: Sequence[str]) -> str:
    return "enum" + json.dumps(list(labels), ensure_ascii=False)


def enum_labels(name: str) -> list[str] | None:
    """The words of an enum; none where only the source's rows would tell their order; None for another type."""
    if name == "enum":
        return []
    return [str(label) for label in json.loads(name[4:])] if name.startswith("enum[") else None


def type_names(schema: pa.Schema) -> dict[str, str]:
    """The types of a source that can be kept, by its Arrow schema; names that occur twice have none."""
    found = {}
    for field in schema:
        type_ = field.type
        if len(schema.get_all_field_indices(field.name)) > 1:
            continue
        if pa.types.is_dictionary(type_) and pa.types.is_string(type_.value_type):
            found[field.name] = "enum"
        elif _arrow_type(str(type_)) is not None:
            found[field.name] = str(type_)
    return found


def _arrow_type(name: str) -> pa.DataType | None:
    if name in _PLAIN:
        return _PLAIN[name]
    if (match := _DECIMAL.fullmatch(name)) is not None:
        precision, scale = int(match.group(1)), int(match.group(2))
        return pa.decimal128(precision, scale) if 1 <= precision <= 38 and scale <= precision else None
    if (match := _TIMESTAMP.fullmatch(name)) is not None:
        return pa.timestamp(*match.groups())
    return None


def holds_whole_numbers(name: str) -> bool:
    """Whether a column of this type has whole numbers and nothing else."""
    type_ = _arrow_type(name)
    if type_ is None:
        return False
    return bool(pa.types.is_integer(type_) or (pa.types.is_decimal(type_) and type_.scale == 0))


def kept_types(domain: TableDomain, types: Types) -> dict[str, Kept]:
    """Of every published column but ids and tensors: the type it is published in."""
    found: dict[str, Kept] = {}
    for column in (*domain.columns, *(split.whole for split in domain.splits)):
        if column.name in domain.published_names:
            low, high = column.ends if column.edges else (0, 1)
            if column.kind == "category":
                numbers = [value for value in column.values if isinstance(value, int)]
                low, high = min(numbers, default=0), max(numbers, default=0)
            found[column.name] = kept_type(_default(column), types.get(column.name), column, float(low), float(high))
    for lapse in domain.lapses:
        start, name = found[lapse.after.name].type, types.get(lapse.name, "")
        own, zone = _arrow_type(name), start.tz if pa.types.is_timestamp(start) else None
        found[lapse.name] = Kept(pa.timestamp("us", zone))  # one clock for both, so that one is after the other
        if own is not None and pa.types.is_timestamp(own) and pa.types.is_timestamp(start):
            unit = own.unit if own.unit in ("us", "ns", start.unit) else "us"
            found[lapse.name] = Kept(pa.timestamp(unit, own.tz if own.tz and zone else zone))
    for made in domain.made:
        fields = [kept.field(name) for name, kept in found.items()]
        default = derive(made, pa.schema(fields).empty_table()).type
        found[made.name] = _kept_made(default, types.get(made.name))
    return found


def _default(column: DomainColumn) -> pa.DataType:
    match column.kind:
        case "category":
            whole = all(isinstance(value, int) and -(2**63) <= value < 2**63 for value in column.values)
            return pa.int64() if whole else pa.string()
        case "boolean":
            return pa.bool_()
        case "integer":
            return pa.int64()
        case "number":
            return pa.float64()
        case "date":
            return pa.date32()
        case "datetime":
            return pa.timestamp("us")


def _kept_made(default: pa.DataType, name: str | None) -> Kept:
    """A computed column keeps a type that cannot change what was computed: wide decimals, doubles, text."""
    type_ = _arrow_type(name) if name is not None else None
    if type_ is None or not (pa.types.is_floating(default) or pa.types.is_integer(default)):
        return Kept(default)
    if pa.types.is_decimal(type_) or (pa.types.is_integer(type_) and pa.types.is_integer(default)):
        wide = pa.types.is_decimal(type_) or type_.bit_width == 64
        return Kept(type_ if wide else default)
    return Kept(type_ if pa.types.is_float64(type_) else default)


def kept_type(default: pa.DataType, name: str | None, column: DomainColumn | None, low: float, high: float) -> Kept:
    """The type to publish a column in: the source's, where every value between the bounds has such a form, else the
    default. `column` is the modelled one, or None for a column that is computed."""
    if name is None:
        return Kept(default)
    if column is not None and column.kind == "category" and (pa.types.is_string(default) or enum_labels(name)):
        return _kept_words(name, column)
    type_ = _arrow_type(name)
    if type_ is None:
        return Kept(default)
    if pa.types.is_integer(default) or pa.types.is_floating(default) or pa.types.is_boolean(default):
        return Kept(type_ if _holds(type_, default, low, high) else default)
    if pa.types.is_timestamp(default) or pa.types.is_date(default):
        moment = pa.types.is_timestamp(type_)
        exact = moment and (type_.unit != "ns" or (low > -9.2e15 and high < 9.2e15))
        if exact:
            form = None if column is None else column.form_of(DateForm)
            return Kept(type_, zone=form.zone if form is not None and type_.tz is not None else None)
        return Kept(type_ if pa.types.is_date(default) and pa.types.is_date(type_) else default)
    return Kept(default)


def _holds(type_: pa.DataType, default: pa.DataType, low: float, high: float) -> bool:
    if pa.types.is_boolean(default):
        return bool(pa.types.is_boolean(type_) or pa.types.is_integer(type_))
    if pa.types.is_integer(type_):
        width = type_.bit_width
        least = 0 if pa.types.is_unsigned_integer(type_) else -(2 ** (width - 1))
        return bool(least <= low and high < least + 2**width)
    if pa.types.is_decimal(type_):
        return bool(max(abs(low), abs(high)) < 10 ** (type_.precision - type_.scale) - 1)
    # A column of doubles is often one of whole numbers with nulls: what is declared whole stays whole.
    return bool(pa.types.is_floating(type_) and pa.types.is_floating(default))


def _kept_words(name: str, column: DomainColumn) -> Kept:
    words = [str(value) for value in column.values] + ["other"] * column.has_other
    if (labels := enum_labels(name)) is not None:
        ordered = [label for label in labels if label in words] + [word for word in words if word not in labels]
        return Kept(pa.dictionary(pa.int32(), pa.string()), enum_name(ordered))
    if (match := _LENGTH.fullmatch(name)) is not None and max(map(len, words)) <= int(match.group(1)):
        return Kept(pa.string(), name)
    type_ = _arrow_type(name)
    if type_ is not None and pa.types.is_floating(type_) and not column.has_other and all(map(_is_number, words)):
        return Kept(type_)
    return Kept(pa.string())


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?[0-9]{1,15}(\.[0-9]{1,15})?", text) is not None


def cast(values: pa.Array, kept: Kept, low: float, high: float) -> pa.Array:
    """The values in the type, the nearest that it has between the bounds."""
    type_ = kept.type
    if values.type == type_:
        return values
    if pa.types.is_dictionary(type_):
        assert kept.labels is not None
        labels = pa.array(kept.labels, pa.string())
        return pa.DictionaryArray.from_arrays(pc.index_in(values.cast(pa.string()), value_set=labels), labels)
    if pa.types.is_integer(type_) and pa.types.is_floating(values.type):
        numbers = pc.fill_null(values, low).to_numpy(zero_copy_only=False)
        whole = np.clip(np.rint(numbers), np.ceil(low), np.floor(high)).astype(np.int64)
        return pa.array(whole, mask=np.asarray(values.is_null())).cast(type_)
    if pa.types.is_decimal(type_):
        return _decimals(values, type_)
    if pa.types.is_timestamp(type_):
        moments = values.cast(pa.timestamp("us"))
        if kept.zone is not None:
            moments = at_clock(moments, kept.zone)
        return moments.cast(pa.timestamp(type_.unit), safe=False).cast(type_)
    return values.cast(type_, safe=False)


def at_clock(times: pa.Array, zone: str) -> pa.Array:
    """The moments in UTC at which the zone's clock shows these times."""
    shown = pc.fill_null(times.cast(pa.int64()), 0).to_numpy(zero_copy_only=False)
    return pa.array(from_the_wall(shown, zone), mask=np.asarray(times.is_null())).cast(pa.timestamp("us"))


def _decimals(values: pa.Array, type_: pa.DataType) -> pa.Array:
    """To whole numbers of the last decimal first: of 1.005 a double holds digits that nobody meant."""
    scaled = pc.round(pc.multiply(values.cast(pa.float64()), 10.0**type_.scale), round_mode="half_to_even")
    whole = scaled.cast(pa.int64(), safe=False).cast(pa.decimal128(19, 0)).cast(pa.decimal128(38, 0))
    return whole.view(pa.decimal128(38, type_.scale)).cast(type_)
