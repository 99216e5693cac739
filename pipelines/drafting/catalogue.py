"""Whatever holds the rows, asked for its catalogue: `table_facts` reads no row, and closes what it opened.

A Parquet file is asked for its schema, not for its statistics; of a CSV file not one byte after the first line is read
(of a gzipped one, none is looked at).
"""

from __future__ import annotations

import gzip
import io
import os
import re
import shlex
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq

from understudy.pipelines.drafting.arrow_schema import arrow_columns
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts
from understudy.pipelines.drafting.folders import named_by_folders, named_files, parquet_files
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.files.csv_file import MOST_HEADER_BYTES, csv_header
from understudy.pipelines.sources.files.csv_folder import csv_files
from understudy.pipelines.sources.opening import kind_of, open_source
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.dialect import CsvDialect
from understudy.pipelines.spec.source import CSV_SUFFIXES, SourceSpec

VARIABLE = "WAREHOUSE_URL"
_PARQUET, _ARROW = (".parquet", ".pq"), (".arrow", ".feather")
_DUCKDB = (".duckdb", ".ddb")
_DELIMITERS = (",", ";", "\t", "|")


def table_facts(uri: str, table: str | None, beside: Path) -> TableFacts:
    """What is declared about the table at `uri`, which a person typed: relative to the working directory. The address
    for the spec is relative to `beside`, the spec's folder, where it lies below it."""
    address = Address.parse(uri, "the source", table)
    path = address.path(Path())
    match address.kind:
        case "file" if path is not None:
            return _file_facts(path, table, beside)
        case "duckdb" if path is not None:
            return _duckdb(path, table, beside)
        case "postgresql":
            from understudy.pipelines.drafting.postgresql import postgresql_facts

            return postgresql_facts(address)
        case "sqlite" if path is not None:
            return _sqlite(path, table, beside)
        case "mysql" | "mariadb":
            from understudy.pipelines.drafting.sqlalchemy_database import sqlalchemy_facts
            from understudy.pipelines.sources.databases.mysql_connection import url_of

            url = url_of(address).render_as_string(hide_password=False)
            return replace(sqlalchemy_facts(str(address), table, url), uri=address.text)
        case "sql" if address.hidden_in == "env":
            from understudy.pipelines.drafting.sqlalchemy_database import sqlalchemy_facts

            return sqlalchemy_facts(address.place, table)
    return _any_source(address) if kind_of(address) is not None else _any_database(address)


def _file_facts(path: Path, table: str | None, beside: Path) -> TableFacts:
    name, suffix = path.name.lower(), path.suffix.lower()
    if suffix in _DUCKDB:
        return _duckdb(path, table, beside)
    named = named_files(path)
    if named is None and not path.exists():
        raise SpecError(f"there is no file or directory {path}", "check the path")
    if table is not None:
        raise SpecError("--table is for databases; a file is one table", "leave --table out")
    if named is not None:
        return _csv_facts(path, path.parent, named, beside)
    if path.is_dir():
        return _folder_facts(path, beside)
    if name.endswith(CSV_SUFFIXES):
        return _csv_facts(path, path.parent, [path], beside)
    if suffix in _ARROW:
        return TableFacts(arrow_columns(_arrow_schema(path)), f"the Arrow schema of {path.name}")
    if suffix in _PARQUET:
        schema = _parquet_schema(path)
        return TableFacts(arrow_columns(schema), f"the schema of {path.name}", spec_path(path, beside))
    raise _unreadable(path)


def _folder_facts(folder: Path, beside: Path) -> TableFacts:
    """Beside Parquet files those of CSV are not looked at."""
    if files := parquet_files(folder):
        schema = _parquet_schema(files[0])
        for name in named_by_folders(folder, files, schema.names):
            schema = schema.append(pa.field(name, pa.string()))
        return TableFacts(arrow_columns(schema), f"the schema of {folder.name}", spec_path(folder, beside))
    if found := csv_files(folder):
        return _csv_facts(folder, folder, found, beside)
    raise _unreadable(folder)


def _csv_facts(path: Path, folder: Path, files: list[Path], beside: Path) -> TableFacts:
    """Of one file or of several below a folder, which have the same columns. Without types: all of it is text."""
    names, delimiter = csv_columns(files[0])
    more = [] if files == [path] else named_by_folders(folder, files, names)
    columns = tuple(ColumnFacts(name) for name in [*names, *more])
    return TableFacts(columns, f"the header of {files[0].name}", spec_path(path, beside), delimiter=delimiter)


def _unreadable(path: Path) -> SpecError:
    return SpecError(
        f"{path} is not a table whose catalogue init can read",
        "name a .csv or .parquet file, a folder of either, a .duckdb file or a database with --table, or a "
        "contract (ODCS, dbt, JSON Schema, Frictionless, SDV)",
    )


def csv_columns(path: Path) -> tuple[list[str], str]:
    """The names in the first line, and what stands between them: whichever usual mark tells most of them apart.

    A plain file is read byte by byte, so that nothing behind that line ever is.
    """
    try:
        with path.open("rb", buffering=0) as file:
            if path.name.lower().endswith(".gz"):
                with gzip.GzipFile(fileobj=file) as unpacked:
                    line = unpacked.readline(MOST_HEADER_BYTES)
            elif path.name.lower().endswith(".zst"):
                with pa.CompressedInputStream(pa.PythonFile(file, mode="r"), "zstd") as unpacked_zst:
                    line = io.BufferedReader(unpacked_zst, 1 << 16).readline(MOST_HEADER_BYTES)
            else:
                line = file.readline(MOST_HEADER_BYTES)
    except (OSError, EOFError) as error:
        reason = getattr(error, "strerror", None) or "it is not a readable CSV file"
        raise SourceError(f"cannot read {path}: {reason}", "check the path and the file") from None
    found = {
        mark: csv_header(pa.BufferReader(line), str(path), False, CsvDialect(delimiter=mark))[0] for mark in _DELIMITERS
    }
    best = max(found, key=lambda mark: len(found[mark]))  # of equals the first
    return found[best], best


def _parquet_schema(path: Path) -> pa.Schema:
    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or "it is not a complete Parquet file"
    raise SourceError(f"cannot read the schema of {path}: {reason}", "check the path and the file")


def _arrow_schema(path: Path) -> pa.Schema:
    try:
        with pa.memory_map(str(path)) as file:
            try:
                return pa.ipc.open_file(file).schema
            except pa.ArrowInvalid:
                file.seek(0)
                return pa.ipc.open_stream(file).schema
    except (pa.ArrowException, OSError):
        pass
    raise SourceError(f"{path} is no Arrow IPC file", "check the path and the file")


def _duckdb(path: Path, table: str | None, beside: Path) -> TableFacts:
    from understudy.pipelines.drafting.duckdb_file import duckdb_facts

    return duckdb_facts(path, f"duckdb:///{spec_path(path, beside)}", table)


def _any_source(address: Address) -> TableFacts:
    """Whatever else is installed, object stores first of all: a source has a schema without a row."""
    place = SourceSpec(uri=address.text, table=address.table, snapshot="none")
    with closing(open_source(place, Path())) as source:
        columns = arrow_columns(source.schema())
    if address.place.lower().endswith(CSV_SUFFIXES):  # of which every column is text, whatever it spells
        columns = tuple(ColumnFacts(column.name) for column in columns)
    named = address.table or address.place.rstrip("/").rpartition("/")[2]
    return TableFacts(columns, f"the schema of {named}", address.text, address.table)


def _sqlite(path: Path, table: str | None, beside: Path) -> TableFacts:
    from understudy.pipelines.drafting.sqlalchemy_database import sqlalchemy_facts

    if not path.is_file():
        raise SpecError(f"there is no database {path}", "check the path")
    facts = sqlalchemy_facts(str(path), table, f"sqlite:///{path.resolve()}")
    return replace(facts, uri=f"sqlite:///{spec_path(path, beside)}")


def _any_database(address: Address) -> TableFacts:
    """A SQLAlchemy URL as it is. A spec has no such address: it names an environment variable, which is to be set."""
    import sqlalchemy as sa

    from understudy.pipelines.drafting.sqlalchemy_database import sqlalchemy_facts

    try:
        url = sa.make_url(address.text)
        url.get_dialect()
    except (sa.exc.ArgumentError, sa.exc.NoSuchModuleError, ImportError):
        known = False
    else:
        known = True
    if not known:
        raise SpecError(
            f"addresses of the form {address.scheme}://... are not known here",
            "name a file, duckdb:///file.duckdb, postgresql://user@host/database, or a SQLAlchemy URL whose driver is "
            "installed",
        )
    text = url.render_as_string(hide_password=False)  # there is none: the address was checked
    facts = sqlalchemy_facts(VARIABLE, address.table, text)
    return replace(facts, environment=f"export {VARIABLE}={shlex.quote(text)}")


def spec_path(path: Path, beside: Path) -> str:
    """The path as the spec in that folder says it: relative if it lies below, else absolute."""
    absolute = Path(os.path.abspath(path))  # links stay what they are
    try:
        return absolute.relative_to(Path(os.path.abspath(beside))).as_posix()
    except ValueError:
        return absolute.as_posix()


def spec_name(facts: TableFacts, typed: str) -> str:
    """What release, account and file are called: after the table, else after the file or folder."""
    table = (facts.table or facts.called).rpartition(".")[2]
    path = Path(typed.rstrip("/"))
    named = path.parent if path.name.startswith("*.") else path
    word = table or re.sub(r"(\.csv)?\.[A-Za-z0-9]+$", "", named.name)
    return re.sub(r"[^a-z0-9._-]+", "-", word.lower()).strip("-._")[:100] or "table"
