"""Preflight: what a release will need once it has paid is asked for before it pays."""

from __future__ import annotations

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.publishing.targets.base import open_target
from understudy.pipelines.releasing.apart import require_apart
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.keys import key_for
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.telling.events import announce
from understudy.tasks.telling.stages import stage


@task(persist_result=False, cache_policy=NO_CACHE)
@stage("asking the target and the workers")
def check_ready(spec: ReleaseSpec, books: Books, base: Path) -> None:
    """Target apart from source and writable, store ready for the measurement, a key to sign with, workers to count."""
    require_apart(spec, base)
    open_target(spec, base).ready(spec.name)
    books.store.ready()
    key = key_for(books, spec.privacy.account)
    if key.new:
        announce("key.made", spec.privacy.account, key=key.secret.public.id)
    if spec.compute.engine == "dask" and spec.compute.scheduler is not None:
        from understudy.tasks.engines.dask_counting import reach

        reach(spec.compute.scheduler)
