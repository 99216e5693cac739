"""How every task of a release runs: nothing that it returns is stored or cached, since it may hold private rows, and a
failure is tried again only where that can help, not where a person must do something first."""

from __future__ import annotations

from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.errors import BudgetRefused, ChargeBurnt, NotUnderstood, OnlyNoise, SpecError


def worth_retrying(task: Any, run: Any, state: Any) -> bool:
    error = state.result(raise_on_failure=False)
    return not isinstance(error, SpecError | BudgetRefused | ChargeBurnt | NotUnderstood | OnlyNoise)


unstored = task(persist_result=False, cache_policy=NO_CACHE)
retried = task(
    retries=2,
    retry_delay_seconds=[1, 3],
    retry_condition_fn=worth_retrying,
    persist_result=False,
    cache_policy=NO_CACHE,
)
