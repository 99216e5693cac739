"""Errors of code that touches private rows may quote them; this keeps such text out of logs and the orchestrator."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from understudy.pipelines.errors import UnderstudyError

P = ParamSpec("P")
R = TypeVar("R")


def discreet(stage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let our own errors pass; replace any other by one that names its type and stage and nothing else."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except UnderstudyError:
                raise
            except Exception as error:
                kind = type(error).__name__
            # Raised outside the handler, so that no traceback or __context__ carries the original text along.
            raise UnderstudyError(
                f"{stage} failed with {kind}; its message is withheld because it may quote private values",
                "run again; if it persists, report the error's type and the stage",
            )

        return guarded

    return wrap
