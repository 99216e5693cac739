"""Publish: manifest, card and rows, atomically, and only for a committed charge."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import numpy as np
import pyarrow as pa
from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.budgeting import Approval, loss_without, settled_charges
from understudy.pipelines.domain import TableDomain
from understudy.pipelines.marginals.released import KIND, noisy_total, released_marginals
from understudy.pipelines.measurement import Measurement
from understudy.pipelines.method import Agreement, MethodPlan
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.fault_points import fault_point
from understudy.pipelines.privacy.ledger import Ledger
from understudy.pipelines.publishing.card import MeasuredColumn, render_card
from understudy.pipelines.publishing.manifest import (
    AccountState,
    Manifest,
    charged_event,
    guarantee_of,
    noise_facts,
    public_spec,
    software_versions,
)
from understudy.pipelines.publishing.retention import retire_old, retired_release
from understudy.pipelines.publishing.targets import PreparedRelease, Published, open_target, release_id
from understudy.pipelines.spec import ReleaseSpec
from understudy.pipelines.workspace import Workspace
from understudy.tasks.events import announce
from understudy.tasks.reporting import artifact_key
from understudy.tasks.retrying import worth_retrying


@task(persist_result=False, cache_policy=NO_CACHE)
def already_published(spec: ReleaseSpec, approval: Approval, base: Path) -> Published | None:
    """A release that is in its place already: running it again is free and changes nothing."""
    target, identity = open_target(spec, base), release_id(spec, approval.mids)
    return retired_release(target, spec.name, identity) or target.recover(spec.name, identity)


@task(
    retries=2,
    retry_delay_seconds=[1, 3],
    retry_condition_fn=worth_retrying,
    persist_result=False,
    cache_policy=NO_CACHE,
)
def publish(
    synthetic: pa.Table,
    measured: Measurement,
    agreements: list[Agreement],
    spec: ReleaseSpec,
    plan: MethodPlan,
    approval: Approval,
    base: Path,
) -> Published:
    prepared = prepare(synthetic, measured, agreements, spec, plan, approval)
    target = open_target(spec, base)
    published = target.publish(prepared)
    _show(published, spec)
    for gone in retire_old(target, spec.name, spec.publish.keep):
        announce("publish.retired", spec.privacy.account, release=spec.name, release_id=gone)
    fault_point("after_publish")
    return published


def _show(published: Published, spec: ReleaseSpec) -> None:
    """Where the release and its card are, as an artifact and an event."""
    key = artifact_key(spec.name, "card")
    card = Path(published.card)
    if card.is_file() or "://" in published.card:
        link = card.absolute().as_uri() if card.is_file() else published.card
        create_link_artifact(link, link_text=f"card of {spec.name}", key=key)
    else:
        create_markdown_artifact(f"# {spec.name}\n\nThe card is in {published.card}.\n", key=key)
    manifest = published.manifest
    announce(
        "publish.done",
        spec.privacy.account,
        release=spec.name,
        snapshot=manifest.snapshot,
        release_id=manifest.release_id,
        rows=manifest.rows,
        epsilon=manifest.guarantee.epsilon,
    )


def prepare(
    synthetic: pa.Table,
    measured: Measurement,
    agreements: list[Agreement],
    spec: ReleaseSpec,
    plan: MethodPlan,
    approval: Approval,
) -> PreparedRelease:
    """Manifest and card, from the ledger's own record of what was charged, not from what this run believes."""
    ledger = Ledger(Workspace.from_environment().ledger_url)
    charges = settled_charges(ledger, approval)
    balance = ledger.balance(spec.privacy.account)
    before = loss_without(ledger, spec.privacy.account, approval.mids)
    loss = composed_loss([c.event for c in charges], float(spec.privacy.delta), spec.privacy.relation)
    manifest = Manifest(
        name=spec.name,
        release_id=release_id(spec, approval.mids),
        snapshot=spec.source.snapshot,
        created_at=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        guarantee=guarantee_of(
            loss, spec, [charged_event(c.stage, c.mid, c.event, c.measurement_sha256 or "") for c in charges]
        ),
        account=AccountState(
            name=balance.account.name,
            cap_epsilon=str(balance.account.cap.epsilon),
            cap_delta=str(balance.account.cap.delta),
            spent_epsilon=balance.spent.epsilon,
            releases_charged=balance.charges,
        ),
        method=spec.method.name,
        steps=plan.steps,
        noise=noise_facts(plan),
        rows=synthetic.num_rows,
        columns=tuple(synthetic.column_names),
        spec_hash=approval.requests[0].spec_hash,
        spec=public_spec(spec),
        versions=software_versions(),
    )
    domain = TableDomain.of(spec)
    card = render_card(manifest, synthetic, domain, _measured_columns(measured, domain), agreements, before.epsilon)
    return PreparedRelease(manifest, synthetic, card)


def _measured_columns(measured: Measurement, domain: TableDomain) -> dict[str, MeasuredColumn]:
    """The noisy one-way shares, where the method bought one-way marginals."""
    if measured.kind != KIND:
        return {}
    total = noisy_total(measured)
    return {
        domain.names[clique[0]]: MeasuredColumn(np.asarray(noisy, dtype=float) / total, std / total)
        for clique, noisy, std in released_marginals(measured)
        if len(clique) == 1
    }
