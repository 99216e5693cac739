"""Rules every published row obeys: public knowledge such as `age below 15 implies married = no`.

A rule lives under `generate.rules`: it shapes what is made from a measurement and changes nothing that is measured, so
it is free. Rules are kept twice: as forbidden combinations of codes while rows are generated, and as a check of the
finished values, which must find no row that breaks one.

Bins are read so that a rule holds for every value they can be decoded to. A condition ("if", "forbid") applies to a bin
that it touches; a consequence ("then") is met only by bins that lie wholly inside it. An `order` is decided within
overlapping bins when values are drawn.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.formats import DateForm
from understudy.pipelines.spec.rules import Range, Rule, Selection
from understudy.pipelines.table.coding.decode import decode_column
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.values import read_numbers

MOST_REDRAWS = 20


def allowed_cells(rule: Rule, domain: TableDomain) -> tuple[tuple[int, ...], np.ndarray]:
    """Column indices in increasing order, and for each combination of their codes whether it may occur."""
    for name in rule.columns:
        if name not in domain.names:
            raise SpecError(
                f"generate.rules names {name!r}, which no modelled column is called",
                f"modelled: {', '.join(domain.names)}",
            )
    indices = tuple(sorted(domain.index(name) for name in rule.columns))
    columns = [domain.columns[index] for index in indices]
    if rule.order:
        return indices, _ordered_cells(rule, columns)
    condition = _all_of(rule.forbid or rule.if_ or {}, columns, touching=True)
    consequence = _all_of(rule.then, columns, touching=False) if rule.then else np.zeros_like(condition)
    return indices, ~condition | consequence


def broken_rows(rule: Rule, table: pa.Table, domain: TableDomain) -> np.ndarray:
    """Which rows of a finished table break the rule, judged by their values."""
    if rule.order:
        low, high = (
            read_numbers(table[name].combine_chunks(), domain.columns[domain.index(name)]) for name in rule.order
        )
        return low > high
    condition = _holds(rule.forbid or rule.if_ or {}, table, domain)
    return condition & ~_holds(rule.then, table, domain) if rule.then else condition


def keep_order(
    table: pa.Table, codes: np.ndarray, rules: Iterable[Rule], domain: TableDomain, rng: np.random.Generator
) -> pa.Table:
    """Redraw, within their bins, values that came out in the wrong order; at last take the bins' outer ends."""
    for rule in (rule for rule in rules if rule.order):
        names = rule.order or ()
        for attempt in range(MOST_REDRAWS + 1):
            wrong = np.flatnonzero(broken_rows(rule, table, domain))
            if not len(wrong):
                break
            for position, name in enumerate(names):
                column = domain.columns[domain.index(name)]
                every = codes[:, domain.index(name)]
                drawn = decode_column(every[wrong], column, rng, every)
                if attempt == MOST_REDRAWS:
                    drawn = _outermost(codes[wrong, domain.index(name)], column, lowest=position == 0)
                table = _with_values(table, name, wrong, drawn)
    return table


def _ordered_cells(rule: Rule, columns: list[DomainColumn]) -> np.ndarray:
    """A pair of bins may occur if some value of the first does not exceed some value of the second."""
    first, second = rule.order or ("", "")
    kinds = {column.name: column.kind for column in columns}
    families = {kind if kind in ("category", "boolean", "date", "datetime") else "number" for kind in kinds.values()}
    if len(families) > 1 or families & {"category", "boolean"}:
        raise SpecError(
            f"generate.rules cannot order {first!r} ({kinds[first]}) and {second!r} ({kinds[second]})",
            "order numbers with numbers, dates with dates and datetimes with datetimes",
        )
    low = _bounds(columns[[c.name for c in columns].index(first)])[0]
    high = _bounds(columns[[c.name for c in columns].index(second)])[1]
    allowed = ~(low[:, None] > high[None, :])
    return allowed if columns[0].name == first else allowed.T


def _bounds(column: DomainColumn) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest value of each code; NaN, which no comparison breaks, for `other` and null."""
    low, high = (ends.astype(float) for ends in column.intervals())
    highest = np.where(column.is_spike, high, high - (0 if column.kind == "number" else 1))
    padding = np.full(column.size - column.value_codes, np.nan)
    return np.append(low, padding), np.append(highest, padding)


def _all_of(selections: dict[str, Selection] | None, columns: list[DomainColumn], *, touching: bool) -> np.ndarray:
    chosen = np.ones((1,) * len(columns), dtype=bool)
    for axis, column in enumerate(columns):
        if selections and column.name in selections:
            shape = [1] * len(columns)
            shape[axis] = column.size
            chosen = chosen & _codes_of(selections[column.name], column, touching=touching).reshape(shape)
    return np.broadcast_to(chosen, tuple(column.size for column in columns))


def _codes_of(selection: Selection, column: DomainColumn, *, touching: bool) -> np.ndarray:
    if isinstance(selection, Range):
        if column.kind in ("category", "boolean"):
            raise SpecError(f"generate.rules: {column.name} is a {column.kind}, which has no range", "list its values")
        low, high = _bounds(column)
        least, most = _limits(selection, column)
        if touching:
            return (high >= least) & (low <= most)
        return (low >= least) & (high <= most)
    labels = column.code_labels()
    if column.kind not in ("category", "boolean") and any(value is not None for value in selection):
        raise SpecError(
            f"generate.rules: list no values of {column.name}, which has bins", "give {min: ..., max: ...} or [null]"
        )
    wanted = {
        "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        for value in selection
    }
    unknown = wanted - set(labels)
    if unknown:
        raise SpecError(
            f"generate.rules: {column.name} has no value {', '.join(sorted(unknown))}", f"it has: {', '.join(labels)}"
        )
    return np.array([label in wanted for label in labels])


def _limits(selection: Range, column: DomainColumn) -> tuple[float, float]:
    low = -np.inf if selection.min is None else _number(selection.min, column)
    return low, np.inf if selection.max is None else _number(selection.max, column)


def _number(value: float | dt.date | dt.datetime, column: DomainColumn) -> float:
    """In the column's units. A day is its midnight, whichever of the two the rule or the column has."""
    if isinstance(value, dt.date) != (column.kind in ("date", "datetime")):
        kind = "numbers" if isinstance(value, dt.date) else "dates"
        raise SpecError(f"generate.rules: {column.name} is given no range in {kind}, which it holds", f"give {kind}")
    if not isinstance(value, dt.date):
        return float(value)
    moment = value if isinstance(value, dt.datetime) else dt.datetime.combine(value, dt.time())
    if moment.tzinfo is not None:
        form = column.form_of(DateForm)
        moment = moment.astimezone(ZoneInfo(form.zone) if form and form.zone else dt.UTC).replace(tzinfo=None)
    return (moment - dt.datetime(1970, 1, 1)) / dt.timedelta(**{"days" if column.kind == "date" else "microseconds": 1})


def _holds(selections: dict[str, Selection], table: pa.Table, domain: TableDomain) -> np.ndarray:
    """Which rows satisfy all the selections, by value, in whatever type the values are published."""
    held = np.ones(table.num_rows, dtype=bool)
    for name, selection in selections.items():
        column = domain.columns[domain.index(name)]
        if isinstance(selection, Range):
            least, most = _limits(selection, column)
            numbers = read_numbers(table[name].combine_chunks(), column)
            held &= (numbers >= least) & (numbers <= most)
        else:
            held &= _codes_of(selection, column, touching=True)[encode_column(table[name], column)]
    return held


def _outermost(codes: np.ndarray, column: DomainColumn, *, lowest: bool) -> pa.Array:
    low, high = _bounds(column)
    ends = (low if lowest else high)[codes]
    whole: Any = pa.array(ends) if column.kind == "number" else pa.array(ends.astype(np.int64))
    if column.kind == "date":
        return whole.cast(pa.int32()).cast(pa.date32())
    return whole.cast(pa.timestamp("us")) if column.kind == "datetime" else whole


def _with_values(table: pa.Table, name: str, rows: np.ndarray, values: pa.Array) -> pa.Table:
    mask = np.zeros(table.num_rows, dtype=bool)
    mask[rows] = True
    position = table.column_names.index(name)
    column = table[name].combine_chunks()
    return table.set_column(position, name, pc.replace_with_mask(column, pa.array(mask), values))
