"""Which stage a release is in, told to whoever runs it in this process: names of stages, and nothing of the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
_listeners: list[Callable[[str], None]] = []


def listen(listener: Callable[[str], None]) -> Callable[[], None]:
    """Have `listener` called with each stage as it begins, until the returned function is called."""
    _listeners.append(listener)
    return lambda: _listeners.remove(listener)


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
