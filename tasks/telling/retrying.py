"""Which failures deserve another try: not those that a person must fix first."""

from __future__ import annotations

from typing import Any

from understudy.pipelines.errors import BudgetRefused, ChargeBurnt, SpecError


def worth_retrying(task: Any, run: Any, state: Any) -> bool:
    error = state.result(raise_on_failure=False)
    return not isinstance(error, SpecError | BudgetRefused | ChargeBurnt)
