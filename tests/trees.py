"""A small clinic of three tables, for tests of trees: its spec, and its domains."""

from __future__ import annotations

from typing import Any

from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

CLINIC: dict[str, Any] = {
    "name": "clinic",
    "source": {"uri": "duckdb:///clinic.duckdb", "snapshot": "2026-01"},
    "privacy": {"account": "clinic", "epsilon": 1, "delta": "1e-6"},
    "publish": {"to": "published"},
    "tables": {
        "patients": {
            "source": {"table": "patients"},
            "key": "patient_id",
            "columns": {
                "sex": {"type": "category", "values": ["f", "m"]},
                "age": {"type": "integer", "min": 0, "max": 99, "bins": 4},
            },
        },
        "visits": {
            "source": {"table": "visits"},
            "key": "visit_id",
            "parent": {"table": "patients", "by": "patient_id"},
            "max_rows": 3,
            "order_by": "visited_on",
            "columns": {
                "ward": {"type": "category", "values": ["a", "b", "c"], "nullable": True},
                "visited_on": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "bins": "quarter"},
            },
        },
        "drugs": {
            "source": {"table": "drugs"},
            "parent": {"table": "visits", "by": "visit_id"},
            "max_rows": 2,
            "columns": {"drug": {"type": "category", "values": ["x", "y"], "other": True}},
        },
    },
}


def clinic(**changes: Any) -> ReleaseSpec:
    """The clinic's spec; `visits={"max_rows": 4}` changes keys of a table, other keywords keys of the spec."""
    tables = {name: {**table, **changes.pop(name, {})} for name, table in CLINIC["tables"].items()}
    return ReleaseSpec.model_validate({**CLINIC, "tables": tables, **changes})


def domains_of(spec: ReleaseSpec) -> dict[str, TableDomain]:
    assert spec.tree is not None
    return {name: TableDomain.of(spec.table(name)) for name in spec.tree.names}


FLAT: dict[str, Any] = {
    "name": "stays",
    "source": {"uri": "stays.parquet", "snapshot": "2026-01"},
    "privacy": {
        "account": "clinic",
        "epsilon": 1,
        "delta": "1e-6",
        "unit": {"entity": "patient_id", "max_rows": 4, "columns": ["sex"], "order_by": "on"},
    },
    "columns": {
        "sex": {"type": "category", "values": ["f", "m"]},
        "ward": {"type": "category", "values": ["a", "b"]},
        "on": {"type": "date", "min": "2020-01-01", "max": "2020-12-31", "bins": "quarter"},
    },
    "publish": {"to": "published"},
}


def flat(**changes: Any) -> ReleaseSpec:
    """A flat table that keeps its entities; keywords change keys of its unit."""
    privacy = {**FLAT["privacy"], "unit": {**FLAT["privacy"]["unit"], **changes}}
    return ReleaseSpec.model_validate({**FLAT, "privacy": privacy})
