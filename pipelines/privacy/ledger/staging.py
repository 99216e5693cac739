"""Directories that one process fills and then renames: their lock tells the living from what a kill left behind.

The lock is the kernel's and ends with the process, however that ends, so whoever finds a directory that is filled and
not locked may remove it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

STAGING = ".staging-"


@contextmanager
def own_staging(folder: Path, prefix: str = STAGING) -> Iterator[Path]:
    """A directory of this run's own, locked until the block ends; the caller renames or removes it."""
    staging = folder / f"{prefix}{uuid.uuid4().hex}"
    staging.mkdir()
    descriptor = lock(staging)
    try:
        yield staging
    finally:
        os.close(descriptor)


def lock(staging: Path) -> int:
    """A descriptor that keeps the directory locked while it is open."""
    descriptor = os.open(staging, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def flush(path: Path) -> None:
    """Wait until the disk has what was written to a file, or the names that a directory holds."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_abandoned(folder: Path, prefix: str = STAGING) -> None:
    """What killed runs left: directories that hold something and that no living process has locked."""
    for left in folder.glob(f"{prefix}*"):
        with suppress(OSError):
            if not any(left.iterdir()):
                continue  # it may be one that was made a moment ago and is about to be locked
            descriptor = os.open(left, os.O_RDONLY | os.O_DIRECTORY)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
            finally:
                os.close(descriptor)
