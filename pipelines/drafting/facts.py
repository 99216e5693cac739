"""What is publicly declared about a table: by its database's catalogue, its file's schema, or a contract about it.

Nothing here was ever read from a row, from statistics about rows (Parquet footers, `pg_stats`, zone maps), or from an
example value in a contract.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

Kind = Literal["unknown", "text", "integer", "number", "boolean", "date", "datetime", "other"]
"""How values are stored. unknown: as text that may be anything (CSV); other: what no column type of a spec reads."""

_ANYTHING = ("unknown", "text")

Bound = int | float | dt.date | dt.datetime


@dataclass(frozen=True)
class ColumnFacts:
    """One column. None and empty mean that nobody said."""

    name: str
    kind: Kind = "unknown"
    type_name: str = ""
    nullable: bool | None = None
    comment: str = ""
    values: tuple[str | int, ...] = ()
    enforced: bool = False
    """Whether the database refuses every other value, so that nothing else can be there."""
    low: Bound | None = None
    high: Bound | None = None
    decimals: int | None = None
    most_characters: int | None = None
    primary: bool = False
    unique: bool = False
    references: str = ""
    """The table whose rows it points to."""
    says: str = ""
    """What it stands for, in a contract's own word, such as `email` or `id`."""
    declared_by: tuple[str, ...] = ()
    """Who lists the values or sets the bounds, in words: `enum sex`, `CHECK age_range`."""

    def joined(self, other: ColumnFacts) -> ColumnFacts:
        """These facts, and what the other one says beside them. Where both speak, `other` is believed; of types whoever
        has the data, unless that is text, which may spell anything."""
        joined = replace(self, declared_by=(*self.declared_by, *other.declared_by))
        for field in fields(self):
            said = getattr(other, field.name)
            if field.name in ("name", "declared_by", "enforced") or said in (None, "", ()) or said is False:
                continue
            if field.name in ("kind", "type_name") and (self.kind not in _ANYTHING or other.kind in _ANYTHING):
                continue
            joined = replace(joined, **{field.name: said})
        if other.values:
            joined = replace(joined, enforced=other.enforced)
        return replace(joined, nullable=False) if other.nullable is False else joined


@dataclass(frozen=True)
class TableFacts:
    """A table: `uri` and `table` are what a spec's source says, empty if nobody told where the rows are."""

    columns: tuple[ColumnFacts, ...]
    origin: str
    """Who said all this, in words: `the header of adult.csv`."""
    uri: str = ""
    table: str | None = None
    comment: str = ""
    called: str = ""
    """What a contract calls the table."""
    orders: tuple[tuple[str, str], ...] = ()
    """Pairs of columns of which the first is never after the second."""
    environment: str = ""
    """A command to type first, where the spec's address is in an environment variable."""
    delimiter: str = ","
    """What stands between the names in a CSV file's header."""

    def joined(self, other: TableFacts) -> TableFacts:
        """With what a contract says about the same table. Names match by case, then without; a column that only the
        contract knows is left out, since the table does not have it."""
        exact = {column.name: column for column in other.columns}
        folded = {column.name.casefold(): column for column in other.columns}
        found = [exact.get(column.name, folded.get(column.name.casefold())) for column in self.columns]
        columns = tuple(
            column if said is None else column.joined(said) for column, said in zip(self.columns, found, strict=True)
        )
        return replace(
            self,
            columns=columns,
            origin=f"{self.origin} and {other.origin}",
            comment=other.comment or self.comment,
            orders=tuple(dict.fromkeys((*self.orders, *other.orders))),
        )


def with_bound(column: ColumnFacts, low: Bound | None = None, high: Bound | None = None, by: str = "") -> ColumnFacts:
    """Narrowed to these bounds; the tighter one counts where there were some."""
    return replace(
        column,
        low=_tighter(column.low, low, max),
        high=_tighter(column.high, high, min),
        declared_by=(*column.declared_by, by) if by and by not in column.declared_by else column.declared_by,
    )


def with_values(column: ColumnFacts, values: Iterable[str | int], by: str = "", enforced: bool = False) -> ColumnFacts:
    listed = tuple(dict.fromkeys(values))
    if column.values:  # both hold
        listed = tuple(value for value in column.values if str(value) in {str(other) for other in listed})
    declared_by = (*column.declared_by, by) if by else column.declared_by
    return replace(column, values=listed, declared_by=declared_by, enforced=enforced or column.enforced)


def only_key(primary: Sequence[str], name: str) -> bool:
    """Whether this column alone is the primary key; one of several columns of a key may repeat."""
    return tuple(primary) == (name,)


def _tighter(known: Bound | None, said: Bound | None, nearer: Callable[..., Any]) -> Bound | None:
    if known is None or said is None:
        return said if known is None else known
    try:
        chosen: Bound = nearer(known, said)
    except TypeError:  # a day and a moment
        return said
    return chosen
