"""The rows of a release as lakehouse tables hold them, and their hash."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import duckdb
import pyarrow as pa

from understudy.pipelines.publishing.manifest import PublishedFile
from understudy.pipelines.publishing.targets.published_tables import file_of
from understudy.pipelines.table.in_parts import Parts


def lakehouse_parts(rows: Parts) -> Parts:
    """The rows in types that Delta and Iceberg both have, part by part."""
    schema = pa.schema([pa.field(field.name, _lakehouse_type(field.type)) for field in rows.schema])

    def read(number: int) -> pa.Table:
        part = rows.read(number)
        return pa.table([part.column(field.name).cast(field.type, safe=False) for field in schema], schema=schema)

    return Parts(schema, rows.sizes, read)


def _lakehouse_type(type_: pa.DataType) -> pa.DataType:
    signed = {pa.uint8(): pa.int32(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64(), pa.uint64(): pa.decimal128(20)}
    narrow = {pa.int8(): pa.int32(), pa.int16(): pa.int32(), pa.float16(): pa.float32(), pa.date64(): pa.date32()}
    if pa.types.is_dictionary(type_):
        return _lakehouse_type(type_.value_type)
    if pa.types.is_timestamp(type_):
        return pa.timestamp("us", "UTC" if type_.tz else None)
    if pa.types.is_large_string(type_) or pa.types.is_null(type_) or pa.types.is_string_view(type_):
        return pa.string()
    return {**signed, **narrow}.get(type_, type_)


def rows_file(where: str, columns: Sequence[str], batches: Iterable[pa.RecordBatch]) -> PublishedFile:
    """Hashed as text, row by row, by DuckDB as its own tables are; types that hold the same values say the same."""
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")

        def lines() -> Iterator[bytes]:
            for batch in batches:
                connection.register("release_rows", pa.Table.from_batches([batch]).select(list(columns)))
                found = connection.execute("SELECT to_json(one)::VARCHAR FROM release_rows AS one")
                yield from (row[0].encode() for row in iter(found.fetchone, None))

        return file_of(where.rpartition("/")[2], lines())
