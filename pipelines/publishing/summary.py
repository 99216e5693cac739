"""A release in a screenful of Markdown, and its verdict as rows of a table: what its card says first, for Prefect.

From the manifest alone, and names that somebody gave are kept from meaning anything in Markdown or HTML.
"""

from __future__ import annotations

import re
from html import escape

from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.manifest import Manifest

_MEANS_SOMETHING = re.compile(r"([\\`*_{}\[\]()#+!|~$])")


def markdown_summary(manifest: Manifest, place: str, card: str) -> str:
    """`place` is what `understudy ask` and `verify` take; `card` says where the whole card lies."""
    guarantee, account = manifest.guarantee, manifest.account
    facts = (
        ("rows", f"{manifest.rows:,}"),
        ("columns", f"{len(manifest.columns):,}" if not manifest.tables else f"of {len(manifest.tables)} tables"),
        ("method", manifest.method),
        ("epsilon", f"{at_most(guarantee.epsilon, 3)} at delta {at_most(guarantee.delta, 2)}"),
        ("protected", guarantee.unit),
        ("account", f"{account.name}, which has spent {at_most(account.spent_epsilon)} of {account.cap_epsilon}"),
        ("release", manifest.release_id),
    )
    return "\n".join(
        (
            f"# {plain(manifest.name)}, snapshot {plain(manifest.snapshot)}",
            "",
            plain(guarantee.sentence),
            "",
            *_verdict(manifest),
            "| | |\n|---|---|",
            *(f"| {what} | {plain(said)} |" for what, said in facts),
            "",
            f"The card: {plain(card)}. A copy of it to open:",
            "",
            *(f"    {command}" for command in commands(place)),
            "",
        )
    )


def commands(place: str) -> tuple[str, ...]:
    """What a reader can do with the release from any machine that reaches it."""
    quoted = f"'{place}'" if re.search(r"[^\w@%+=:,./-]", place) else place
    return (f"understudy card {quoted}", f"understudy verify {quoted}", f"understudy ask {quoted} count")


def verdict_rows(manifest: Manifest) -> list[dict[str, str]]:
    """Columns, then pairs, the worst first; none where no verdict was given."""
    if manifest.verdict is None:
        return []
    graded = (*manifest.verdict.columns, *manifest.verdict.worst_pairs)
    return [
        {"column or pair": each.table, "verdict": each.grade, "typical error": f"{each.off:.1%}"} for each in graded
    ]


def plain(text: str) -> str:
    """As it is written, whatever it would mean in Markdown or HTML."""
    return _MEANS_SOMETHING.sub(r"\\\1", escape(" ".join(text.split()), quote=False))


def _verdict(manifest: Manifest) -> tuple[str, ...]:
    if manifest.verdict is None:
        return ()
    return (f"## Verdict: {plain(manifest.verdict.grade)}", "", plain(manifest.verdict.sentence), "")
