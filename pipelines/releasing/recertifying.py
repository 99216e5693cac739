"""Recertification: a published release, checked from what it carries and, where it can be reached, the ledger.

Nothing is believed: what `publishing.verifying` checks is checked, and each charge the manifest names must be in the
ledger, measured, with that event and measurement. No row is read, nothing is spent.

A release without a signature is told as unsigned and may hold: older versions signed nothing. It does not hold if the
ledger named a signing key for the account before the release's charges were made.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.discovery.asking import STAGES as DISCOVERY
from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.events import to_json
from understudy.pipelines.privacy.ledger.ledger import Ledger, State
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.publishing.attesting import signature_findings
from understudy.pipelines.publishing.findings import Certificate, Finding
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.signing import PublicKey
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.verifying import guarantee_findings, stored_release
from understudy.pipelines.releasing.recording import knows

__all__ = ["Certificate", "Finding", "recertify_release"]


def recertify_release(
    place: str, ledger: Ledger | None, store: MeasurementStore | None = None, keys: Sequence[PublicKey] = ()
) -> Certificate:
    """Check the release at `place`: a directory, one in an object store, or a table (`duckdb:///file.duckdb#table`)."""
    found = stored_release(place)
    manifest = found.manifest
    epsilon, findings = guarantee_findings(manifest)
    findings += found.findings()
    findings += _signature(found, ledger, keys)
    if ledger is not None:
        published = hashlib.sha256(found.text).hexdigest()
        findings += [*_charges(manifest, ledger, store), *_remembered(manifest, published, ledger)]
    return Certificate(manifest, epsilon, tuple(findings))


def _signature(found: StoredRelease, ledger: Ledger | None, keys: Sequence[PublicKey]) -> list[Finding]:
    account = found.manifest.account.name
    named = [] if ledger is None else ledger.keys(account)
    if found.envelope is None:
        if ledger is not None and named and _charged_after(ledger, account, found.manifest, named[0][0]):
            told = "unsigned, and its account's releases were signed when it was paid for"
            return [Finding("signature", False, told)]
        return [Finding("signature", True, "unsigned: of a version that did not sign")]
    trusted = [*keys, *(PublicKey.from_pem(pem, f"a key of account {account}") for _, pem in named)]
    return signature_findings(found.manifest, found.text, found.envelope, trusted)


def _charged_after(ledger: Ledger, account: str, manifest: Manifest, line: int) -> bool:
    mids = {charged.mid for charged in manifest.guarantee.events}
    return any(entry.seq > line and entry.mid in mids for entry in ledger.history(account))


def _charges(manifest: Manifest, ledger: Ledger, store: MeasurementStore | None) -> list[Finding]:
    found = []
    for charged in manifest.guarantee.events:
        charge = ledger.find(charged.mid)
        title = f"charge {charged.mid[:12]} ({charged.stage})"
        if charge is None:
            found.append(Finding(title, False, f"the ledger {ledger.where} does not know it"))
            continue
        same = (
            charge.state is State.MEASURED
            and charge.measurement_sha256 == charged.measurement_sha256
            and canonical_json(to_json(charge.event)) == canonical_json(charged.event)
            and (charge.release, charge.snapshot) == (manifest.name, manifest.snapshot)
            and (charge.spec_hash == manifest.spec_hash or charge.stage in DISCOVERY)
        )
        found.append(Finding(title, same, f"{charge.state.value}, same event, measurement, spec and snapshot"))
        if store is not None:
            found.append(_stored(store, charge.mid, charged.measurement_sha256))
    report = ledger.verify()
    found.append(Finding("ledger history", report.ok, "; ".join(report.problems[:3]) or f"{report.entries} entries"))
    return found


def _remembered(manifest: Manifest, sha256: str, ledger: Ledger) -> list[Finding]:
    """The history goes through the manifest's head, and the manifest is one that the ledger saw published."""
    known = knows(ledger, manifest)
    heard = "has" if known else "lacks"
    mids = {charged.mid for charged in manifest.guarantee.events}
    published = [each for each in ledger.publications(manifest.account.name) if mids & set(each.mids)]
    same = any((each.release_id, each.manifest_sha256) == (manifest.release_id, sha256) for each in published)
    told = "the manifest is the one that was recorded" if same else "the ledger recorded another manifest"
    return [
        Finding("history head", known, f"the ledger's history {heard} the line that the manifest names"),
        Finding("publication", same or not published, told if published else "made before publications were recorded"),
    ]


def _stored(store: MeasurementStore, mid: str, sha256: str) -> Finding:
    try:
        store.load(mid, sha256)
    except LedgerError as error:
        return Finding(f"measurement {mid[:12]}", False, error.problem)
    return Finding(f"measurement {mid[:12]}", True, "stored, every hash right")
