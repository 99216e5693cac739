"""The table's version, looked up where `snapshot: table` stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from prefect.runtime import flow_run

from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.versions import at_version
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.telling.retrying import retried
from understudy.tasks.telling.stages import stage


@retried
@stage("asking for the table's version")
def fix_version(spec: ReleaseSpec, books: Books, base: Path, resume: bool, goes_on_for: Sequence[str]) -> ReleaseSpec:
    """Runs that crashed are gone on for by others: what one of them was charged for is meant, not what is there now."""
    runs = {run for run in (str(flow_run.id or ""), *goes_on_for) if run}
    return at_version(spec, base, books.ledger, resume=resume, runs=runs)
