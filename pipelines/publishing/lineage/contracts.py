"""What a release promises about its columns, for catalogues and pipelines: an ODCS contract and dbt's sources.yml.

Both say what the spec declares and nothing that was seen: types, listed values, bounds, whether null may stand.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import yaml

from understudy.pipelines.publishing.contracts.odcs import odcs_contract
from understudy.pipelines.publishing.contracts.promised import promised_alone
from understudy.pipelines.publishing.manifest import Manifest, ReleaseFile
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

CONTRACT, SOURCES = "contract/odcs.yaml", "contract/sources.yml"
_SERVERS = {"postgresql": "postgres", "duckdb": "duckdb", "mysql": "mysql", "mariadb": "mysql", "s3": "s3"}


def contract_files(manifest: Manifest, spec: ReleaseSpec, domain: TableDomain) -> tuple[ReleaseFile, ...]:
    written = ((CONTRACT, odcs(manifest, spec, domain)), (SOURCES, dbt_sources(manifest, spec)))
    return tuple(ReleaseFile(path, _yaml(tree)) for path, tree in written)


def odcs(manifest: Manifest, spec: ReleaseSpec, domain: TableDomain) -> dict[str, Any]:
    kind = _SERVERS.get(spec.publish.address.kind)
    known = kind is not None and not spec.publish.address.hidden_in
    servers = [{"server": "published", "type": kind, **_server(spec)}] if known else None
    return odcs_contract(manifest, {_place(spec)[1]: promised_alone(spec, domain, manifest)}, servers)


def dbt_sources(manifest: Manifest, spec: ReleaseSpec) -> dict[str, Any]:
    """For `source('name', 'table')` of a dbt project, with the tests that every release passes."""
    schema, table = _place(spec)
    promised = manifest.guarantee
    about = {"epsilon": promised.epsilon, "delta": promised.delta, "release_id": manifest.release_id}
    held: dict[str, Any] = {"name": f"{spec.name}-synthetic".replace("-", "_"), "description": promised.sentence}
    if schema:
        held["schema"] = schema
    held["tables"] = [
        {
            "name": table,
            "description": f"Synthetic copy of {spec.name}. {promised.sentence}",
            "meta": {"understudy": about},
            "columns": [_tested(name, spec.columns.get(name)) for name in manifest.columns],
        }
    ]
    return {"version": 2, "sources": [held]}


def _tested(name: str, column: Any) -> dict[str, Any]:
    said: dict[str, Any] = {"name": name}
    tests: list[Any] = [] if _may_be_null(column) else ["not_null"]
    if values := _listed(column):
        quoted = all(isinstance(value, str) for value in values)
        tests.append({"accepted_values": {"arguments": {"values": values, "quote": quoted}}})
    return said | ({"data_tests": tests} if tests else {})


def _may_be_null(column: Any) -> bool:
    return column is None or bool(getattr(column, "nullable", False)) or column.type in ("derived", "lookup")


def _declared(column: Any) -> list[str | int]:
    values = getattr(column, "values", None)
    return list(values) if isinstance(values, list | tuple) else []


def _listed(column: Any) -> list[str | int]:
    """All that may stand there; nothing where unlisted values are published as `other` too."""
    return [] if getattr(column, "other", False) else _declared(column)


def _place(spec: ReleaseSpec) -> tuple[str, str]:
    schema, _, table = (spec.publish.table or spec.name).rpartition(".")
    return schema, table


def _server(spec: ReleaseSpec) -> dict[str, Any]:
    address, (schema, _) = spec.publish.address, _place(spec)
    parts = urlsplit(address.text)
    if address.kind == "s3":
        return {"location": address.text}
    if address.kind == "duckdb":
        return {"database": address.place.lstrip("/"), **({"schema": schema} if schema else {})}
    found: dict[str, Any] = {"host": parts.hostname or "localhost", "database": parts.path.strip("/")}
    found["port"] = parts.port or (5432 if address.kind == "postgresql" else 3306)
    return found | ({"schema": schema or "public"} if address.kind == "postgresql" else {})


def _yaml(tree: dict[str, Any]) -> bytes:
    plain = json.loads(json.dumps(tree))
    return yaml.safe_dump(plain, sort_keys=False, allow_unicode=True, width=120).encode()
