"""Reading a source whole, and what is kept of it when entities are bounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.table.coding.strategies import domain_of
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.table.domain import TableDomain

ODD = 'odd "name"; DROP TABLE t'
PEOPLE = domain_of(
    {
        "who": {"type": "category", "values": ["ann", "bob", "cy"], "other": True, "nullable": True},
        "n": {"type": "integer", "min": 0, "max": 600, "nullable": True},
        ODD: {"type": "category", "values": list("abcdefgh"), "nullable": True},
    }
)


def declared(names: Sequence[str], domain: TableDomain = PEOPLE) -> TableDomain:
    return TableDomain(tuple(domain.columns[domain.index(name)] for name in names))


def rows_of(source: Any, columns: Sequence[str], batch_rows: int = 3) -> list[tuple[str, ...]]:
    return _listed(list(source.read(columns, batch_rows)), columns)


def kept(
    source: Any, columns: Sequence[str], unit: Unit, key: bytes = b"k", batch_rows: int = 3
) -> list[tuple[str, ...]]:
    """The bounded rows, of columns of PEOPLE."""
    table = LocalTable(source, declared(columns), unit, key, batch_rows)
    return _listed(list(table.record_batches()), columns)


def _listed(batches: list[Any], columns: Sequence[str]) -> list[tuple[str, ...]]:
    assert all(batch.schema.names == list(columns) for batch in batches)
    return sorted(tuple(map(str, row.values())) for batch in batches for row in batch.to_pylist())
