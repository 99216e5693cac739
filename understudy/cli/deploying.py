"""`understudy deploy`: a Prefect deployment for each spec, with everything it needs to run on its schedule.

For each spec: its work pool, a queue of the pool for its account that runs one release at a time, the limit on `gpu`
tasks, and a deployment with the spec as parameters. A spec is public, so nothing secret is stored on the server; the
worker has the ledger's address and the credentials in its own environment. Running the command again changes what is
there to what the specs now say.
"""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import click

from understudy.cli.environment import prepare
from understudy.cli.orchestrator import require_answer
from understudy.cli.scheduling import check_schedule
from understudy.pipelines.errors import SpecError, UnderstudyError
from understudy.pipelines.releasing.domains import assumed_spec
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.releasing.policy import pin_of
from understudy.pipelines.releasing.rolling import new_period
from understudy.pipelines.releasing.versions import means_the_table, require_versions
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.spec.lists import with_lists
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.periods import has_placeholders
from understudy.pipelines.spec.reading import parse_tree, read_spec, spec_of
from understudy.pipelines.spec.tables import with_tables

ENTRYPOINT = "understudy.flows.scheduled.scheduled_release"
FLOW = "scheduled-release"
DEFAULT_POOL = "understudy-cpu"
GPU_TAG = "gpu"
POOL_TYPES = ("process", "docker", "kubernetes")


@dataclass(frozen=True)
class Options:
    pool: str | None = None
    pool_type: str = "process"
    base: str | None = None
    image: str | None = None
    gpu_limit: int = 1
    notify: str | None = None
    paused: bool = False


@dataclass(frozen=True)
class Deployable:
    """A spec read from a file and checked, and the tree that becomes the deployment's parameters."""

    path: Path
    template: dict[str, Any]
    spec: ReleaseSpec

    @property
    def queue(self) -> str:
        return f"account-{self.spec.privacy.account}"


def run_deploy(paths: tuple[Path, ...], options: Options) -> None:
    specs = [read(path) for path in paths]
    names = [each.spec.name for each in specs]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise SpecError(f"two specs are named {', '.join(repeated)}", "a deployment has the name of its spec")
    prepare(Workspace.from_environment())
    for line in deploy(specs, options):
        click.echo(line)


def read(path: Path) -> Deployable:
    """Everything that can be wrong with a spec is found now, not when its schedule fires at night."""
    root, tree = parse_tree(read_spec(path), str(path))
    tree = with_tables(with_lists(tree, path.parent), path.parent)
    spec = spec_of(tree, dt.datetime.now(dt.UTC), root, str(path))
    plan_release(assumed_spec(spec))
    check_schedule(spec)
    if spec.rolling is not None:
        new_period(spec)
    require_versions(spec)
    named = means_the_table(spec) or has_placeholders(tree.get("source", {}).get("snapshot"))
    if spec.schedule is not None and not named:
        raise SpecError(
            f"{path}: source.snapshot is the same at every run, so only the first would release anything",
            'name the period in it: snapshot: "{{ month }}" (or day, week, quarter, year; last_month for the last), or '
            "let a Delta or Iceberg table name its version: `snapshot: table`",
        )
    return Deployable(path, json.loads(json.dumps(tree, default=_plain)), spec)


def deploy(specs: list[Deployable], options: Options) -> list[str]:
    """What was done, in lines. Needs a Prefect server that stays: PREFECT_API_URL."""
    from prefect import get_client
    from prefect.exceptions import PrefectHTTPStatusError

    _require_server()
    require_answer()
    told = []
    with get_client(sync_client=True) as client:
        try:
            for each in specs:
                told += _deploy_one(client, each, options)
            _limit_gpu(client, options.gpu_limit)
            if options.notify:
                told.append(_notify(client, options.notify))
        except PrefectHTTPStatusError as error:
            raise UnderstudyError(
                f"the Prefect server refused the deployment ({error.response.status_code})",
                "check that server and client have the same version of Prefect",
            ) from None
    pools = sorted(
        {options.pool or (each.spec.schedule.pool if each.spec.schedule else DEFAULT_POOL) for each in specs}
    )
    told += [f"start a worker: prefect worker start --pool {pool}" for pool in pools]
    return told


def _deploy_one(client: Any, each: Deployable, options: Options) -> list[str]:
    from prefect.client.schemas.actions import DeploymentScheduleCreate
    from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
    from prefect.client.schemas.schedules import CronSchedule
    from prefect.utilities.callables import parameter_schema

    from understudy.flows.scheduled import scheduled_release

    schedule = each.spec.schedule
    pool = options.pool or (schedule.pool if schedule else DEFAULT_POOL)
    _ensure_pool(client, pool, options.pool_type)
    _ensure_queue(client, pool, each.queue)
    schedules = []
    if schedule is not None:
        cron = CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
        schedules.append(DeploymentScheduleCreate(schedule=cron, active=not options.paused))
    client.create_deployment(
        flow_id=client.create_flow_from_name(FLOW),
        name=each.spec.name,
        description=f"Private synthetic copy; account {each.spec.privacy.account}, epsilon {each.spec.privacy.epsilon}",
        entrypoint=ENTRYPOINT,
        parameters={"template": each.template, "base": options.base or str(each.path.parent.absolute())},
        parameter_openapi_schema=parameter_schema(scheduled_release).model_dump_for_openapi(),
        enforce_parameter_schema=True,
        schedules=schedules,
        tags=sorted({"understudy", each.queue, *(schedule.tags if schedule else ()), *_lineage_tags(each)}),
        version=pin_of(each.template)[:16],
        work_pool_name=pool,
        work_queue_name=each.queue,
        job_variables={"image": options.image} if options.image else {},
        concurrency_limit=1,
        concurrency_options=ConcurrencyOptions(collision_strategy=ConcurrencyLimitStrategy.ENQUEUE),
    )
    when = f"{schedule.cron} {schedule.timezone}" if schedule else "no schedule"
    return [
        f"deployed {FLOW}/{each.spec.name}: {when}, pool {pool}, queue {each.queue} (one run at a time)",
        f"pinned   {each.spec.name} to spec {pin_of(each.template)}",
    ]


def _lineage_tags(each: Deployable) -> list[str]:
    from understudy.pipelines.publishing.lineage.datasets import lineage_tags

    return lineage_tags(each.spec.source.address, each.spec.publish.address)


def _ensure_pool(client: Any, name: str, kind: str) -> None:
    from prefect.client.schemas.actions import WorkPoolCreate
    from prefect.exceptions import ObjectNotFound
    from prefect.utilities.asyncutils import run_coro_as_sync
    from prefect.workers.utilities import get_default_base_job_template_for_infrastructure_type

    try:
        client.read_work_pool(name)
    except ObjectNotFound:
        template = _bundled_template(kind) or run_coro_as_sync(
            get_default_base_job_template_for_infrastructure_type(kind)
        )
        client.create_work_pool(WorkPoolCreate(name=name, type=kind, base_job_template=template or {}))


def _bundled_template(kind: str) -> dict[str, Any] | None:
    """Kubernetes jobs need a volume and a secret, which the template that ships with the package has."""
    if kind != "kubernetes":
        return None
    shipped = files("understudy.deployments").joinpath("kubernetes", "base-job-template.json")
    template: dict[str, Any] = json.loads(shipped.read_text(encoding="utf-8"))
    return template


def _ensure_queue(client: Any, pool: str, name: str) -> None:
    """A queue's limit counts runs that are pending or running: a killed run gives its place back at once."""
    from prefect.exceptions import ObjectNotFound

    try:
        queue = client.read_work_queue_by_name(name, work_pool_name=pool)
    except ObjectNotFound:
        client.create_work_queue(
            name=name, work_pool_name=pool, concurrency_limit=1, description="One release of the account at a time"
        )
        return
    if queue.concurrency_limit != 1:
        client.update_work_queue(queue.id, concurrency_limit=1)


def _limit_gpu(client: Any, limit: int) -> None:
    from prefect.exceptions import ObjectNotFound

    try:
        client.read_concurrency_limit_by_tag(GPU_TAG)
    except ObjectNotFound:
        client.create_concurrency_limit(tag=GPU_TAG, concurrency_limit=limit)


def _notify(client: Any, block: str) -> str:
    """An automation that sends a notification when a cap runs low or a charge is burnt."""
    from prefect.automations import Automation
    from prefect.events.actions import SendNotification
    from prefect.events.schemas.automations import EventTrigger, Posture
    from prefect.exceptions import ObjectNotFound

    kind, _, name = block.partition("/")
    try:
        found = client.read_block_document_by_name(name, kind)
    except ObjectNotFound:
        raise SpecError(
            f"there is no block {block!r}", "create a notification block first, such as slack-webhook/operators"
        ) from None
    title = f"understudy: tell {block}"
    wanted = Automation(
        name=title,
        description="A cap runs low, a charge was burnt, a release failed",
        trigger=EventTrigger(
            expect={"understudy.budget.low", "understudy.charge.burnt", "understudy.release.failed"},
            match={"prefect.resource.id": "understudy.account.*"},
            posture=Posture.Reactive,
            threshold=1,
        ),
        actions=[
            SendNotification(
                block_document_id=found.id,
                subject="Understudy: {{ event.event }}",
                body="Account {{ event.resource.name }}: {{ event.payload }}",
            )
        ],
    )
    if any(known.name == title for known in client.read_automations()):
        return f"automation there already: {title}"
    wanted.create()
    return f"automation made: {title}"


def _require_server() -> None:
    from prefect.settings import get_current_settings

    if get_current_settings().api.url is None:
        raise SpecError(
            "deploying needs a Prefect server that stays",
            "start one (`prefect server start`), set PREFECT_API_URL=http://127.0.0.1:4200/api, or use Prefect Cloud",
        )


def _plain(value: Any) -> str:
    if isinstance(value, dt.date):
        return value.isoformat()
    raise SpecError("a spec holds texts, numbers, lists and mappings only", "remove the YAML tag")
