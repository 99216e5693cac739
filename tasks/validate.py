"""Validate: Great Expectations on the synthetic table, by the one list of checks.

It never sees a private row, so its results may be shown.
"""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.checking import require_sound
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.table.synthetic_tree import Made
from understudy.tasks.engines.expectations import expectations_failed
from understudy.tasks.telling.stages import stage


@task(retries=1, retry_delay_seconds=2, retry_condition_fn=lambda task, run, state: _is_not_a_verdict(state),
      persist_result=False, cache_policy=NO_CACHE)  # fmt: skip
@stage("checking the synthetic table")
def validate(synthetic: Made, measured: Measurement, planned: Planned) -> list[Agreement]:
    agreements = require_sound(synthetic, measured, planned, verdict=expectations_failed)
    fault_point("after_validate")
    return agreements


def _is_not_a_verdict(state: Any) -> bool:
    return not isinstance(state.result(raise_on_failure=False), ValidationFailed)
