"""An Open Data Contract of a release: what every row of it satisfies, and who is protected how well.

Reference. Open Data Contract Standard 3.1 (bitol-io.github.io/open-data-contract-standard). It says no more than the
manifest does, so it is as public as that.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.table.contract import ColumnContract, TableContract

VERSION = "v3.1.0"
_LOGICAL = (("int", "integer"), ("uint", "integer"), ("float", "number"), ("double", "number"), ("decimal", "number"),
            ("bool", "boolean"), ("date", "date"), ("timestamp", "timestamp"), ("fixed_size_list", "array"),
            ("list", "array"))  # fmt: skip


def odcs_contract(
    manifest: Manifest, contracts: Mapping[str, TableContract], servers: list[dict[str, Any]] | None = None
) -> dict[str, Any]:
    """`contracts` are by what the rows are called where they lie, and `servers` say where, for `datacontract test`."""
    guarantee, notes = manifest.guarantee, column_notes(manifest)
    facts = {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "privacyUnit": guarantee.unit,
        "relation": guarantee.relation.value,
        "accountant": guarantee.accountant,
        "method": manifest.method,
        "snapshot": manifest.snapshot,
    }
    return {
        "apiVersion": VERSION,
        "kind": "DataContract",
        "id": f"{manifest.name}-{manifest.release_id}",
        "name": manifest.name,
        "version": manifest.release_id,
        "status": "active",
        "description": {
            "purpose": f"Synthetic copy of snapshot {manifest.snapshot}; no row is of a real person.",
            "limitations": manifest.verdict.sentence if manifest.verdict else "see the card",
            "usage": guarantee.sentence,
        },
        **({"servers": servers} if servers else {}),
        "schema": [
            {
                "name": table or manifest.name.replace("-", "_").replace(".", "_"),
                "logicalType": "object",
                "physicalType": "table",
                "properties": [
                    _property(column, notes.get(f"{table}.{column.name}" if manifest.tables else column.name, ""))
                    for column in contract.columns
                ],
            }
            for table, contract in contracts.items()
        ],
        "customProperties": [{"property": name, "value": value} for name, value in facts.items()],
    }


def column_notes(manifest: Manifest) -> dict[str, str]:
    """Of each published column, how fine it is and what to be careful about."""
    return {
        fit.column: "; ".join(part for part in (fit.resolution, _exact(fit.exact), fit.caution) if part)
        for fit in manifest.fitness
    }


def _exact(values: tuple[str, ...]) -> str:
    return f"exact: {', '.join(values)}" if values else ""


def _property(column: ColumnContract, note: str) -> dict[str, Any]:
    logical = next((name for start, name in _LOGICAL if column.arrow_type.startswith(start)), "string")
    found: dict[str, Any] = {"name": column.name, "logicalType": logical, "required": not column.nullable}
    if column.unique:
        found |= {"primaryKey": True, "primaryKeyPosition": 1, "unique": True}
    if note:
        found["description"] = note
    if (options := _options(column, logical)) and logical in ("integer", "number", "date", "timestamp"):
        found["logicalTypeOptions"] = options
    if logical == "array":
        found["items"] = {"logicalType": "number"}
    if column.allowed is not None and logical == "string":
        found["quality"] = [
            {
                "type": "library",
                "metric": "invalidValues",
                "arguments": {"validValues": [str(value) for value in column.allowed]},
                "mustBe": 0,
            }
        ]
    return found


def _options(column: ColumnContract, logical: str) -> dict[str, Any]:
    ends = {"minimum": column.low, "maximum": column.high}
    if column.allowed is not None and logical in ("integer", "number"):
        numbers = [value for value in column.allowed if isinstance(value, int | float)]
        ends = {"minimum": min(numbers, default=None), "maximum": max(numbers, default=None)}
    return {key: _written(end, logical) for key, end in ends.items() if end is not None}


def _written(end: Any, logical: str) -> Any:
    if isinstance(end, dt.datetime):
        return end.date().isoformat() if logical == "date" else end.isoformat()
    return end
