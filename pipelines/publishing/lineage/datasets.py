"""What lineage tools call a table: OpenLineage's namespace and name, OpenMetadata's database.schema.table.

Made from the spec's own words, which are public. An address that the spec keeps to itself (`postgresql+env://VARIABLE`)
is named by the variable, and neither host nor database is told.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from understudy.pipelines.spec.address import Address

_PORTS = {"postgresql": ("postgres", 5432), "mysql": ("mysql", 3306), "mariadb": ("mysql", 3306)}
_FILES = ("duckdb", "sqlite")


@dataclass(frozen=True)
class Dataset:
    """As https://openlineage.io/docs/spec/naming says, where it says it of this kind of place."""

    namespace: str
    name: str

    @property
    def asset_key(self) -> str:
        """A URI, as Prefect's assets have: a plain scheme, and nothing after it that is not allowed in one."""
        scheme, _, place = self.namespace.partition("://")
        rest = "/".join(part.strip("/") for part in (place, self.name) if part.strip("/"))
        return f"{re.sub('[^a-z0-9]', '', scheme.lower())}://{re.sub('[^A-Za-z0-9/._-]', '-', rest)}"[:512]


def dataset_of(address: Address, base: Path) -> Dataset:
    """Connects to nothing."""
    table = address.table or ""
    if address.hidden_in:
        return Dataset(address.text, table)
    if address.kind in _PORTS:
        scheme, port = _PORTS[address.kind]
        parts = urlsplit(address.text)
        database = parts.path.strip("/")
        return Dataset(f"{scheme}://{parts.hostname or 'localhost'}:{parts.port or port}", f"{database}.{table}")
    if address.kind in _FILES:
        path = address.path(base)
        return Dataset("file", f"{path.resolve() if path else address.place}/{table}")
    if not address.scheme or address.kind in ("file", "delta"):
        path = address.path(base)
        return Dataset("file", str(path.resolve()) if path else address.place)
    first, _, rest = address.place.partition("/")
    name = "/".join(part for part in (rest.strip("/"), table) if part)
    return Dataset(f"{address.scheme.removeprefix('delta-')}://{first}", name or "/")


def qualified(address: Address) -> str | None:
    """database.schema.table as OpenMetadata finds it; None where the address does not tell all three."""
    if address.hidden_in or not address.table:
        return None
    schema, _, name = address.table.rpartition(".")
    database = urlsplit(address.text).path.strip("/")
    match address.kind:
        case "postgresql" if database:
            return f"{database}.{schema or 'public'}.{name}"
        case "mysql" | "mariadb" if database:  # which have no schemas: OpenMetadata calls the database default
            return f"default.{schema or database}.{name}"
        case "iceberg" if schema:
            return f"{address.place}.{schema}.{name}"
    return None


def lineage_tags(source: Address, target: Address) -> list[str]:
    """What OpenMetadata's connector for Prefect looks for among a deployment's tags."""
    found = (("om-source", qualified(source)), ("om-destination", qualified(target)))
    return [f"{tag}:{name}" for tag, name in found if name is not None]
