"""Which stage a release is in and how far, told to whoever runs it in this process: in public words alone."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
ORDER = (
    "asking for the table's version", "discovering what columns hold", "planning", "asking the target and the workers",
    "opening the table", "counting and measuring", "generating", "checking the synthetic table", "publishing",
)  # fmt: skip
"""The stages of a release as they follow each other; one that has nothing to do is passed over."""
_listeners: list[Callable[[str], None]] = []
_watchers: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None]) -> Callable[[], None]:
    """Have `listener` called with each stage as it begins, until the returned function is called."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


def watch(watcher: Callable[[str], None]) -> Callable[[], None]:
    """Have `watcher` called with how far the stage is, by any thread, until the returned function is called."""
    _watchers.append(watcher)
    return lambda: _watchers.remove(watcher)


def advance(told: str) -> None:
    """Say how far the stage is, in public words (`telling.advancing`)."""
    for watcher in _watchers:
        watcher(told)


def tell(doing: str) -> None:
    """Say that this begins now."""
    for listener in _listeners:
        listener(doing)


def stage(doing: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def told(*args: P.args, **kwargs: P.kwargs) -> R:
            tell(doing)
            return function(*args, **kwargs)

        return told

    return wrap
