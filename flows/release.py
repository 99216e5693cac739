"""The release flow: discover, ingest, normalize, select, privatize, generate, validate, publish."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from prefect import flow

from understudy.pipelines.publishing.targets.base import Published
from understudy.pipelines.releasing.versions import means_the_table
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.approval import await_approval
from understudy.tasks.books import open_books
from understudy.tasks.credentials import lend_credentials
from understudy.tasks.discover import discover
from understudy.tasks.generate import device_tags, generate
from understudy.tasks.ingest import ingest
from understudy.tasks.normalize import normalize
from understudy.tasks.policy import obey
from understudy.tasks.preflight import check_ready
from understudy.tasks.privatize import afford, privatize, recall
from understudy.tasks.publish import already_published, publish
from understudy.tasks.rolling import enter_period, look_ahead
from understudy.tasks.select import select
from understudy.tasks.telling.hooks import tell_failure
from understudy.tasks.telling.lineage import tell_published, tell_start
from understudy.tasks.telling.reporting import stages_reported
from understudy.tasks.validate import validate
from understudy.tasks.versions import fix_version


@flow(
    name="release",
    flow_run_name="{spec.name} {spec.source.snapshot}",
    persist_result=False,
    validate_parameters=True,
    on_failure=[tell_failure],
)
def release(
    spec: ReleaseSpec,
    base: Path = Path(),
    resume: bool = False,
    pay_again: bool = False,
    goes_on_for: tuple[str, ...] = (),
    rediscover: bool = False,
) -> Published:
    """Publish a differentially private synthetic copy of the table that `spec` describes.

    Running it again is always safe: what was paid for is reused, what was published is left alone.
    """
    with stages_reported(spec.name):
        obey(spec, base)
        lend_credentials(spec)
        tell_start(spec, base)
        books = open_books()
        if means_the_table(spec):
            spec = fix_version(spec, books, base, resume, goes_on_for)
        known = discover(spec, books, base, resume, pay_again, rediscover)  # bought once, where the spec leaves it open
        plan = select(known)
        if spec.rolling is not None:
            plan = enter_period(plan, books, base, resume, pay_again)
        approval = afford(plan, books, base, resume, pay_again)
        if (published := already_published(plan, approval, books, base)) is not None:
            return tell_published(published, plan.spec, base)
        measured = recall(plan, approval, books)
        if measured is None:
            check_ready(plan.spec, books, base)
            with closing(ingest(plan.spec, base)) as source:
                table = normalize(source, plan)
                measured = privatize(table, plan, approval, books)  # the only place that draws noise and spends budget
        if spec.rolling is not None:
            look_ahead(spec, plan, books)
        synthetic = generate.with_options(tags=device_tags(spec))(  # post-processing from here on
            measured, plan, approval, books, base
        )
        agreements = validate(synthetic, measured, plan)
        await_approval(plan.spec, synthetic, agreements, approval, books)
        published = publish(synthetic, measured, agreements, plan, approval, books, base)
        return tell_published(published, plan.spec, base)
