"""What is signed about a release: a statement made from its manifest, and the findings when both are read again.

The statement's subjects are `manifest.json` and every file that the manifest lists (a table counts as a file), so a
release is its manifest's bytes and nothing else can stand for it. The predicate repeats the guarantee for whoever
reads the envelope alone. Its fields are those of predicate type 1 for ever: more fields need another type.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from understudy.pipelines.publishing.findings import Finding
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.signing import Envelope, PublicKey, SigningKey, statement_of

ENVELOPE = "manifest.dsse.json"
_MANIFEST = "manifest.json"
SHORT = 16


def attest(manifest: Manifest, text: str, key: SigningKey | None) -> str | None:
    """The envelope of a release whose manifest is stored as `text`; None if nobody signs it."""
    return None if key is None else key.sign(statement_of(_digests(manifest, text.encode()), _predicate(manifest)))


def signature_findings(
    manifest: Manifest, text: bytes, envelope: str | None, trusted: Sequence[PublicKey]
) -> list[Finding]:
    """Who signed, and whether what was signed is this release."""
    if envelope is None:
        return [Finding("signature", False, "unsigned: there is no envelope beside the manifest")]
    parsed = Envelope.parse(envelope)
    if parsed is None:
        return [Finding("signature", False, "the envelope is cut short or is no signed statement of a release")]
    signer = parsed.signed_by(trusted)
    return [
        _signature(parsed, signer, trusted),
        Finding("envelope", parsed.exact and (signer is None or parsed.key_ids == (signer.id,)), "byte for byte"),
        _statement(parsed, manifest, text),
    ]


def _signature(envelope: Envelope, signer: PublicKey | None, trusted: Sequence[PublicKey]) -> Finding:
    if signer is not None:
        return Finding("signature", True, f"by key {signer.id[:SHORT]}")
    # What the envelope says of itself: shown only if it looks like an id, since nobody has signed for it.
    said = next((one[:SHORT] for one in envelope.key_ids if one.isalnum() and one.isascii()), "no key")
    if any(key.id in envelope.key_ids for key in trusted):
        return Finding("signature", False, f"not by key {said}, whose id it carries: it was changed or forged")
    return Finding("signature", False, f"signed by {said}, which nobody vouches for here: pass --key")


def _statement(envelope: Envelope, manifest: Manifest, text: bytes) -> Finding:
    wanted = _digests(manifest, text)
    wrong = sorted(name for name in wanted.keys() | envelope.digests if wanted.get(name) != envelope.digests.get(name))
    if wrong:
        return Finding("statement", False, f"what was signed is another {', '.join(wrong[:3])}")
    same = envelope.statement == statement_of(wanted, _predicate(manifest))
    return Finding("statement", same, "what was signed is what the manifest says")


def _digests(manifest: Manifest, text: bytes) -> dict[str, str]:
    return {**{file.path: file.sha256 for file in manifest.files}, _MANIFEST: sha256(text).hexdigest()}


def _predicate(manifest: Manifest) -> dict[str, Any]:
    guarantee, account = manifest.guarantee, manifest.account
    return {
        "name": manifest.name,
        "release_id": manifest.release_id,
        "snapshot": manifest.snapshot,
        "created_at": manifest.created_at,
        "relation": guarantee.relation.value,
        "unit": guarantee.unit,
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "accountant": guarantee.accountant,
        "events": [charged.model_dump(mode="json") for charged in guarantee.events],
        "account": {
            "name": account.name,
            "cap_epsilon": account.cap_epsilon,
            "cap_delta": account.cap_delta,
            "filter": account.filter,
            "history_head": account.history_head,
        },
        "spec_hash": manifest.spec_hash,
        "versions": manifest.versions,
    }
