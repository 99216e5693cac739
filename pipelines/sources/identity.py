"""Which data a spec names, told apart from data that the same words name in another place.

`source.uri: visits.parquet` is another file in every directory, and `postgresql+env://WAREHOUSE_URL` another server on
every worker, but the spec's hash, hence the measurement's id, is the same. So every charge seals the identity of what
it was made from, and a charge is used again only for the same one (`ledger.rows.require_same_source`):

- `source.id`, where the spec gives it: a name for the data, which survives every move (it is also in the hash);
- a file, folder or DuckDB file: its absolute path, symbolic links followed. The host is left out: workers that see one
  volume under one path see the same data;
- a database: driver, host, port and database, as the worker's environment fills them in; without user and password,
  and as a fingerprint where the spec kept the address to itself;
- an object store: scheme, bucket and path, and the endpoint if the environment names one;
- a source of another package: what that says, by default its address without user, options and secret.

No row, size or date of a file is looked at: those are private. Empty means that nobody can tell: a table passed from
Python, or an address that this process does not have.
"""

from __future__ import annotations

from pathlib import Path

from understudy.pipelines.sources.opening import kind_of
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec


def data_identity(spec: ReleaseSpec, base: Path) -> str:
    """Of all tables that a spec names; empty where nobody can tell it of one of them."""
    if spec.tables is None or spec.source.id is not None:
        return source_identity(spec.source, base)
    found = {name: source_identity(alone.source, base) for name, alone in spec.alone.items()}
    told = (f"{name} of {found[name]}: {spec.alone[name].source.table or name}" for name in sorted(found))
    return "; ".join(told) if all(found.values()) else ""


def source_identity(source: SourceSpec, base: Path) -> str:
    """Opens and connects to nothing. Public words: it goes into the ledger and into messages."""
    if source.id is not None:
        return f"id {source.id}"
    kind = kind_of(source.address)
    return "" if kind is None else kind.identity(source.address, base)
