"""Threads that take turns: on tables of a dozen rows starting them takes longer than their work, and many times as long
on a busy machine. One pair in ten is still counted by threads, which is where rows of one person may meet late."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from typing import Any

from understudy.pipelines.counting import counting
from understudy.pipelines.counting.tree import counting as tree_counting
from understudy.pipelines.discovery import tallying, tree_tallying
from understudy.pipelines.methods.gaussian import moments
from understudy.pipelines.methods.mixing import mechanism as mixtures
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.tree import rows

THREADED = (counting, bounding, moments, mixtures, rows)
COUNTED = (counting, tallying, tree_counting, tree_tallying)
"""Modules that ask how many threads to take: each of them would make the same tables once more."""
_POOL, _CORES = "ThreadPoolExecutor", "usable_cores"


class InTurn(Executor):
    """Does each piece of work when it is asked for."""

    def __init__(self, workers: int = 1) -> None:
        del workers

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(work(*arguments, **named))
        except Exception as error:
            done.set_exception(error)
        return done


@contextmanager
def in_turn(turn: bool = True) -> Iterator[None]:
    """Within, what counts private rows in threads does so one piece after another."""
    before = [(module, name, getattr(module, name)) for module, name, _ in _CHANGES]
    for module, name, changed in _CHANGES if turn else ():
        setattr(module, name, changed)
    try:
        yield
    finally:
        for module, name, found in before:
            setattr(module, name, found)


def _one() -> int:
    return 1


_CHANGES = [*((module, _POOL, InTurn) for module in THREADED), *((module, _CORES, _one) for module in COUNTED)]
