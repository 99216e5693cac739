"""Measurements in an object store: workers on several hosts share them without sharing a volume.

A put of one object is atomic in these stores and nothing else is, so a measurement is one object, `<root>/<mid>.zip`,
with both files in it, uncompressed. It is made only if it is not there (If-None-Match on S3), so none is replaced.
"""

from __future__ import annotations

import io
import uuid
import zipfile
from contextlib import suppress

from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.shelves import (
    JSON_NAME,
    PARQUET_NAME,
    StoreAway,
    already_there,
    is_mid,
    require_mid,
    unreadable,
)
from understudy.pipelines.sources.files.object_paths import open_store, storing

_ENDING = ".zip"


class ObjectShelf:
    def __init__(self, uri: str) -> None:
        self.where = uri.rstrip("/")
        self._store, self._root = open_store(uri, "UNDERSTUDY_STORE")

    def ready(self, probe: bytes) -> None:
        place = f"{self._root}/.probe-{uuid.uuid4().hex}"
        with storing(self._root, StoreAway, "writing"):
            self._store.pipe_file(place, probe)
            self._store.rm_file(place)

    def put(self, mid: str, document: bytes, arrays: bytes) -> None:
        path, content = self._path(mid), _packed(document, arrays)
        fault_point("measurement_staged")
        with storing(path, StoreAway, "writing"):
            try:
                self._store.pipe_file(path, content, mode="create")
                return
            except FileExistsError:
                # Perhaps this very put, repeated by the client because the answer to the first was lost.
                same = self._store.cat_file(path) == content
        if not same:
            raise already_there(self.where, mid)

    def read(self, mid: str, name: str) -> bytes:
        path = self._path(mid)
        with storing(path, StoreAway, "reading"):
            try:
                content = bytes(self._store.cat_file(path))
            except FileNotFoundError:
                content = b""
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as packed:
                return packed.read(name)
        except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError, RuntimeError):
            problem = "it is torn or altered" if content else "it is not there"
        raise unreadable(f"{mid}/{name} in {self.where}", problem)

    def holds(self, mid: str) -> bool:
        with storing(self._path(mid), StoreAway, "reading"):
            try:
                self._store.info(self._path(mid))
            except FileNotFoundError:
                return False
        return True

    def mids(self) -> list[str]:
        with storing(self._root, StoreAway, "reading"):
            self._store.invalidate_cache()
            try:
                names = [str(path).rpartition("/")[2] for path in self._store.ls(self._root, detail=False)]
            except FileNotFoundError:
                names = []
        return sorted(name.removesuffix(_ENDING) for name in names if is_mid(name.removesuffix(_ENDING)))

    def discard(self, mid: str) -> None:
        path = self._path(mid)
        with suppress(LedgerError, FileNotFoundError), storing(path, StoreAway, "removing"):
            self._store.rm_file(path)  # what stays if this fails is of a burnt charge: no release can use it

    def _path(self, mid: str) -> str:
        return f"{self._root}/{require_mid(mid)}{_ENDING}"


def _packed(document: bytes, arrays: bytes) -> bytes:
    """The same bytes for the same files, whenever it is called."""
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as packed:
        for name, content in ((JSON_NAME, document), (PARQUET_NAME, arrays)):
            packed.writestr(zipfile.ZipInfo(name), content)
    return sink.getvalue()
