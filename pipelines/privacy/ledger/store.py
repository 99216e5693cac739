"""Stored measurements: what charges bought, kept so that nothing is ever drawn twice.

Format, version 1: a directory named by the mid with `arrays.parquet` (one row for each array: name, type,
shape, values) and `measurement.json` (facts, the charge, SHA-256 of the Parquet file). No pickle, nothing
executable.

Writing: everything goes to a staging directory, each file and directory is fsynced, then one rename. A crash
leaves either no directory under the mid or a complete one. A directory that is there is never overwritten.
Reading: the ledger's SHA-256 must match `measurement.json`, whose SHA-256 must match the Parquet file. A
torn or altered file is refused with an error; it is never repaired, ignored or drawn again.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.staging import STAGING, own_staging, remove_abandoned
from understudy.pipelines.privacy.measurement import Measurement

FORMAT = "understudy-measurement"
VERSION = 1
JSON_NAME, PARQUET_NAME = "measurement.json", "arrays.parquet"
MIN_FREE_BYTES = 16 << 20
_MID = re.compile(r"[0-9a-f]{64}")
_INTEGERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
_FLOATS = ("float32", "float64")
_SCHEMA = pa.schema(
    [
        ("name", pa.string()),
        ("dtype", pa.string()),
        ("shape", pa.list_(pa.int64())),
        ("integers", pa.large_list(pa.int64())),
        ("numbers", pa.large_list(pa.float64())),
    ]
)


@dataclass(frozen=True)
class StoredMeasurement:
    """One measurement by the hash that the ledger recorded. A value: it holds no ledger and can buy nothing."""

    root: Path
    mid: str
    sha256: str

    def read(self) -> Measurement:
        return MeasurementStore(self.root).load(self.mid, self.sha256)


class MeasurementStore:
    """Measurements under `root`, one directory for each mid."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    def path(self, mid: str) -> Path:
        if not _MID.fullmatch(mid):
            raise ValueError("a mid is 64 hexadecimal digits")
        return self.root / mid

    def ready(self) -> None:
        """Before anything is charged: the place exists, takes a durable write and has room.

        The probe is made as a measurement is, so that what Arrow loads on first use is loaded before T1, not after.
        """
        probe = self.root / f".probe-{uuid.uuid4().hex}"
        content = _to_parquet({"probe": np.zeros(1)}).ljust(65536, b"\0")
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self.root)
            _write_durably(probe, content)
            probe.unlink()
            free = shutil.disk_usage(self.root).free
        except OSError as error:
            _remove(probe)
            raise LedgerError(
                f"Measurements cannot be stored in {self.root}: {error.strerror}.",
                "Make room or name another directory, then run again. Nothing was charged.",
            ) from error
        if free < MIN_FREE_BYTES:
            raise LedgerError(
                f"Only {free >> 10} KiB are free in {self.root}, where the measurement is to be stored.",
                "Make room, then run again. Nothing was charged.",
            )

    def save(self, mid: str, measurement: Measurement, facts_about_the_charge: Mapping[str, Any]) -> str:
        """Store durably and return the SHA-256 that the ledger records."""
        final = self.path(mid)
        parquet = _to_parquet(measurement.arrays)
        document = canonical_json(
            {
                "format": FORMAT,
                "version": VERSION,
                "mid": mid,
                "kind": measurement.kind,
                "facts": dict(measurement.facts),
                "charge": dict(facts_about_the_charge),
                "files": {PARQUET_NAME: {"sha256": hashlib.sha256(parquet).hexdigest(), "bytes": len(parquet)}},
            }
        ).encode()
        self.root.mkdir(parents=True, exist_ok=True)
        with own_staging(self.root, f"{STAGING}{mid}-") as staging:
            try:
                _write_durably(staging / PARQUET_NAME, parquet)
                _write_durably(staging / JSON_NAME, document)
                _sync_directory(staging)
                fault_point("measurement_staged")
                staging.rename(final)  # fails if the mid already has a measurement
                _sync_directory(self.root)
            except BaseException:
                shutil.rmtree(staging, ignore_errors=True)
                raise
        fault_point("measurement_renamed")
        return hashlib.sha256(document).hexdigest()

    def load(self, mid: str, sha256: str) -> Measurement:
        """The measurement exactly as it was stored, or LedgerError."""
        document, found = self._document(mid)
        if found != sha256:
            raise _damaged(self.path(mid) / JSON_NAME, "it is not the file the ledger recorded")
        arrays = self._arrays(mid, document)
        stored = StoredMeasurement(self.root, mid, sha256)
        return Measurement(kind=document["kind"], facts=document["facts"], arrays=arrays, stored=stored)

    def recover(self, mid: str, facts_about_the_charge: Mapping[str, Any]) -> str | None:
        """SHA-256 of a complete measurement whose recording in the ledger was cut off, or None if there is
        none.

        It counts only if every hash matches and it names the very attempt that holds the charge.
        """
        if not self.holds(mid):
            return None
        try:
            document, sha256 = self._document(mid)
            self._arrays(mid, document)
        except LedgerError:
            return None
        expected = json.loads(canonical_json(dict(facts_about_the_charge)))
        return sha256 if document["charge"] == expected else None

    def holds(self, mid: str) -> bool:
        return self.path(mid).exists()

    def mids(self) -> list[str]:
        if not self.root.is_dir():
            return []
        return sorted(entry.name for entry in self.root.iterdir() if _MID.fullmatch(entry.name))

    def charge_facts(self, mid: str) -> dict[str, Any]:
        """What the stored document says about its charge; for comparisons, not to be trusted before
        `load`."""
        facts: dict[str, Any] = self._document(mid)[0]["charge"]
        return facts

    def discard(self, mid: str) -> None:
        """Remove what a burnt charge left behind, so that nobody can use it by hand."""
        shutil.rmtree(self.path(mid), ignore_errors=True)

    def _document(self, mid: str) -> tuple[dict[str, Any], str]:
        path = self.path(mid) / JSON_NAME
        text = _read(path)
        try:
            document = json.loads(text)
            whole = (document["format"], document["mid"]) == (FORMAT, mid) and set(document["files"]) == {PARQUET_NAME}
            version = document["version"]
        except (ValueError, KeyError, TypeError):
            raise _damaged(path, "it does not read as a measurement") from None
        if not whole:
            raise _damaged(path, "it belongs to something else")
        if version != VERSION:
            raise LedgerError(
                f"{path} has format version {version}; this program reads version {VERSION}.",
                "Use the version of understudy that wrote it, or a newer one.",
            )
        return document, hashlib.sha256(text).hexdigest()

    def _arrays(self, mid: str, document: dict[str, Any]) -> dict[str, np.ndarray]:
        path = self.path(mid) / PARQUET_NAME
        content = _read(path)
        if hashlib.sha256(content).hexdigest() != document["files"][PARQUET_NAME]["sha256"]:
            raise _damaged(path, "its contents are not those that were stored")
        return _from_parquet(content)


def _to_parquet(arrays: Mapping[str, np.ndarray]) -> bytes:
    rows: dict[str, list[Any]] = {name: [] for name in _SCHEMA.names}
    for name, value in arrays.items():
        array = np.asarray(value)
        dtype = array.dtype.name
        if dtype not in _INTEGERS + _FLOATS:
            raise TypeError(f"array {name!r} has type {dtype}, which a measurement cannot hold")
        rows["name"].append(name)
        rows["dtype"].append(dtype)
        rows["shape"].append(list(array.shape))
        rows["integers"].append(array.ravel().astype(np.int64) if dtype in _INTEGERS else None)
        rows["numbers"].append(array.ravel().astype(np.float64) if dtype in _FLOATS else None)
    sink = BytesIO()
    pq.write_table(pa.table(rows, schema=_SCHEMA), sink, compression="zstd", use_dictionary=False)
    return sink.getvalue()


def _from_parquet(content: bytes) -> dict[str, np.ndarray]:
    table = pq.ParquetFile(BytesIO(content)).read(use_threads=False)
    arrays = {}
    for index in range(table.num_rows):
        name, dtype, shape = (table[column][index].as_py() for column in ("name", "dtype", "shape"))
        values = table["integers" if dtype in _INTEGERS else "numbers"][index].values
        flat = values.to_numpy(zero_copy_only=False).astype(dtype)
        flat.flags.writeable = False
        arrays[name] = flat.reshape(shape)
    return arrays


def _write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise LedgerError(
            f"The stored measurement {path} cannot be read: {error.strerror}.",
            "Restore the file from a backup. It was paid for and is never drawn again; see docs/reliability.md.",
        ) from error


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # the error that matters is already being raised


def _damaged(path: Path, why: str) -> LedgerError:
    return LedgerError(
        f"The stored measurement {path} is damaged: {why}.",
        "Restore the file from a backup. It was paid for and is never drawn again; see docs/reliability.md.",
    )
