"""Whatever remembers more than a backup does: stored measurements, published releases, lines that were checked."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger.backup import Contents
from understudy.pipelines.privacy.ledger.checking import Checkpoints
from understudy.pipelines.privacy.ledger.database import beside
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.privacy.ledger.shelves import StoreAway
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.publishing.stored import MANIFEST
from understudy.pipelines.publishing.verifying import stored_release
from understudy.pipelines.releasing.workspace import Workspace


def newer_in_store(store: MeasurementStore, found: Contents) -> list[str]:
    newer = []
    for mid in store.mids():
        if mid in found.states:
            continue
        try:
            facts: dict[str, Any] = store.charge_facts(mid)
        except StoreAway:
            raise  # it may know more
        except LedgerError:
            continue  # damaged: whose it was cannot be told
        account = str(facts.get("account"))
        if facts.get("ledger") == found.ledger or _is_ours(account, found):
            newer.append(f"{store.where} holds {mid[:12]}: {account}, snapshot {facts.get('snapshot')}")
    return newer


def newer_releases(places: Sequence[str], found: Contents) -> list[str]:
    """Published manifests carry their account's last line and the charges that paid for them.

    A place is a directory, whose releases at any depth are read, or one release as `understudy verify` names it.
    """
    newer = []
    for place in places:
        for where, manifest in _manifests(place):
            try:
                account, head = manifest["account"]["name"], manifest["account"].get("history_head", "")
                mids = [event["mid"] for event in manifest["guarantee"]["events"]]
            except (KeyError, TypeError, AttributeError):
                continue  # some other manifest.json
            known = not head or head in found.lines.get(account, ())
            if _is_ours(account, found) and not (known and all(found.measured.get(mid) for mid in mids)):
                newer.append(f"{where} was published from a later history of {account!r}")
    return newer


def newer_checked(workspace: Workspace, found: Contents) -> dict[str, str]:
    """Accounts whose last checked line the backup lacks; what is told of each."""
    checkpoints, newer = checkpoints_of(workspace, found), {}
    for account, lines in found.lines.items():
        known = checkpoints.load(account)
        if known.seq and known.head not in lines:
            newer[account] = f"line {known.seq} of {account!r} was checked before the ledger was lost"
    return newer


def checkpoints_of(workspace: Workspace, found: Contents) -> Checkpoints:
    return Checkpoints(workspace.checked or beside(workspace.ledger_url), found.ledger)


def _is_ours(account: str, found: Contents) -> bool:
    """Also a period's account that was opened after the backup: its parent is there."""
    return parent_of(account) in found.lines


def _manifests(place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    if "://" in place:
        yield place, json.loads(stored_release(place).text)
        return
    for path in sorted(Path(place).rglob(MANIFEST)):
        try:
            yield str(path.parent), json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            continue  # some other manifest.json
