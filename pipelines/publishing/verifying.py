"""Verification: a published release, checked from what it carries and from a public key. No ledger, nothing spent.

Nothing is believed: every file is hashed, epsilon is composed anew from the events, and the signature says whether all
this is what the holder of a key released. `releasing.recertifying` adds what the ledger knows.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import from_json
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.attesting import signature_findings
from understudy.pipelines.publishing.findings import Certificate, Finding
from understudy.pipelines.publishing.manifest import Guarantee, Manifest
from understudy.pipelines.publishing.signing import PublicKey
from understudy.pipelines.publishing.stored import StoredRelease
from understudy.pipelines.publishing.targets.base import target_kind
from understudy.pipelines.spec.address import Address

_NUMBER = r"\d[\d.]*(?:e[+-]?\d+)?"
_SENTENCE = re.compile(
    rf"\((?P<epsilon>{_NUMBER}), (?P<delta>{_NUMBER})\)-differentially private.* e\^(?P<factor>{_NUMBER}), up to"
)


def verify_release(place: str, keys: Sequence[PublicKey]) -> Certificate:
    """Check the release at `place` (see `stored_release`), which must be signed by one of the keys."""
    found = stored_release(place)
    signed = signature_findings(found.manifest, found.text, found.envelope, keys)
    epsilon, guaranteed = guarantee_findings(found.manifest)
    return Certificate(found.manifest, epsilon, (*signed, *guaranteed, *found.findings()))


def stored_release(place: str) -> StoredRelease:
    """At a directory, in an object store, in a table (`duckdb:///file.duckdb#table`), or where a package publishes."""
    address = Address.of(place, key="the release")
    kind = target_kind(address)
    if kind is not None and kind.terms.table:
        text, _, table = place.rpartition("#")
        address = Address.parse(text, "the release", table) if text else address
    found = None if kind is None else kind.stored(address)
    if found is None:
        raise SpecError(
            f"{place} is no release", "name the path that holds its manifest.json, or its table after the #"
        )
    return found


def guarantee_findings(manifest: Manifest) -> tuple[float, list[Finding]]:
    stated = manifest.guarantee
    try:
        events = [from_json(charged.event) for charged in stated.events]
        loss = composed_loss(events, stated.delta, stated.relation)
        budget = float(manifest.spec["privacy"]["epsilon"])
    except (ValueError, KeyError, TypeError, ArithmeticError, RecursionError):
        return math.inf, [Finding("epsilon", False, "the events in the manifest cannot be read")]
    # The stated loss was rounded up; a newer accountant may prove a smaller one, which only helps.
    same = loss.epsilon <= stated.epsilon + 1e-9
    within = loss.epsilon <= budget + 1e-9
    found = at_most(loss.epsilon, 6)
    return loss.epsilon, [
        Finding("epsilon", same, f"{found} by {loss.accountant}, the manifest says {at_most(stated.epsilon, 6)}"),
        Finding("budget of the spec", within, f"{found} of {budget:g}"),
        Finding("sentence", _says(stated), "the words say what the numbers say"),
    ]


def _says(stated: Guarantee) -> bool:
    """The sentence tells both numbers, rounded to its digits, up or to the nearest, and the unit."""
    told = _SENTENCE.search(stated.sentence)
    if told is None or stated.unit not in stated.sentence or told["factor"] != told["epsilon"]:
        return False
    pairs = ((told["epsilon"], stated.epsilon), (told["delta"], stated.delta))
    return all(exact * (1 - 0.005) <= float(text) <= exact * (1 + 0.01) for text, exact in pairs)
