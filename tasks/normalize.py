"""Normalize and clip: every value becomes a code of the public domain, in process or on Dask."""

from __future__ import annotations

from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.releasing.discretion import discreet
from understudy.pipelines.releasing.measuring import contribution_key, counted_here, counted_tree
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.releasing.policy import Policy, scheduler_of
from understudy.pipelines.sources.modelled import as_modelled
from understudy.pipelines.sources.opening import Source
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.tasks.telling.advancing import watched
from understudy.tasks.telling.retrying import unstored


@unstored
def normalize(source: Source | TreeSource, planned: Planned) -> PrivateTable | LocalTree:
    """The table as codes, encoded while it streams; which engine counts can change nothing but the time."""
    table: PrivateTable | LocalTree
    if isinstance(source, TreeSource):
        table = counted_tree(source, planned)
    elif planned.spec.compute.engine == "dask":
        table = counted_by_dask(source, planned)
    else:
        table = counted_here(watched(source, planned.spec, "counting"), planned)
    fault_point("after_normalize")
    return table


@discreet("normalize")
def counted_by_dask(source: Source, planned: Planned) -> PrivateTable:
    from understudy.tasks.engines.dask_rows import DaskRows

    spec = planned.spec
    unit, key = spec.privacy.protected_unit, contribution_key(spec)
    source = as_modelled(source, planned.domain)
    return DaskRows(source, planned.domain, unit, key, scheduler=scheduler_of(spec, Policy.from_environment()))
