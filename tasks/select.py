"""Select: decide what will be measured and how noisy, from the spec alone."""

from __future__ import annotations

from prefect import task
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.methods.planning import plan_of
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.telling.reporting import report_plan
from understudy.tasks.telling.stages import stage


@task(persist_result=False, cache_policy=NO_CACHE)
@stage("planning")
def select(spec: ReleaseSpec) -> MethodPlan:
    plan = plan_of(spec)
    report_plan(spec, plan)
    fault_point("after_select")
    return plan
