"""How far a stage is, in rows, told to whoever runs it and to Prefect's log, now and then.

Of synthetic rows, and of a table whose owner declares its size public (`source.rows_are_public`). Of any other private
table no number of rows, bytes or parts is told to anybody, nor a share of them, whose steps would give them away: there
the stage and how long it has taken is all (docs/guarantees.md).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import pyarrow as pa
from prefect.exceptions import MissingContextError
from prefect.logging import get_run_logger

from understudy.pipelines.sources.opening import Source
from understudy.pipelines.sources.watched import WatchedSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.synthetic import Synthetic
from understudy.pipelines.table.synthetic_tree import Made
from understudy.tasks.telling.stages import advance

SHOWN_SECONDS, LOGGED_SECONDS = 0.5, 10.0


class Advancing:
    """Told of steps by any thread; tells of them in turn, at most so often."""

    def __init__(self, doing: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._doing, self._clock, self._logger = doing, clock, _logger()
        self._lock = threading.Lock()
        self._shown = self._logged = clock()

    def at(self, told: str) -> None:
        with self._lock:
            now = self._clock()
            show, log = now - self._shown >= SHOWN_SECONDS, now - self._logged >= LOGGED_SECONDS
            self._shown, self._logged = now if show else self._shown, now if log else self._logged
        if show:
            advance(told)
        if log:
            self._logger.info(f"{self._doing}: {told}")


class AdvancingRows:
    """The same, of rows that are counted up; each pass over a table begins again at none."""

    def __init__(self, doing: str, total: int | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._advancing, self._total = Advancing(doing, clock), total
        self._rows, self._lock = 0, threading.Lock()

    def __call__(self, rows: int) -> None:
        with self._lock:
            if self._total is not None and self._rows >= self._total:
                self._rows = 0
            self._rows += rows
            rows = self._rows
        of = "" if self._total is None else f" of {self._total:,}"
        self._advancing.at(f"{rows:,}{of} rows")


def watched(source: Source, spec: ReleaseSpec, doing: str) -> Source:
    """The source, its progress told where the number of its rows is public and they are read in this process."""
    if not spec.source.rows_are_public or spec.rolling is not None or spec.compute.engine == "dask":
        return source
    return WatchedSource(source, AdvancingRows(doing, source.row_estimate()))


def watched_rows(synthetic: Made, doing: str) -> Made:
    """The table that is published, told of as its parts are read."""
    if not isinstance(synthetic, Synthetic):
        return synthetic
    parts = synthetic.parts
    told = copy(synthetic)  # with what was made of its rows before
    told.parts = replace(parts, read=_Told(parts.read, AdvancingRows(doing, parts.rows)))
    return told


class _Told:
    def __init__(self, read: Callable[[int], pa.Table], seen: Callable[[int], None]) -> None:
        self._read, self._seen = read, seen

    def __call__(self, number: int) -> pa.Table:
        part = self._read(number)
        self._seen(part.num_rows)
        return part


def _logger() -> Any:
    try:
        return get_run_logger()
    except MissingContextError:
        return logging.getLogger("understudy")
