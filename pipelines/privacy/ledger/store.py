"""Stored measurements: what charges bought, kept so that nothing is ever drawn twice.

Format, version 1: two files under the mid, `arrays.parquet` (one row for each array: name, type, shape, values) and
`measurement.json` (facts, the charge, SHA-256 of the Parquet file). No pickle, nothing executable.

Where they are kept is a `Shelf`: a directory, the ledger's PostgreSQL or an object store. Writing: a crash leaves
either nothing under the mid or a complete measurement, and one that is there is never overwritten. Reading: the
ledger's SHA-256 must match `measurement.json`, whose SHA-256 must match the Parquet file. A torn or altered file is
refused with an error; it is never repaired, ignored or drawn again.
"""

from __future__ import annotations

import hashlib
import json
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
from understudy.pipelines.privacy.ledger.shelves import (
    JSON_NAME,
    PARQUET_NAME,
    DirectoryShelf,
    Shelf,
    StoreAway,
    require_mid,
)
from understudy.pipelines.privacy.measurement import Measurement

FORMAT = "understudy-measurement"
VERSION = 1
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

    store: MeasurementStore
    mid: str
    sha256: str

    def read(self) -> Measurement:
        return self.store.load(self.mid, self.sha256)


class MeasurementStore:
    """Measurements in a directory, or on another shelf, by mid."""

    def __init__(self, place: Path | Shelf) -> None:
        self._shelf: Shelf = DirectoryShelf(place) if isinstance(place, Path) else place

    @property
    def where(self) -> str:
        return self._shelf.where

    @property
    def root(self) -> Path:
        """The directory, where it is one."""
        return Path(self._shelf.where)

    def path(self, mid: str) -> Path:
        return self.root / require_mid(mid)

    def ready(self) -> None:
        """Before anything is charged: the place exists, takes a durable write and has room.

        The probe is made as a measurement is, so that what Arrow loads on first use is loaded before T1, not after.
        """
        self._shelf.ready(_to_parquet({"probe": np.zeros(1)}).ljust(65536, b"\0"))

    def save(self, mid: str, measurement: Measurement, facts_about_the_charge: Mapping[str, Any]) -> str:
        """Store durably and return the SHA-256 that the ledger records."""
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
        self._shelf.put(require_mid(mid), document, parquet)
        fault_point("measurement_renamed")
        return hashlib.sha256(document).hexdigest()

    def load(self, mid: str, sha256: str) -> Measurement:
        """The measurement exactly as it was stored, or LedgerError."""
        document, arrays = self._checked(mid, sha256)
        stored = StoredMeasurement(self, mid, sha256)
        return Measurement(kind=document["kind"], facts=document["facts"], arrays=_from_parquet(arrays), stored=stored)

    def copy_to(self, other: MeasurementStore, mid: str, sha256: str) -> bool:
        """The same bytes in another store, every hash checked; False if it has them already."""
        if other.holds(mid):
            other._checked(mid, sha256)
            return False
        _, arrays = self._checked(mid, sha256)
        other._shelf.put(mid, self._shelf.read(mid, JSON_NAME), arrays)
        other._checked(mid, sha256)
        return True

    def recover(self, mid: str, facts_about_the_charge: Mapping[str, Any]) -> str | None:
        """SHA-256 of a complete measurement whose recording in the ledger was cut off, or None if there is
        none.

        It counts only if every hash matches and it names the very attempt that holds the charge.
        """
        if not self.holds(mid):
            return None
        try:
            document, sha256 = self._document(mid)
            _from_parquet(self._arrays(mid, document))
        except StoreAway:
            raise  # it may be there: a charge is not burnt because a network is down
        except LedgerError:
            return None
        expected = json.loads(canonical_json(dict(facts_about_the_charge)))
        return sha256 if document["charge"] == expected else None

    def holds(self, mid: str) -> bool:
        return self._shelf.holds(require_mid(mid))

    def mids(self) -> list[str]:
        return self._shelf.mids()

    def charge_facts(self, mid: str) -> dict[str, Any]:
        """What the stored document says about its charge; for comparisons, not to be trusted before
        `load`."""
        facts: dict[str, Any] = self._document(mid)[0]["charge"]
        return facts

    def discard(self, mid: str) -> None:
        """Remove what a burnt charge left behind, so that nobody can use it by hand."""
        self._shelf.discard(require_mid(mid))

    def _checked(self, mid: str, sha256: str) -> tuple[dict[str, Any], bytes]:
        document, found = self._document(mid)
        if found != sha256:
            raise self._damaged(mid, JSON_NAME, "it is not the file the ledger recorded")
        return document, self._arrays(mid, document)

    def _document(self, mid: str) -> tuple[dict[str, Any], str]:
        text = self._shelf.read(require_mid(mid), JSON_NAME)
        try:
            document = json.loads(text)
            whole = (document["format"], document["mid"]) == (FORMAT, mid) and set(document["files"]) == {PARQUET_NAME}
            version = document["version"]
        except (ValueError, KeyError, TypeError):
            raise self._damaged(mid, JSON_NAME, "it does not read as a measurement") from None
        if not whole:
            raise self._damaged(mid, JSON_NAME, "it belongs to something else")
        if version != VERSION:
            raise LedgerError(
                f"{self.where}/{mid}/{JSON_NAME} has format version {version}; this program reads version {VERSION}.",
                "Use the version of understudy that wrote it, or a newer one.",
            )
        return document, hashlib.sha256(text).hexdigest()

    def _arrays(self, mid: str, document: dict[str, Any]) -> bytes:
        content = self._shelf.read(mid, PARQUET_NAME)
        if hashlib.sha256(content).hexdigest() != document["files"][PARQUET_NAME]["sha256"]:
            raise self._damaged(mid, PARQUET_NAME, "its contents are not those that were stored")
        return content

    def _damaged(self, mid: str, name: str, why: str) -> LedgerError:
        return LedgerError(
            f"The stored measurement {self.where}/{mid}/{name} is damaged: {why}.",
            "Restore the file from a backup. It was paid for and is never drawn again; see docs/reliability.md.",
        )


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
