"""A release as a notebook shows it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.pages.fragment import fragment
from understudy.pipelines.publishing.pages.page import Html, named, paragraph, table

SHOWN_ROWS = 5


def spent_sentence(payments: Sequence[Any], reused: bool, account: str) -> str:
    """What was spent: never silence where it was nothing."""
    if payments:
        return "; ".join(f"spent {payment.sentence}" for payment in payments)
    why = "this snapshot was measured and paid for before" if reused else "nothing was charged"
    return f"spent nothing: {why}, by {account}"


def release_fragment(manifest: Manifest, tables: dict[str, Any], spent: str) -> Html:
    guarantee = manifest.guarantee
    facts = [
        (f"{manifest.rows:,}", "synthetic rows"),
        (str(len(manifest.columns)), "columns"),
        (at_most(guarantee.epsilon, 3), "epsilon, at most"),
        (at_most(guarantee.delta, 2), "delta"),
        (manifest.verdict.grade if manifest.verdict is not None else "not given", "verdict"),
    ]
    body = paragraph(guarantee.sentence) + paragraph(spent)
    for name, rows in tables.items():
        head = rows.slice(0, SHOWN_ROWS)
        cells = [[named(str(value)) for value in row.values()] for row in head.to_pylist()]
        label = f"the first of {rows.num_rows:,} synthetic rows of {name}"
        body += paragraph(label) + table([named(column) for column in head.column_names], cells, label)
    more = (
        "release.card is its whole page, release.estimate(...) answers with intervals, release.save(...) publishes it."
    )
    return fragment(f"{manifest.name}, snapshot {manifest.snapshot}", facts, Html(body + paragraph(more)))
