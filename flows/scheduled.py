"""The release of a period: a spec with `{{ month }}` in it, filled in from the time the run was scheduled for.

A deployment made by `understudy deploy` runs this flow. A run that is late, retried, or repeated keeps its scheduled
time, hence its period, hence its accounting snapshot: it finds what was paid for and pays nothing.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.runtime import flow_run

from understudy.flows.release import release
from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.targets.base import Published
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.periods import has_placeholders
from understudy.pipelines.spec.reading import MAX_SPEC_BYTES, spec_of
from understudy.tasks.policy import require_pinned
from understudy.tasks.telling.hooks import tell_failure, try_again_after_crash


def name_of_the_run() -> str:
    spec = spec_at(flow_run.parameters["template"], flow_run.parameters.get("at"))
    return f"{spec.name} {spec.source.snapshot}"


@flow(
    name="scheduled-release",
    flow_run_name=name_of_the_run,
    persist_result=False,
    validate_parameters=True,
    on_failure=[tell_failure],
    on_crashed=[try_again_after_crash],
)
def scheduled_release(
    template: dict[str, Any],
    base: Path = Path(),
    at: dt.datetime | None = None,
    goes_on_for: tuple[str, ...] = (),
) -> Published:
    """Release the period that the run was scheduled in, or the one that holds `at`; or go on for runs that crashed."""
    require_pinned(template, base)
    return release.fn(spec_at(template, at), base, goes_on_for=goes_on_for)


def spec_at(template: dict[str, Any], at: dt.datetime | str | None) -> ReleaseSpec:
    if len(json.dumps(template, default=str)) > MAX_SPEC_BYTES:
        raise SpecError(f"a spec has at most {MAX_SPEC_BYTES:,} bytes", "is this really a spec?")
    moment = dt.datetime.fromisoformat(at) if isinstance(at, str) else at
    if moment is None and has_placeholders(template):
        moment = flow_run.scheduled_start_time
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=dt.UTC)
    return spec_of(template, moment, any_snapshot=True)  # the flow judges it, by the ledger
