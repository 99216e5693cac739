"""Lakehouse tables for tests: a SQL catalogue of Iceberg in a folder, and rows that are deleted without rewriting."""

from __future__ import annotations

import base64
import json
import struct
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from understudy.pipelines.sources.lakehouse.iceberg import iceberg_catalogue

TABLE = "clinic.visits"


def catalogue_in(place: Path, monkeypatch: pytest.MonkeyPatch, name: str = "lake") -> None:
    """Configure a catalogue for PyIceberg, as a worker would by its environment."""
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__URI", f"sqlite:///{place / 'catalogue.db'}")
    monkeypatch.setenv(f"PYICEBERG_CATALOG__{name.upper()}__WAREHOUSE", f"file://{place / 'warehouse'}")
    monkeypatch.setenv("PYICEBERG_HOME", str(place))


def catalogue(name: str = "lake") -> Any:
    return iceberg_catalogue(name)


def write_iceberg(table: pa.Table, identifier: str = TABLE) -> Any:
    """The table with these rows instead of what is there, in two commits."""
    from pyiceberg.exceptions import NoSuchTableError

    lake = catalogue()
    lake.create_namespace_if_not_exists(identifier.partition(".")[0])
    try:
        known = lake.load_table(identifier)
    except NoSuchTableError:
        known = lake.create_table(identifier, table.schema)
    half = table.num_rows // 2
    if known.current_snapshot() is None:
        known.append(table.slice(0, half))
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that the table was empty
            known.overwrite(table.slice(0, half))
    known.append(table.slice(half))
    return known


def delete_in_iceberg(table: Any, data_file: str, rows: list[int], equality: bool = False) -> None:
    """Mark rows of a data file as deleted by a position delete file, as Spark and Trino do; the library used here
    rewrites data files instead. Or the same file as if it were of equality deletes."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent, ManifestWriterV2
    from pyiceberg.typedef import Record

    fields = [
        pa.field("file_path", pa.string(), metadata={"PARQUET:field_id": "2147483546"}),
        pa.field("pos", pa.int64(), metadata={"PARQUET:field_id": "2147483545"}),
    ]
    path = f"{table.location()}/data/deletes-{len(table.snapshots())}.parquet"
    local = Path(path.removeprefix("file://"))
    pq.write_table(pa.table([[data_file] * len(rows), rows], schema=pa.schema(fields)), local)
    deletes = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES if equality else DataFileContent.POSITION_DELETES,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=len(rows),
        file_size_in_bytes=local.stat().st_size,
        column_sizes={}, value_counts={}, null_value_counts={}, nan_value_counts={}, lower_bounds={}, upper_bounds={},
        split_offsets=None, equality_ids=[1] if equality else None, sort_order_id=None,
    )  # fmt: skip
    deletes.spec_id = 0
    with pytest.MonkeyPatch.context() as patched, table.transaction() as transaction:
        patched.setattr(ManifestWriterV2, "content", lambda self: ManifestContent.DELETES)
        with transaction.update_snapshot().fast_append() as producer:
            producer.append_data_file(deletes)


def append_as_if_empty(table: Any, rows: pa.Table) -> None:
    """Append rows whose manifest says that their file has none."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as producer:
        for file in _dataframe_to_data_files(table.metadata, rows, table.io, write_uuid=producer.commit_uuid):
            assert file._data[4] == rows.num_rows
            file._data[4] = 0
            producer.append_data_file(file)


def delete_in_delta(path: Path, rows: list[int]) -> None:
    """Mark rows of a Delta table's only file as deleted by an inline deletion vector (PROTOCOL.md, "Deletion Vectors"),
    as Spark does; the library used here does not write them."""
    from deltalake import DeltaTable
    from pyroaring import BitMap64

    log = path / "_delta_log"
    version = DeltaTable(path).version()
    lines = [json.loads(line) for file in sorted(log.glob("*.json")) for line in file.read_text().splitlines()]
    [add] = [line["add"] for line in lines if "add" in line]
    bitmap = struct.pack("<i", 1681511377) + BitMap64(rows).serialize()
    padded = bitmap + bytes(-len(bitmap) % 4)
    vector = {
        "storageType": "i",
        "pathOrInlineDv": _z85(padded),
        "sizeInBytes": len(bitmap),
        "cardinality": len(rows),
    }
    removed = {"path": add["path"], "dataChange": True, "deletionTimestamp": 1, "partitionValues": {}}
    commit = [
        {"commitInfo": {"operation": "DELETE", "timestamp": 1}},
        {"remove": removed},
        {"add": {**add, "deletionVector": vector, "dataChange": True}},
    ]
    (log / f"{version + 1:020}.json").write_text("\n".join(json.dumps(line) for line in commit))


def _z85(content: bytes) -> str:
    """ZeroMQ's base 85: RFC 1924's, whose alphabet is in another order."""
    ours = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    theirs = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
    return base64.b85encode(content).decode().translate(str.maketrans(theirs, ours))
