"""Errors of code that touches private rows may quote them; this keeps such text from travelling any further.

A message can travel in more than the error itself: in its cause and context, in its notes, in the traceback, whose
frames hold the rows as local variables (debuggers and error trackers print those), and in an error of ours that was
raised while another was handled. So what leaves a guarded function is an error of ours with none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from understudy.pipelines.errors import UnderstudyError

P = ParamSpec("P")
R = TypeVar("R")


def discreet(stage: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Let our own errors pass, bare; replace any other by one that names its type and stage and nothing else."""

    def wrap(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
            try:
                return function(*args, **kwargs)
            except UnderstudyError as error:
                told = _bare(error)
            except (KeyboardInterrupt, SystemExit, GeneratorExit) as error:
                _bare(error)
                raise
            except BaseException as error:  # a panic of an extension in Rust is no `Exception`
                told = _withheld(stage, type(error).__name__)
            # Raised outside the handler, so that no context carries the original along, and after the arguments are
            # let go of, so that no frame of the traceback holds them.
            del args, kwargs
            raise told

        return guarded

    return wrap


def _withheld(stage: str, kind: str) -> UnderstudyError:
    return UnderstudyError(
        f"{stage} failed with {kind}; its message is withheld because it may quote private values",
        "run again; if it persists, report the error's type and the stage",
    )


def _bare(error: BaseException) -> BaseException:
    """The same error without what was attached to it on its way."""
    error.__cause__ = error.__context__ = None
    error.__traceback__ = None
    if hasattr(error, "__notes__"):
        del error.__notes__
    return error
