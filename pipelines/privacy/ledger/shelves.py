"""Where measurements are kept: the medium below `store`, which alone knows the format and checks the hashes.

A measurement is two files under its mid. Every medium keeps the same promises:

- `put` is atomic and durable: when it returns both files are there for every process that uses the shelf, and a crash
  before that leaves neither to be found. It never replaces what is there.
- `mids` and `holds` name only what was wholly put.
- `read` gives the bytes as they are; whether they are right is the store's question.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from pathlib import Path
from typing import Protocol

from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.staging import STAGING, flush, own_staging, remove_abandoned

JSON_NAME, PARQUET_NAME = "measurement.json", "arrays.parquet"
MIN_FREE_BYTES = 16 << 20
_MID = re.compile(r"[0-9a-f]{64}")


class Shelf(Protocol):
    """`where` names it in messages and holds no password."""

    @property
    def where(self) -> str: ...

    def ready(self, probe: bytes) -> None:
        """Before anything is charged: the place takes a durable write of such a size, or LedgerError."""

    def put(self, mid: str, document: bytes, arrays: bytes) -> None: ...

    def read(self, mid: str, name: str) -> bytes:
        """The file of that name, or LedgerError."""

    def holds(self, mid: str) -> bool: ...

    def mids(self) -> list[str]: ...

    def discard(self, mid: str) -> None: ...


class StoreAway(LedgerError):
    """The shelf cannot be asked now: nothing is known about what it holds, so nothing may be concluded from it."""


def is_mid(text: str) -> bool:
    return _MID.fullmatch(text) is not None


def require_mid(text: str) -> str:
    if not is_mid(text):
        raise ValueError("a mid is 64 hexadecimal digits")
    return text


class DirectoryShelf:
    """One directory for each mid under `root`: staged, each file and directory fsynced, then one rename."""

    def __init__(self, root: Path) -> None:
        self.root = Path(root)

    @property
    def where(self) -> str:
        return str(self.root)

    def path(self, mid: str) -> Path:
        return self.root / require_mid(mid)

    def ready(self, probe: bytes) -> None:
        place = self.root / f".probe-{uuid.uuid4().hex}"
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            remove_abandoned(self.root)
            write_durably(place, probe)
            place.unlink()
            free = shutil.disk_usage(self.root).free
        except OSError as error:
            _remove(place)
            raise LedgerError(
                f"Measurements cannot be stored in {self.root}: {error.strerror}.",
                "Make room or name another directory, then run again. Nothing was charged.",
            ) from error
        if free < MIN_FREE_BYTES:
            raise LedgerError(
                f"Only {free >> 10} KiB are free in {self.root}, where the measurement is to be stored.",
                "Make room, then run again. Nothing was charged.",
            )

    def put(self, mid: str, document: bytes, arrays: bytes) -> None:
        final = self.path(mid)
        self.root.mkdir(parents=True, exist_ok=True)
        with own_staging(self.root, f"{STAGING}{mid}-") as staging:
            try:
                write_durably(staging / PARQUET_NAME, arrays)
                write_durably(staging / JSON_NAME, document)
                flush(staging)
                fault_point("measurement_staged")
                staging.rename(final)  # fails if the mid already has a measurement
                flush(self.root)
            except BaseException:
                shutil.rmtree(staging, ignore_errors=True)
                raise

    def read(self, mid: str, name: str) -> bytes:
        path = self.path(mid) / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise unreadable(str(path), error.strerror or type(error).__name__) from error

    def holds(self, mid: str) -> bool:
        return self.path(mid).exists()

    def mids(self) -> list[str]:
        if not self.root.is_dir():
            return []
        return sorted(entry.name for entry in self.root.iterdir() if is_mid(entry.name))

    def discard(self, mid: str) -> None:
        shutil.rmtree(self.path(mid), ignore_errors=True)


def write_durably(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def unreadable(place: str, why: str) -> LedgerError:
    return LedgerError(
        f"The stored measurement {place} cannot be read: {why}.",
        "Restore the file from a backup. It was paid for and is never drawn again; see docs/reliability.md.",
    )


def already_there(where: str, mid: str) -> LedgerError:
    return LedgerError(
        f"{where} already holds another measurement under {mid[:12]}.",
        "Find out who put it there: a measurement is stored once and never replaced.",
    )


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return  # the error that matters is already being raised
