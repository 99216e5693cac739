"""What a place has published, compared with what the ledger remembers, and told to it.

Before paying: every release that the target shows for the name carries the head of its account's history at that
moment. A ledger whose history does not have that line is older than the release, or another one: a home that was
restored from a copy looks whole in itself, and only what left it can tell.

After publishing: the ledger records the hash of the manifest. A run that dies in between leaves a release that the
next run finds and records. A release that lies where a recorded one lay, and is another, is refused.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.pipelines.errors import LedgerError, PublishError
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.ledger import Ledger
from understudy.pipelines.privacy.ledger.names import parent_of
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.part_files import KeptParts
from understudy.pipelines.publishing.targets.base import PreparedRelease, Published, Target


def require_ledger_knows(ledger: Ledger, target: Target, name: str, account: str) -> None:
    """Refuse to pay from a ledger that has forgotten a release which the target shows for this name and account."""
    unknown = [
        manifest
        for manifest in target.newest(name)
        if parent_of(manifest.account.name) == parent_of(account) and not knows(ledger, manifest)
    ]
    if not unknown:
        return
    newest = max(unknown, key=lambda manifest: manifest.created_at)
    raise LedgerError(
        f"The ledger {ledger.where} does not know the history that release {newest.release_id} of {name!r} was "
        f"published from ({len(unknown)} such release(s) of account {parent_of(account)!r} in publish.to): it is older "
        "than that release, or another ledger. What was spent since would be forgotten. Nothing was charged.",
        "Restore the newest backup of ledger and measurements, or name the ledger that paid for the release in "
        "UNDERSTUDY_LEDGER. If those releases are of other data, publish under another name or to another place.",
    )


def knows(ledger: Ledger, manifest: Manifest) -> bool:
    """Whether the history of the manifest's account has the line that was its last at publication."""
    head = manifest.account.history_head
    return not head or ledger.remembers(manifest.account.name, head)  # the first manifests did not carry one


def publish_recorded(
    target: Target, release: PreparedRelease, ledger: Ledger, account: str, mids: Sequence[str]
) -> Published:
    manifest = release.manifest
    if (found := target.recover(manifest.name, manifest.release_id)) is not None:
        return recorded(found, ledger, account, mids)
    published = target.publish(release)
    fault_point("published_unrecorded")
    ledger.record_publication(account, mids, manifest.release_id, published.manifest_sha256)
    for rows in release.tables.values():
        if isinstance(rows, KeptParts):
            rows.place.clear()
    return published


def recorded(found: Published, ledger: Ledger, account: str, mids: Sequence[str]) -> Published:
    """A release that was found in its place: the one that was recorded, or one whose run died before it could."""
    release_id = found.manifest.release_id
    known = {each.manifest_sha256 for each in ledger.publications(account) if each.release_id == release_id}
    if known and found.manifest_sha256 not in known:
        raise PublishError(
            f"{found.location} is not the release that was published there: the ledger recorded another manifest",
            "find out who changed it, move it away and release again: it is free",
        )
    ledger.record_publication(account, mids, release_id, found.manifest_sha256)
    return found
