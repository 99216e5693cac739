"""Ingest: open the private table, check that it has what the spec declares, and bound what one unit contributes.

No row is read here: the table is streamed when it is counted, projected to the declared columns, reduced to the rows of
its period where `rolling.column` says which those are, and with at most `max_rows` of them an entity. So no task result
ever holds private rows.
"""

from __future__ import annotations

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.sources.opening import Source, check_columns, open_source
from understudy.pipelines.sources.period import of_period
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.telling.discretion import discreet
from understudy.tasks.telling.retrying import worth_retrying
from understudy.tasks.telling.stages import stage


@task(
    retries=2,
    retry_delay_seconds=[1, 3],
    retry_condition_fn=worth_retrying,
    persist_result=False,
    cache_policy=NO_CACHE,
)
@stage("opening the table")
@discreet("ingest")
def ingest(spec: ReleaseSpec, base: Path) -> Source:
    source = of_period(open_source(spec.source, base, spec), spec)
    check_columns(source.schema(), spec)
    fault_point("after_ingest")
    return source
