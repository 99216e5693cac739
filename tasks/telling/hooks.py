"""State hooks: what a run that failed or was killed tells, and that a killed one is tried again.

Prefect's own retries end with the process. A run whose process was killed becomes Crashed, and this hook, which the
worker runs, asks for another run of the same deployment and the same period: safe without end, because the ledger
decides what may be drawn; bounded, because a run that always dies needs a person. (It is a new run because the worker
reports the crash once more after its hooks and would undo a change of the old run's state.)
"""

from __future__ import annotations

import datetime as dt
from typing import Any

from prefect import get_client
from prefect.client.schemas.objects import FlowRun, State
from prefect.flows import Flow
from prefect.states import Scheduled

from understudy.pipelines.spec.source import THE_TABLE
from understudy.tasks.telling.events import announce
from understudy.tasks.telling.lineage import tell_failed

MOST_TRIES = 3
SECONDS_BEFORE = 5
_AGAIN = "again-"


def tell_failure(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    """The kind of failure; never its message, which a library may have filled with values."""
    announce("release.failed", _account(flow_run), run=str(flow_run.name), state=str(state.name))
    error = state.data if isinstance(state.data, BaseException) else None
    tell_failed(_name(flow_run), str(flow_run.id), type(error).__name__ if error is not None else str(state.name))


def try_again_after_crash(flow: Flow[Any, Any], flow_run: FlowRun, state: State[Any]) -> None:
    tries = 1 + max((int(tag.removeprefix(_AGAIN)) for tag in flow_run.tags if tag.startswith(_AGAIN)), default=0)
    announce("release.crashed", _account(flow_run), run=str(flow_run.name), tries=tries)
    tell_failed(_name(flow_run), str(flow_run.id), "Crashed")
    if flow_run.deployment_id is None or tries > MOST_TRIES:
        return
    period = flow_run.expected_start_time
    at = flow_run.parameters.get("at") or (period.isoformat() if period else None)
    with get_client(sync_client=True) as client:
        client.create_flow_run_from_deployment(
            flow_run.deployment_id,
            parameters={**flow_run.parameters, "at": at, **_going_on(flow_run)},
            state=Scheduled(scheduled_time=dt.datetime.now(dt.UTC) + dt.timedelta(seconds=SECONDS_BEFORE * tries)),
            tags=[f"{_AGAIN}{tries}"],
            idempotency_key=f"understudy-again-{flow_run.id}",
            work_queue_name=flow_run.work_queue_name,
        )


def _going_on(flow_run: FlowRun) -> dict[str, Any]:
    """The runs that the next one goes on for, where it matters: the table may be at another version by then."""
    given = flow_run.parameters.get("template", {})
    if given.get("source", {}).get("snapshot") != THE_TABLE:
        return {}
    return {"goes_on_for": [*flow_run.parameters.get("goes_on_for", ()), str(flow_run.id)]}


def _name(flow_run: FlowRun) -> str:
    given = flow_run.parameters.get("template") or flow_run.parameters.get("spec") or {}
    try:
        return str(given["name"])
    except (KeyError, TypeError):
        return "unknown"


def _account(flow_run: FlowRun) -> str:
    given = flow_run.parameters.get("template") or flow_run.parameters.get("spec") or {}
    try:
        return str(given["privacy"]["account"])
    except (KeyError, TypeError):
        return "unknown"
