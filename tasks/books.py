"""The ledger of a run: opened once, from the environment that the worker or the command line was configured with.

A command that has it open already lends it to the flow it runs in its own process. Below this, it is an argument.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.workspace import Workspace

_lent: ContextVar[Books | None] = ContextVar("books lent to the flows of this context", default=None)


def open_books() -> Books:
    return _lent.get() or Books.open(Workspace.from_environment())


@contextmanager
def lent(books: Books) -> Iterator[None]:
    token = _lent.set(books)
    try:
        yield
    finally:
        _lent.reset(token)
