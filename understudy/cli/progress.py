"""What a person sees while a command works: the stage and how long it has taken, on stderr, from the first second.

On a terminal one line that is rewritten; otherwise a line a stage. Stages are public; nothing of the table is shown.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.progress import Progress

GENERATING = "generating"


@contextmanager
def stages_shown() -> Iterator[Callable[[str], None]]:
    """A function that shows the stage it is given as the one that is running now."""
    if not sys.stderr.isatty():
        started = time.monotonic()
        yield lambda doing: click.echo(f"{time.monotonic() - started:6.1f} s  {doing} ...", err=True)
        return
    shown: list[Progress] = []

    def end() -> None:
        while shown:
            shown.pop().stop()

    def show(doing: str) -> None:
        end()
        if doing != GENERATING:  # which has a bar of its own
            shown.append(_spinner(doing))

    try:
        yield show
    finally:
        end()


def _spinner(doing: str) -> Progress:
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description} ..."), TimeElapsedColumn())
    progress = Progress(*columns, console=Console(stderr=True), transient=True)
    progress.add_task(doing, total=None)
    progress.start()
    return progress
