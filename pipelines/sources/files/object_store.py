"""Parquet or CSV in an object store, read through fsspec: one object, or every one below a path.

Each object is pinned when the source is first looked at: its size and version (an ETag where the store has one) are
compared before and after every later read, in whichever process: all see the same bytes or fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from understudy.pipelines.errors import Bare, SourceError, SpecError
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.sources.base import BATCH_ROWS, InParts
from understudy.pipelines.sources.files.csv_file import csv_batches, csv_header, in_utf8, unpacked
from understudy.pipelines.sources.files.hive import Constants, constants_of, shared, with_constants, with_names
from understudy.pipelines.sources.files.object_paths import endpoint, open_store, storing
from understudy.pipelines.sources.files.parquet import MOST_ROWS, read_footer, read_row_groups, understood
from understudy.pipelines.sources.pinning import changed, state_of
from understudy.pipelines.spec.address import Address, Terms, fingerprint
from understudy.pipelines.spec.dialect import COMMAS, CsvDialect
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import CSV_SUFFIXES, SourceSpec
from understudy.pipelines.table.keeping import type_names

_KEY = "source.uri"
FOOTERS_AT_ONCE = 8
"""Objects that are looked at together when the source is first opened: each costs a few round trips."""


@dataclass(frozen=True)
class StoredObject:
    """One object and the version of it that was first seen."""

    uri: str
    path: str
    version: str

    @contextmanager
    def open(self) -> Iterator[Any]:
        """The object's bytes, which are those of that version from the first to the last."""
        store, _ = open_store(self.uri, _KEY)
        self._check(store)
        failure: Exception | None = None
        try:
            with store.open(self.path, "rb", block_size=8 << 20) as stream:
                yield stream
        except Exception as error:
            failure = error
        self._check(store)
        if failure is not None:
            raise failure

    def _check(self, store: Any) -> None:
        store.invalidate_cache(self.path)  # some stores answer from a listing they remember
        try:
            same = version_of(store.info(self.path)) == self.version
        except FileNotFoundError:
            same = False
        if not same:
            raise changed(self.path)


@dataclass(frozen=True)
class StoredParquet:
    """Some row groups of one object."""

    object: StoredObject
    row_groups: tuple[int, ...]
    rows: int
    constants: Constants = ()

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with Bare(), _reading(self.object.path), self.object.open() as stream, understood(self.object.path):

            def held(names: list[str]) -> Iterator[pa.RecordBatch]:
                return read_row_groups(stream, self.row_groups, names, batch_rows, far=True)

            yield from with_constants(held, columns, self.constants, self.rows, batch_rows)


@dataclass(frozen=True)
class StoredCsv:
    """A CSV object, plain or gzipped, read as a file is (`csv_file`)."""

    object: StoredObject
    quoted_newlines: bool
    dialect: CsvDialect

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        path = self.object.path
        with (
            Bare(),
            _reading(path),
            self.object.open() as stream,
            unpacked(pa.PythonFile(stream, mode="r"), path) as native,
        ):
            text = in_utf8(native, self.dialect.encoding)
            yield from csv_batches(text, path, columns, batch_rows, self.quoted_newlines, self.dialect)


@dataclass(frozen=True)
class ObjectStoreSource(InParts):
    uri: str
    quoted_newlines: bool = False
    dialect: CsvDialect = COMMAS
    suffix: str | None = None
    """Of the objects that are meant, where the address ends with one, as `s3://bucket/path/*.csv.gz`."""
    may_be_csv: bool = True

    terms = Terms(options=frozenset({"quoted_newlines", "csv"}))

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> ObjectStoreSource:
        place, star, suffix = source.uri.rpartition("/*")
        named = bool(star) and source.names_csv
        uri = place if named else source.uri
        may_be_csv = spec is None or spec.privacy.relation is not Relation.REPLACE_ONE or not spec.every_row_counts
        return cls(uri, source.quoted_newlines, source.csv, suffix.lower() if named else None, may_be_csv)

    @classmethod
    def identity(cls, address: Address, base: Path) -> str:
        at = f" at {fingerprint(endpoint())}" if address.scheme == "s3" and endpoint() else ""
        return f"object store {address.text.rstrip('/')}{at}"

    def snapshot_id(self) -> str:
        return state_of((stored.path, stored.version) for stored, *_ in self._footers)

    def schema(self) -> pa.Schema:
        first = self._footers[0]
        for other in self._footers[1:]:
            if not other[1].equals(first[1]):
                raise SourceError(
                    f"{other[0].path} has other columns or types than {first[0].path}",
                    "make every object below the path hold the same columns",
                )
        return with_names(first[1], shared([self._constants(stored, schema) for stored, schema, _ in self._footers]))

    def declared_types(self) -> dict[str, str]:
        """Types that published columns may keep, by the first object, which all others agree with: a plan opens no
        other."""
        if "_footers" in self.__dict__:
            return type_names(self._footers[0][1])
        store, wanted = self._listed()
        return type_names(self._footer(store, wanted[0])[1])

    def parts(self) -> Sequence[StoredParquet | StoredCsv]:
        self.schema()
        found: list[StoredParquet | StoredCsv] = []
        for stored, schema, group_rows in self._footers:
            if group_rows is None:
                found.append(StoredCsv(stored, self.quoted_newlines, self.dialect))
                continue
            constants = self._constants(stored, schema)
            run: list[int] = []
            rows = 0
            for group, more in enumerate(group_rows):
                if run and rows + more > MOST_ROWS:
                    found.append(StoredParquet(stored, tuple(run), rows, constants))
                    run, rows = [], 0
                run.append(group)
                rows += more
            if run:
                found.append(StoredParquet(stored, tuple(run), rows, constants))
        return found

    def _constants(self, stored: StoredObject, schema: pa.Schema) -> Constants:
        if _is_csv(stored.path):
            return ()
        root = f"/{Address.of(self.uri).place.strip('/')}"
        return constants_of(f"/{stored.path.strip('/')}".removeprefix(root).strip("/").split("/")[:-1], schema)

    def row_estimate(self) -> int | None:
        known = [group_rows for *_, group_rows in self._footers]
        return None if any(rows is None for rows in known) else sum(sum(rows) for rows in known if rows is not None)

    @cached_property
    def _footers(self) -> list[tuple[StoredObject, pa.Schema, list[int] | None]]:
        """Each object, its schema, and the rows of its row groups (None for CSV)."""
        store, wanted = self._listed()
        with ThreadPoolExecutor(FOOTERS_AT_ONCE) as pool:
            return list(pool.map(partial(self._footer, store), wanted))

    def _listed(self) -> tuple[Any, list[str]]:
        """The store, and the objects of the table in order of name."""
        store, root = open_store(self.uri, _KEY)
        with storing(root, SourceError, "reading"):
            listed = store.find(root)
        wanted = [path for path in sorted(listed) if _is_data(path, root) and self._is_meant(path)]
        if not wanted:
            raise SourceError(f"{root} holds no .parquet or .csv object", "check source.uri")
        if len({_is_csv(path) for path in wanted}) > 1:
            raise SpecError(f"{root} holds both Parquet and CSV objects", "name a path that holds one kind")
        if not self.may_be_csv and _is_csv(wanted[0]):
            raise SpecError(
                f"{root} holds CSV objects; under replace_one the spec itself has to say that they are CSV",
                "write source.uri as s3://bucket/path/*.csv (or *.csv.gz, *.csv.zst); nothing was read or charged",
            )
        return store, wanted

    def _is_meant(self, path: str) -> bool:
        return self.suffix is None or path.lower().endswith(self.suffix)

    def _footer(self, store: Any, path: str) -> tuple[StoredObject, pa.Schema, list[int] | None]:
        with Bare(), _reading(path):
            stored = StoredObject(self.uri, path, version_of(store.info(path)))  # listings may say it otherwise
            with stored.open() as stream:
                footer = self._csv_footer(stream, path) if _is_csv(path) else _parquet_footer(stream, path)
        return stored, *footer

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_footers"}

    def _csv_footer(self, stream: Any, path: str) -> tuple[pa.Schema, None]:
        with unpacked(pa.PythonFile(stream, mode="r"), path) as native:
            header, _ = csv_header(in_utf8(native, self.dialect.encoding), path, self.quoted_newlines, self.dialect)
        return pa.schema([(name, pa.string()) for name in header]), None


def version_of(info: dict[str, Any]) -> str:
    known = [info.get(name) for name in ("ETag", "etag", "md5Hash", "generation", "LastModified", "created", "size")]
    return "|".join(str(value) for value in known if value is not None)


def _parquet_footer(stream: Any, path: str) -> tuple[pa.Schema, list[int]]:
    with understood(path):
        schema, group_rows = read_footer(stream)
    return schema.remove_metadata(), group_rows


def _is_csv(path: str) -> bool:
    return path.lower().endswith(CSV_SUFFIXES)


def _is_data(path: str, root: str) -> bool:
    inside = path[len(root) :].strip("/").split("/")
    hidden = any(part.startswith((".", "_")) for part in inside if part)
    return not hidden and (_is_csv(path) or path.lower().endswith((".parquet", ".pq")))


def _reading(path: str) -> Any:
    return storing(path, SourceError, "reading")
