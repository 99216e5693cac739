"""What Prefect would say of a spec's schedule, asked before anything is deployed."""

from __future__ import annotations

from understudy.cli.environment import prepare
from understudy.pipelines.errors import SpecError
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.spec.model import ReleaseSpec


def check_schedule(spec: ReleaseSpec) -> None:
    """Prefect's own reading of cron, which is the one that will run it."""
    if spec.schedule is None:
        return
    prepare(Workspace.from_environment())
    from prefect.client.schemas.schedules import CronSchedule
    from pydantic import ValidationError

    try:
        CronSchedule(cron=spec.schedule.cron, timezone=spec.schedule.timezone)
    except (ValidationError, ValueError):
        possible = False
    else:
        possible = True
    if not possible:
        raise SpecError(
            f"schedule.cron {spec.schedule.cron[:60]!r} is not a schedule",
            "give minute, hour, day, month and weekday, such as `0 6 1 * *` for six o'clock on the first of each month",
        )
