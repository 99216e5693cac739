"""Select: decide what will be measured and how noisy, from the spec alone."""

from __future__ import annotations

from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.telling.reporting import report_plan
from understudy.tasks.telling.retrying import unstored
from understudy.tasks.telling.stages import stage


@unstored
@stage("planning")
def select(spec: ReleaseSpec) -> Planned:
    planned = plan_release(spec)
    report_plan(spec, planned.plan)
    fault_point("after_select")
    return planned
