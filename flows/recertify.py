"""The recertify flow: published releases are checked again, on a schedule or on demand. It spends nothing."""

from __future__ import annotations

from dataclasses import dataclass

from prefect import flow, task
from prefect.artifacts import create_table_artifact
from prefect.cache_policies import NO_CACHE

from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.releasing.keys import vouched
from understudy.pipelines.releasing.recertifying import Certificate, recertify_release
from understudy.pipelines.releasing.stores import store_of
from understudy.pipelines.releasing.workspace import Workspace
from understudy.tasks.telling.reporting import artifact_key


@dataclass(frozen=True)
class Recertified:
    place: str
    name: str
    epsilon: float
    holds: bool


@task(persist_result=False, cache_policy=NO_CACHE, retries=2, retry_delay_seconds=2)
def check(place: str, with_ledger: bool) -> Certificate:
    workspace = Workspace.from_environment()
    if not with_ledger:
        return recertify_release(place, None, keys=vouched(workspace))
    return recertify_release(place, Ledger(workspace.ledger_url), store_of(workspace), vouched(workspace))


@flow(name="recertify", flow_run_name="recertify {places}", persist_result=False)
def recertify(places: list[str], with_ledger: bool = True) -> list[Recertified]:
    """Recompute epsilon and check every hash and charge of the releases; fail if anything does not hold."""
    results = []
    broken = []
    for place in places:
        certificate = check(place, with_ledger)
        report(place, certificate)
        manifest = certificate.manifest
        results.append(Recertified(place, manifest.name, certificate.epsilon, certificate.holds))
        broken += [f"{place}: {f.what}: {f.detail}" for f in certificate.findings if not f.holds]
    if broken:
        raise ValidationFailed(
            "does not hold: " + "; ".join(broken[:10]),
            "stop using the release, find out who changed it, and release again: it is free",
        )
    return results


def report(place: str, certificate: Certificate) -> None:
    delta = certificate.manifest.guarantee.delta
    create_table_artifact(
        [{"check": f.what, "holds": f.holds, "detail": f.detail} for f in certificate.findings],
        key=artifact_key("recertify", certificate.manifest.name),
        description=f"{place}: epsilon {at_most(certificate.epsilon, 6)} at delta {at_most(delta, 6)}",
    )
