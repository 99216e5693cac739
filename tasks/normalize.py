"""Normalize and clip: every value becomes a code of the public domain, in process or on Dask."""

from __future__ import annotations

from hashlib import sha256

from prefect import task
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.sources.opening import Source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.tasks.telling.discretion import discreet


@task(persist_result=False, cache_policy=NO_CACHE)
@discreet("normalize")
def normalize(source: Source, spec: ReleaseSpec) -> PrivateTable:
    """The table as codes, encoded while it streams; which engine counts can change nothing but the time."""
    domain, unit, key = TableDomain.of(spec), spec.privacy.protected_unit, contribution_key(spec)
    table: PrivateTable
    if spec.compute.engine == "dask":
        from understudy.tasks.engines.dask_counting import DaskTable

        table = DaskTable(source, domain, unit, key, scheduler=spec.compute.scheduler)
    else:
        table = LocalTable(source, domain, unit, key)
    fault_point("after_normalize")
    return table


def contribution_key(spec: ReleaseSpec) -> bytes:
    """Keys the hash that picks an entity's rows: the same rows for a snapshot however often a run is repeated."""
    return sha256(f"contribution:{spec.hash}".encode()).digest()
