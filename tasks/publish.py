"""Publish: manifest, card and rows, atomically, and only for a committed charge."""

from __future__ import annotations

from pathlib import Path

from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.publishing.targets.base import Published, open_target, release_id
from understudy.pipelines.releasing.approving import Approval, all_measured
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.keys import signed
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.releasing.preparing import prepare_release
from understudy.pipelines.releasing.recording import publish_recorded, recorded
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.synthetic_tree import Made
from understudy.tasks.telling.advancing import watched_rows
from understudy.tasks.telling.events import announce
from understudy.tasks.telling.reporting import report_card
from understudy.tasks.telling.retrying import retried, unstored
from understudy.tasks.telling.stages import stage


@unstored
def already_published(planned: Planned, approval: Approval, books: Books, base: Path) -> Published | None:
    """A release that is in its place already: running it again is free and changes nothing."""
    spec = planned.spec
    target, identity = open_target(spec, base), release_id(spec, approval.mids)
    found = target.retired_release(spec.name, identity) or target.recover(spec.name, identity)
    if found is None or not all_measured(books.ledger, approval):
        return found
    return recorded(found, books.ledger, spec.privacy.account, approval.mids)


@retried
@stage("publishing")
def publish(
    synthetic: Made,
    measured: Measurement,
    agreements: list[Agreement],
    planned: Planned,
    approval: Approval,
    books: Books,
    base: Path,
) -> Published:
    spec = planned.spec
    synthetic = watched_rows(synthetic, "publishing")
    prepared = prepare_release(synthetic, measured, agreements, planned, approval, books.ledger)
    target = open_target(spec, base)
    published = publish_recorded(target, signed(prepared, books), books.ledger, spec.privacy.account, approval.mids)
    _show(published, spec)
    for gone in target.retire_old(spec.name, spec.publish.keep) if spec.publish.keep else ():
        announce("publish.retired", spec.privacy.account, release=spec.name, release_id=gone)
    fault_point("after_publish")
    return published


def _show(published: Published, spec: ReleaseSpec) -> None:
    """What the release is and where, as artifacts and an event."""
    manifest = published.manifest
    report_card(spec, published)
    announce(
        "publish.done",
        spec.privacy.account,
        release=spec.name,
        snapshot=manifest.snapshot,
        release_id=manifest.release_id,
        rows=manifest.rows,
        epsilon=manifest.guarantee.epsilon,
    )
