"""A file is what it was when the source was first looked at, or reading it fails.

A pin is the file's inode, size and times (and device, on the machine that took it: shared file systems have another
number elsewhere). It is compared before and after every read, in every process. A change of the content moves one of
them unless it falls into the same tick of the clock as the last change before the pin and keeps the size; so a file
that has just been written is pinned a tick later. Who turns the clock back or writes past the file system is not
noticed; bounding.py holds even then.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import SourceError

TICK_SECONDS = 0.02
"""More than a tick of the clock that file systems take their times from (10 ms at most)."""


@dataclass(frozen=True)
class FilePin:
    path: Path
    host: str
    device: int
    state: tuple[int, int, int, int]

    @classmethod
    def of(cls, path: Path) -> FilePin:
        """The file as it is now."""
        found = _looked_up(path)
        if abs(time.time() - max(found.st_mtime, found.st_ctime)) < TICK_SECONDS:
            time.sleep(TICK_SECONDS)
            found = _looked_up(path)
        return cls(path, socket.gethostname(), found.st_dev, _state(found))

    def check(self) -> None:
        try:
            found = self.path.stat()
            same = _state(found) == self.state
            if same and self.host == socket.gethostname():
                same = found.st_dev == self.device
        except OSError:
            same = False
        if not same:
            raise changed(str(self.path))

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Whatever is read within comes from the file that was pinned; a failure to read it may be a change as well."""
        self.check()
        failure: Exception | None = None
        try:
            yield
        except Exception as error:
            failure = error
        self.check()
        if failure is not None:
            raise failure


def state_of(pinned: Iterable[object]) -> str:
    """One name for the state of all that was pinned: a pin of each file, or whatever else tells two states apart."""
    return hash_of([ascii(pin) for pin in pinned])


def changed(what: str) -> SourceError:
    return SourceError(f"{what} changed while it was read; nothing was spent", "run again when nothing writes to it")


def _state(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _looked_up(path: Path) -> os.stat_result:
    try:
        return path.stat()
    except OSError as error:
        problem = f"cannot read {path}: {error.strerror}"
    raise SourceError(problem, "check source.uri; relative paths start at the spec")
