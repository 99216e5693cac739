"""Recertification: a published release, checked from its own manifest and, where it can be reached, the ledger.

Nothing is believed: epsilon is composed anew from the events in the manifest, every file is hashed, and each charge the
manifest names must be in the ledger, measured, with that event and measurement. No row is read, nothing is spent.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from understudy.pipelines.canonical import canonical_json, sha256_file
from understudy.pipelines.errors import LedgerError, SpecError, UnderstudyError
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import from_json, to_json
from understudy.pipelines.privacy.ledger.ledger import Ledger, State
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.targets.base import table_target
from understudy.pipelines.publishing.targets.directory import MANIFEST
from understudy.pipelines.publishing.targets.retention import RETIRED
from understudy.pipelines.releasing.recording import knows
from understudy.pipelines.sources.files.object_paths import OBJECT_STORES


@dataclass(frozen=True)
class Finding:
    """One thing that was checked, and whether it holds."""

    what: str
    holds: bool
    detail: str = ""


@dataclass(frozen=True)
class Certificate:
    manifest: Manifest
    epsilon: float
    findings: tuple[Finding, ...]

    @property
    def holds(self) -> bool:
        return all(finding.holds for finding in self.findings)


def recertify_release(place: str, ledger: Ledger | None, store: MeasurementStore | None = None) -> Certificate:
    """Check the release at `place`: a directory, one in an object store, or a table (`duckdb:///file.duckdb#table`)."""
    manifest, files, sha256 = _read(place)
    epsilon, findings = _guarantee(manifest)
    findings += files
    if ledger is not None:
        findings += [*_charges(manifest, ledger, store), *_remembered(manifest, sha256, ledger)]
    return Certificate(manifest, epsilon, tuple(findings))


def _guarantee(manifest: Manifest) -> tuple[float, list[Finding]]:
    stated = manifest.guarantee
    events = [from_json(charged.event) for charged in stated.events]
    loss = composed_loss(events, stated.delta, stated.relation)
    # The stated loss was rounded up; a newer accountant may prove a smaller one, which only helps.
    same = loss.epsilon <= stated.epsilon + 1e-9
    spec = manifest.spec["privacy"]
    found = at_most(loss.epsilon, 6)
    # Sentences written before filters were rounded to the nearest digit.
    words = [at_most(stated.epsilon)] + ([] if manifest.account.filter else [f"{stated.epsilon:.4g}"])
    told = any(f"({text}, " in stated.sentence for text in words)
    within = loss.epsilon <= float(spec["epsilon"]) + 1e-9
    return loss.epsilon, [
        Finding("epsilon", same, f"{found} by {loss.accountant}, the manifest says {at_most(stated.epsilon, 6)}"),
        Finding("budget of the spec", within, f"{found} of {spec['epsilon']}"),
        Finding("sentence", told, "the words say what the numbers say"),
    ]


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
            and (charge.release, charge.snapshot, charge.spec_hash)
            == (manifest.name, manifest.snapshot, manifest.spec_hash)
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


def _read(place: str) -> tuple[Manifest, list[Finding], str]:
    """The manifest, what was checked of its files, and the hash of the manifest as it lies there."""
    if place.split("://", 1)[0] in OBJECT_STORES and "://" in place:
        return _read_store(place)
    if place.startswith(("duckdb:///", "postgresql")) and "#" in place:
        return _read_table(place)
    folder = Path(place)
    if folder.name == MANIFEST:
        folder = folder.parent
    try:
        content = (folder / MANIFEST).read_bytes()
        manifest = Manifest.model_validate(json.loads(content))
    except (OSError, ValueError, ValidationError):
        raise SpecError(f"{place} is no release", "name the directory that holds its manifest.json") from None
    retired = (folder / RETIRED).exists()
    files = [_file(manifest, folder / file.path, file, retired) for file in manifest.files]
    return manifest, files, hashlib.sha256(content).hexdigest()


def _file(manifest: Manifest, path: Path, file: Any, retired: bool) -> Finding:
    if retired and file.path.startswith("data/"):
        return Finding(file.path, not path.exists(), "retired")
    if not path.resolve().is_relative_to(path.parents[len(Path(file.path).parts) - 1].resolve()):
        return Finding(file.path, False, "leaves the release's directory")
    if not path.is_file():
        return Finding(file.path, False, "missing")
    return Finding(file.path, sha256_file(path) == file.sha256, f"{file.bytes:,} bytes")


def _read_store(place: str) -> tuple[Manifest, list[Finding], str]:
    from understudy.pipelines.publishing.targets.object_store import ObjectStoreTarget

    root, name, release_id = place.rstrip("/").rsplit("/", 2)
    target = ObjectStoreTarget(root)
    if (retired := target.retired_release(name, release_id)) is not None:
        return retired.manifest, [Finding("files", True, "retired")], retired.manifest_sha256
    try:
        published = target.recover(name, release_id)
    except UnderstudyError as error:
        wanted = [m for m in target.releases(name) if m.release_id == release_id]
        if not wanted:
            raise
        return wanted[0], [Finding("files", False, error.problem)], ""
    if published is None:
        raise SpecError(f"{place} is no release", "name the path that holds its manifest.json")
    files = published.manifest.files
    found = [Finding(file.path, True, f"{file.bytes:,} bytes") for file in files]
    return published.manifest, found, published.manifest_sha256


def _read_table(place: str) -> tuple[Manifest, list[Finding], str]:
    address, _, table = place.rpartition("#")
    held = table_target(address, table, Path(), "the release").held()
    if held is None:
        raise SpecError(f"{place} is no release", "name a table that Understudy published, after the #")
    [file] = held.manifest.files or (None,)
    told = f"{file.bytes:,} bytes of rows" if file and held.intact else "missing, or changed after publication"
    return held.manifest, [Finding(f"table {table}", held.intact, told)], held.manifest_sha256
