"""Which data a spec names, told apart from data that the same words name in another place.

`source.uri: visits.parquet` is another file in every directory, and `postgresql+env://WAREHOUSE_URL` another server on
every worker, but the spec's hash, hence the measurement's id, is the same. So every charge seals the identity of what
it was made from, and a charge is used again only for the same one (`ledger.rows.require_same_source`):

- `source.id`, where the spec gives it: a name for the data, which survives every move (it is also in the hash);
- a file, folder or DuckDB file: its absolute path, symbolic links followed. The host is left out: workers that see one
  volume under one path see the same data;
- a database: driver, host, port and database, as the worker's environment fills them in; without user and password,
  and as a fingerprint where the spec kept the address to itself;
- an object store: scheme, bucket and path, and the endpoint if the environment names one.

No row, size or date of a file is looked at: those are private. Empty means that nobody can tell: a table passed from
Python, or an address that this process does not have.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from urllib.parse import unquote

from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.sources.files.object_paths import OBJECT_STORES
from understudy.pipelines.spec.model import SourceSpec

_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")


def source_identity(source: SourceSpec, base: Path) -> str:
    """Opens and connects to nothing. Public words: it goes into the ledger and into messages."""
    if source.id is not None:
        return f"id {source.id}"
    scheme = source.uri.partition("://")[0] if "://" in source.uri else ""
    if (path := local_path(source.uri, base)) is not None:
        return f"{'database' if scheme == 'duckdb' else 'file'} {path}"
    if scheme in OBJECT_STORES:
        return _object_store(source.uri, scheme)
    if scheme.startswith("postgresql"):
        return _postgresql(source.uri)
    return _sqlalchemy(source.uri.partition("://")[2]) if scheme == "sql+env" else ""


def local_path(uri: str, base: Path) -> Path | None:
    """The file or folder that an address names on this machine, links followed; None where it names something else."""
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return (base / uri).resolve()
    if scheme == "file" and rest.startswith("/"):
        return Path(unquote(rest)).resolve()
    if scheme == "duckdb" and rest.startswith("/") and len(rest) > 1:
        return (base / rest[1:]).resolve()
    return None


def object_path(uri: str) -> tuple[str, ...] | None:
    """Scheme, bucket and folders of an address in an object store; an account beside the container is left out."""
    scheme, separator, rest = uri.partition("://")
    if not separator or scheme not in OBJECT_STORES:
        return None
    bucket, *folders = [part for part in rest.split("/") if part] or [""]
    return (scheme, bucket.partition("@")[0], *folders)


def _object_store(uri: str, scheme: str) -> str:
    endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), "") if scheme == "s3" else ""
    return f"object store {uri.rstrip('/')}" + (f" at {_fingerprint(endpoint.rstrip('/'))}" if endpoint else "")


def _postgresql(uri: str) -> str:
    from understudy.pipelines.spec.address import Database

    try:
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:  # then it cannot be read either, and `releasing.extras` says so
        return ""
    try:
        given = conninfo_to_dict(Database.parse(uri, "source.uri").conninfo())
    except (UnderstudyError, ProgrammingError):  # told when it is connected to, if it ever is
        return ""
    service = str(given.get("service") or os.environ.get("PGSERVICE") or "")
    host = str(given.get("host") or os.environ.get("PGHOST") or "")
    port = str(given.get("port") or os.environ.get("PGPORT") or "5432")
    user = str(given.get("user") or os.environ.get("PGUSER") or "")
    database = str(given.get("dbname") or os.environ.get("PGDATABASE") or user)
    place = f"{host.lower()}:{port}/{database}" + (f" service {service}" if service else "")
    return f"database postgresql {place if uri.startswith('postgresql://') else _fingerprint(place)}"


def _sqlalchemy(variable: str) -> str:
    from sqlalchemy import make_url
    from sqlalchemy.exc import ArgumentError

    address = os.environ.get(variable, "").strip()
    try:
        url = make_url(address)
    except ArgumentError:
        return ""
    kind = url.get_backend_name()
    database = url.database or ""
    if kind in ("sqlite", "duckdb") and database not in ("", ":memory:"):
        database = str(Path(database).resolve())
    host = (url.host or "").lower()
    return f"database {kind} {_fingerprint(f'{host}:{url.port or str()}/{database}')}"


def _fingerprint(place: str) -> str:
    return hashlib.sha256(place.encode()).hexdigest()[:16]
