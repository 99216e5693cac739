"""State hooks: what a run that failed or was killed tells, and that a killed one is tried again.

Prefect's own retries end with the process. A run whose process was killed becomes Crashed, and this hook, which the
worker runs, schedules it again: safe without end, because the ledger decides what may be drawn; bounded, because a run
that always dies needs a person.
"""

from __future__ import annotations

from typing import Any

from prefect import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow
from prefect.states import Scheduled

from understudy.tasks.events import announce

MOST_RUNS = 4


def tell_failure(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """The kind of failure; never its message, which a library may have filled with values."""
    announce("release.failed", _account(flow_run), run=str(flow_run.name), state=str(state.name))


def try_again_after_crash(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    announce("release.crashed", _account(flow_run), run=str(flow_run.name), runs=flow_run.run_count)
    if flow_run.deployment_id is None or flow_run.run_count >= MOST_RUNS:
        return
    with get_client(sync_client=True) as client:
        again = Scheduled(name="AwaitingRetry", message="the process died; running again is safe and free")
        client.set_flow_run_state(flow_run.id, again, force=True)


def _account(flow_run: FlowRun) -> str:
    given = flow_run.parameters.get("template") or flow_run.parameters.get("spec") or {}
    try:
        return str(given["privacy"]["account"])
    except (KeyError, TypeError):
        return "unknown"
