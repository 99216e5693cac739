"""The ledger of a run: opened once, from the environment that the worker or the command line was configured with.

A command that has it open already lends it to the flow it runs in its own process. Below this, it is an argument.
Every line that the flow seals says which run, which user and which host it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

from prefect.context import FlowRunContext
from prefect.runtime import flow_run

from understudy.pipelines.privacy.ledger.ledger import Who
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.workspace import Workspace

_lent: ContextVar[Books | None] = ContextVar("books lent to the flows of this context", default=None)


def open_books() -> Books:
    books = _lent.get() or Books.open(Workspace.from_environment())
    who = Who.here(run=str(flow_run.id or ""), by=_asked_by())
    return replace(books, ledger=books.ledger.acting_for(who))


def _asked_by() -> str:
    """The Prefect user, deployment or automation that created the run, where the server knows one."""
    context = FlowRunContext.get()
    created_by = getattr(context.flow_run, "created_by", None) if context is not None else None
    return str(getattr(created_by, "display_value", None) or "")


@contextmanager
def lent(books: Books) -> Iterator[None]:
    token = _lent.set(books)
    try:
        yield
    finally:
        _lent.reset(token)
