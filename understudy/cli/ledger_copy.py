"""A ledger that may be read and not written: on a read-only disk, a mounted backup, another user's file.

SQLite reads a database in WAL mode only where it may write beside it. So what cannot be written is copied, with its
log, and the copy is read; the original is not touched.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.releasing.workspace import Workspace


@contextmanager
def ledger_to_read() -> Iterator[Ledger]:
    url = Workspace.from_environment().ledger_url
    original = _unwritable(url)
    if original is None:
        yield Ledger(url)
        return
    with tempfile.TemporaryDirectory(prefix="understudy-", ignore_cleanup_errors=True) as folder:
        copy = Path(folder) / "ledger.db"
        try:
            shutil.copyfile(original, copy)
            log = original.with_name(f"{original.name}-wal")
            if log.exists():
                shutil.copyfile(log, copy.with_name(f"{copy.name}-wal"))
        except OSError as error:
            raise LedgerError(
                f"the ledger {original} cannot be read: {error.strerror}", "check its permissions, and room in TMPDIR"
            ) from None
        ledger = Ledger(f"sqlite:///{copy}")
        ledger.where = str(original)
        yield ledger


def _unwritable(url: str) -> Path | None:
    """The file of a SQLite ledger that is there and cannot be written."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        return None  # `Ledger` says what is wrong with it
    if parsed.get_backend_name() != "sqlite" or not parsed.database:
        return None
    path = Path(parsed.database)
    writable = os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    return None if writable or not path.is_file() else path
