"""Preflight: what a release will need once it has paid is asked for before it pays."""

from __future__ import annotations

from pathlib import Path

from understudy.pipelines.privacy.ledger.memory import require_remembered
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.publishing.targets.base import open_target
from understudy.pipelines.releasing.apart import require_apart
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.keys import key_for
from understudy.pipelines.releasing.policy import Policy, scheduler_of
from understudy.pipelines.releasing.recording import require_ledger_knows
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.telling.events import announce
from understudy.tasks.telling.retrying import unstored
from understudy.tasks.telling.stages import stage


def require_ready(spec: ReleaseSpec, books: Books, base: Path) -> None:
    """The target is apart from the source and could take the release, the store the measurement, neither knows more
    than the ledger that is to pay, and somebody can count."""
    require_apart(spec, base)
    target = open_target(spec, base)
    require_remembered(books.ledger, books.store, parent_of(spec.privacy.account))
    require_ledger_knows(books.ledger, target, spec.name, spec.privacy.account)
    if spec.tables is None:
        target.ready(spec.name)
    else:
        target.ready_for(spec.name, tuple(spec.tables))
    books.store.ready()
    key = key_for(books, spec.privacy.account)
    if key.new:
        announce("key.made", spec.privacy.account, key=key.secret.public.id)
    if (scheduler := scheduler_of(spec, Policy.from_environment())) is not None:
        from understudy.tasks.engines.dask_counting import reach

        reach(scheduler)


@unstored
@stage("asking the target and the workers")
def check_ready(spec: ReleaseSpec, books: Books, base: Path) -> None:
    """As a stage of its own; whoever asks before buying something else stays in its own stage."""
    require_ready(spec, books, base)
