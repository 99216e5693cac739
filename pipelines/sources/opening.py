"""Where the private rows are: one small class a kind of source, all opened by `open_source`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.base import Source, check_columns
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource
from understudy.pipelines.sources.files.csv_file import CsvSource
from understudy.pipelines.sources.files.idx import IdxSource, is_idx
from understudy.pipelines.sources.files.image_folder import ImageFolderSource, is_image_folder
from understudy.pipelines.sources.files.npz import NpzSource
from understudy.pipelines.sources.files.object_paths import OBJECT_STORES
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.spec.columns import TensorColumn
from understudy.pipelines.spec.model import ReleaseSpec, SourceSpec

__all__ = ["Source", "check_columns", "open_source"]

_FIX = (
    "use duckdb:///file.duckdb or postgresql://user@host/database with a table, a Parquet file or directory, or a .csv "
    "or .csv.gz file, also as s3://bucket/path, gs://bucket/path or abfs://container/path; or an .npz or idx file "
    "or a folder of pictures"
)


def open_source(source: SourceSpec, base: Path, spec: ReleaseSpec | None = None) -> Source:
    """The source a spec names. Opens nothing yet: what is wrong with the data shows at `schema()`.

    Relative paths, also those of `duckdb:///relative.duckdb`, start at `base`, the spec's directory. `spec` says what
    is declared, for the formats that do not say it themselves: which arrays are one table, how large pictures are.
    """
    scheme, separator, rest = source.uri.partition("://")
    if source.quoted_newlines and scheme not in OBJECT_STORES and not source.uri.lower().endswith((".csv", ".csv.gz")):
        raise SpecError("source.quoted_newlines is for CSV files", "remove source.quoted_newlines")
    if source.external and scheme != "duckdb":
        raise SpecError("source.external is for views of DuckDB", "remove source.external")
    if not separator:
        return _file(base / source.uri, source, spec)
    if scheme == "file" and rest.startswith("/"):
        return _file(Path(unquote(rest)), source, spec)
    if scheme == "duckdb" and rest.startswith("/") and len(rest) > 1:
        if source.table is None:
            raise SpecError("a DuckDB source needs a table", "name it as source.table")
        return DuckDBSource(base / rest[1:], source.table, source.external)
    if scheme in ("postgresql", "postgresql+env", "postgresql+block"):
        from understudy.pipelines.sources.databases.postgresql import PostgresSource
        from understudy.pipelines.spec.address import Database

        if source.table is None:
            raise SpecError("a PostgreSQL source needs a table", "name it as source.table")
        return PostgresSource(Database.parse(source.uri, "source.uri"), source.table)
    if scheme == "sql+env":
        from understudy.pipelines.sources.databases.sqlalchemy_table import SqlAlchemySource

        return SqlAlchemySource.named(rest, source.table)
    if scheme in OBJECT_STORES:
        from understudy.pipelines.sources.files.object_store import ObjectStoreSource

        if source.table is not None:
            raise SpecError("source.table is for databases; a file is one table", "remove source.table")
        return ObjectStoreSource(source.uri, source.quoted_newlines)
    # Only the scheme is shown: the rest may hold a password.
    raise SpecError(f"source.uri of the form {scheme}://... is not a source this version reads", _FIX)


def _declared(spec: ReleaseSpec) -> list[str]:
    """Every column that a release may have to read."""
    others = (spec.privacy.unit.entity, spec.rolling.column if spec.rolling else None)
    return [*spec.columns, *(name for name in others if name is not None)]


def _file(path: Path, source: SourceSpec, spec: ReleaseSpec | None) -> Source:
    if source.table is not None:
        raise SpecError("source.table is for databases; a file is one table", "remove source.table")
    if path.exists() and not path.is_file() and not path.is_dir():
        raise SourceError(f"{path} is a pipe or a device, not a file", "name a file: both passes over it read it anew")
    if path.name.lower().endswith((".csv", ".csv.gz")):
        return CsvSource(path, source.quoted_newlines)
    if path.suffix.lower() == ".npz":
        return NpzSource(path, frozenset(_declared(spec)) if spec else None)
    if is_idx(path):
        return IdxSource(path)
    if is_image_folder(path):
        image = spec.columns.get("image") if spec else None
        return ImageFolderSource(path, image.shape if isinstance(image, TensorColumn) else None)
    if path.suffix.lower() in (".parquet", ".pq") or path.is_dir() or not path.suffix:
        return ParquetSource(path)
    raise SpecError(f"source.uri {source.uri!r} is not a source this version reads", _FIX)
