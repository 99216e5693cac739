"""In a notebook, and at a Python prompt: what is said while something works, and of what was spent."""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from understudy.pipelines.methods.base import Progress

_LOGGER = logging.getLogger("understudy")


class OtherDataWarning(UserWarning):
    """A table was passed for a snapshot that is paid for, and it is not the one that was measured."""


def in_notebook() -> bool:
    """Whether a kernel runs this; IPython is not imported for the question."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def say(told: str) -> None:
    """Below the cell, or at the prompt; in a program, to the log alone."""
    _LOGGER.info(told)
    if in_notebook():
        print(told)  # noqa: T201 - a notebook shows it below the cell
    elif hasattr(sys, "ps1"):
        print(told, file=sys.stderr)  # noqa: T201


@contextmanager
def bar(doing: str, wanted: bool | None) -> Iterator[Progress]:
    """A progress bar; None: only in a notebook, where somebody waits."""
    if not (in_notebook() if wanted is None else wanted):
        yield lambda done, steps, note: None
        return
    from rich.progress import Progress as Bars

    with Bars(transient=True) as bars:
        task = bars.add_task(doing, total=None)
        yield lambda done, steps, note: bars.update(task, completed=done, total=steps)


class Measured:
    """Which objects were measured in this process. They are told apart as objects: no value of them is looked at."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, ...], tuple[weakref.ref[Any], ...]] = {}

    def remember(self, charges: tuple[str, ...], table: Any) -> None:
        try:
            self._known[charges] = tuple(weakref.ref(each) for each in _objects(table))
        except TypeError:
            self._known.pop(charges, None)  # such as a generator of batches: it cannot be recognised

    def is_another(self, charges: tuple[str, ...], table: Any) -> bool:
        """Whether something else was measured here. What another process measured is not known."""
        known, given = self._known.get(charges), _objects(table)
        if known is None:
            return False
        return len(given) != len(known) or any(old() is not new for old, new in zip(known, given, strict=True))


def _objects(table: Any) -> tuple[Any, ...]:
    return tuple(table[name] for name in sorted(table)) if isinstance(table, Mapping) else (table,)
