"""The release flow: ingest, normalize, select, privatize, generate, validate, publish."""

from __future__ import annotations

from pathlib import Path

from prefect import flow

from understudy.pipelines.publishing.targets.base import Published
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.approval import await_approval
from understudy.tasks.credentials import lend_credentials
from understudy.tasks.generate import device_tags, generate
from understudy.tasks.ingest import ingest
from understudy.tasks.normalize import normalize
from understudy.tasks.preflight import check_ready
from understudy.tasks.privatize import afford, privatize, recall
from understudy.tasks.publish import already_published, publish
from understudy.tasks.rolling import enter_period, look_ahead
from understudy.tasks.select import select
from understudy.tasks.telling.hooks import tell_failure
from understudy.tasks.validate import validate


@flow(
    name="release",
    flow_run_name="{spec.name} {spec.source.snapshot}",
    persist_result=False,
    validate_parameters=True,
    on_failure=[tell_failure],
)
def release(
    spec: ReleaseSpec, base: Path = Path(), resume: bool = False, pay_again: bool = False, approved: bool = False
) -> Published:
    """Publish a differentially private synthetic copy of the table that `spec` describes.

    Running it again is always safe: what was paid for is reused, what was published is left alone.
    """
    lend_credentials(spec)
    plan = select(spec)
    declared = spec
    if declared.rolling is not None:
        spec, plan = enter_period(declared, plan, base, resume, pay_again)
    approval = afford(spec, plan, base, resume, pay_again)
    if (published := already_published(spec, approval, base)) is not None:
        return published
    measured = recall(spec, plan, approval)
    if measured is None:
        check_ready(spec, base)
        table = normalize(ingest(spec, base), spec)
        measured = privatize(table, spec, plan, approval)  # the only place that draws noise and spends budget
    if declared.rolling is not None:
        look_ahead(declared, plan)
    synthetic = generate.with_options(tags=device_tags(spec))(measured, spec)  # post-processing from here on
    agreements = validate(synthetic, measured, spec)
    await_approval(spec, synthetic, agreements, approved)
    return publish(synthetic, measured, agreements, spec, plan, approval, base)
