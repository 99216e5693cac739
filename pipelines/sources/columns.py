"""Whether a table has the columns that a spec declares, in types that can be read; told from its schema alone."""

from __future__ import annotations

import difflib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeGuard

import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.base import IN_UTC
from understudy.pipelines.sources.ids import is_key
from understudy.pipelines.spec.columns import IdentifierColumn, ModelledColumn, TensorColumn
from understudy.pipelines.spec.derived import Column, DerivedColumn, LaterColumn, LookupColumn
from understudy.pipelines.spec.formats import DateForm
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.columns import Kind
from understudy.pipelines.table.reading.arrow import is_number, readable
from understudy.pipelines.table.tensors import type_problem


@dataclass(frozen=True)
class _Complaint:
    column: str
    text: str


def check_columns(schema: pa.Schema, spec: ReleaseSpec, keys: Sequence[str] = (), table: str = "") -> None:
    """Raise one SpecError that names every column the table lacks, has twice, or has in a wrong type.

    `keys` lead from one table to another; `table` is what the table is called where there are several.
    """
    unit = spec.privacy.protected_unit
    modelled = {name: column for name, column in spec.columns.items() if is_read(column)}
    complaints: list[_Complaint] = []
    for name in dict.fromkeys([*modelled, *([unit.entity] if unit.entity else []), *keys]):
        role = "entity column" if name == unit.entity else "key column" if name in keys else "column"
        found = schema.get_all_field_indices(name)
        if not found:
            complaints.append(_Complaint(name, f"the table has no {role} {name!r}{_nearest(name, schema.names)}"))
        elif len(found) > 1:
            complaints.append(_Complaint(name, f"the table has {len(found)} columns named {name!r}"))
        else:
            type_ = schema.field(found[0]).type
            if name in modelled and (problem := _misfit(schema.field(found[0]), modelled[name])) is not None:
                complaints.append(_Complaint(name, f"column {name!r} is declared {problem}"))
            elif name not in modelled and not is_key(type_):
                complaints.append(_Complaint(name, f"the {role} {name!r} holds {_type_name(type_)}, which is no key"))
    if complaints:
        names = ", ".join(complaint.column for complaint in complaints)
        raise SpecError(
            f"{table}: " * bool(table) + "; ".join(complaint.text for complaint in complaints),
            f"correct {names} in the spec, or give the source a view with the columns the spec declares",
        )


def is_read(column: Column) -> TypeGuard[ModelledColumn | LaterColumn | TensorColumn]:
    """Whether a column is read from the source; identifiers never are, and derived ones are not in it."""
    return not isinstance(column, IdentifierColumn | DerivedColumn | LookupColumn)


def _misfit(field: pa.Field, column: ModelledColumn | LaterColumn | TensorColumn) -> str | None:
    type_ = field.type
    if isinstance(column, TensorColumn):
        size = math.prod(column.shape)
        held = type_problem(type_, size)
        return held and f"a tensor of {size:,} numbers but the table holds {held}"
    form = None if isinstance(column, LaterColumn) else column.form
    if isinstance(form, DateForm) and form.zone and IN_UTC.items() <= (field.metadata or {}).items():
        return f"with a zone, but the table sends its moments in UTC (use a view: AT TIME ZONE '{form.zone}')"
    kind: Kind = "datetime" if isinstance(column, LaterColumn) else column.type
    if readable(type_, kind, form):
        return None
    numeric = is_number(type_) and kind in ("date", "datetime")
    how = " (numbers are dates with a `format`: epoch, epoch_ms, epoch_us, epoch_ns or digits as %Y%m%d)" * numeric
    return f"{kind} but the table holds {_type_name(type_)}{how}"


def _nearest(name: str, existing: Sequence[str]) -> str:
    by_lower = {other.lower(): other for other in existing}
    close = [by_lower[match] for match in difflib.get_close_matches(name.lower(), list(by_lower), n=3, cutoff=0.5)]
    return f" (nearest: {', '.join(close)})" if close else ""


def _type_name(type_: pa.DataType) -> str:
    """The kind of type without its details: a dictionary or a struct's fields could be long."""
    if pa.types.is_struct(type_):
        return "structs"
    if pa.types.is_map(type_):
        return "maps"
    if pa.types.is_union(type_):
        return "unions"
    return "lists" if pa.types.is_nested(type_) else str(type_)
