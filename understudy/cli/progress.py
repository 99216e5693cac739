"""What a person sees while a command works: the stage, how long it has taken and how far it is, on stderr, from the
first second.

On a terminal one line that is rewritten; otherwise a line a stage, and every ten seconds how far it is. Stages are
public, and how far one is comes in public words (`tasks/telling/advancing.py`); nothing else of the table is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from rich.progress import Progress

GENERATING = "generating"
LINE_SECONDS = 10.0


class Shown(Protocol):
    def __call__(self, doing: str) -> None:
        """This stage is the one that is running now."""
        ...

    def far(self, told: str) -> None:
        """How far it is."""
        ...


class _Lines:
    def __init__(self) -> None:
        self._started = self._told = time.monotonic()

    def __call__(self, doing: str) -> None:
        self._doing, self._told = doing, time.monotonic()
        self._say(f"{doing} ...")

    def far(self, told: str) -> None:
        if time.monotonic() - self._told >= LINE_SECONDS:
            self._told = time.monotonic()
            self._say(f"{self._doing}: {told}")

    def _say(self, text: str) -> None:
        click.echo(f"{time.monotonic() - self._started:6.1f} s  {text}", err=True)


class _OneLine:
    def __init__(self) -> None:
        self._shown: Progress | None = None

    def __call__(self, doing: str) -> None:
        self.end()
        if doing != GENERATING:  # which has a bar of its own
            self._doing, self._shown = doing, _spinner(doing)

    def far(self, told: str) -> None:
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], description=f"{self._doing}: {told}")

    def end(self) -> None:
        if self._shown is not None:
            self._shown.stop()
        self._shown = None


@contextmanager
def stages_shown() -> Iterator[Shown]:
    if not sys.stderr.isatty():
        yield _Lines()
        return
    line = _OneLine()
    try:
        yield line
    finally:
        line.end()


def _spinner(doing: str) -> Progress:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} ..."), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(doing, total=None)
    progress.start()
    return progress
