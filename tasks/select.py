"""Select: decide what will be measured and how noisy, from the spec and from what was discovered of its columns."""

from __future__ import annotations

from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.releasing.domains import Known
from understudy.pipelines.releasing.planning import Planned
from understudy.tasks.telling.reporting import report_plan
from understudy.tasks.telling.retrying import unstored
from understudy.tasks.telling.stages import stage


@unstored
@stage("planning")
def select(known: Known) -> Planned:
    planned = known.planned()
    report_plan(known.spec, planned.plan)
    fault_point("after_select")
    return planned
