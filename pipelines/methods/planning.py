"""A spec's plan, or the reason why there is none."""

from __future__ import annotations

from typing import Any

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain


def plan_of(spec: ReleaseSpec) -> MethodPlan[Any]:
    """What the method would measure. Numbers that no noise can be calibrated to are the spec's mistake, not a crash."""
    try:
        return method_named(spec.method.name).plan(spec, TableDomain.of(spec))
    except (ValueError, ArithmeticError, MemoryError) as error:
        reason = str(error)[:200] or type(error).__name__  # a plan knows public values only, so this may be told
    raise SpecError(
        f"the method {spec.method.name} has no plan at epsilon {spec.privacy.epsilon} and delta {spec.privacy.delta}: "
        f"{reason}",
        "use a larger epsilon or delta, tighter bounds or fewer bins",
    )
