"""The card: one self-contained page that says what a release is, how good it is and what it promises.

Everything on it is public: the manifest, the synthetic rows, and noisy measurements that were paid for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.publishing.card.columns import columns_section
from understudy.pipelines.publishing.card.first_screen import first_screen, quality_sections, verdict_section
from understudy.pipelines.publishing.card.pairs import MOST_COLUMNS, Pair, pairs_of, pairs_section
from understudy.pipelines.publishing.card.parts import CardParts, CardTable, Detail, MeasuredColumn
from understudy.pipelines.publishing.card.pictures import pictures_sections
from understudy.pipelines.publishing.card.privacy import checks_section, privacy_sections, provenance_section
from understudy.pipelines.publishing.card.tables import rows_section, schema_section, tree_section
from understudy.pipelines.publishing.card.using import using_section
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.pages.page import Html, code, page
from understudy.pipelines.table.synthetic import Synthetic

MOST_BYTES = 2_000_000
DETAILS = (
    Detail(numbers=6000, pairs=1000, wide=MOST_COLUMNS),
    Detail(numbers=1500, pairs=100, wide=MOST_COLUMNS, thumbnail=32),
    Detail(numbers=0, pairs=30, wide=24, thumbnail=16),
)
"""From the fullest card to the smallest; the first that is small enough is taken."""


def render_card(
    manifest: Manifest,
    synthetic: Synthetic,
    measured: dict[str, MeasuredColumn],
    agreements: Sequence[Agreement],
    spent_before: float,
) -> str:
    return render_tables({"": synthetic}, {"": measured}, manifest, agreements, spent_before)


def render_tables(
    tables: Mapping[str, Synthetic],
    measured: Mapping[str, dict[str, MeasuredColumn]],
    manifest: Manifest,
    agreements: Sequence[Agreement],
    spent_before: float,
    shows: Mapping[str, bool | None] | None = None,
) -> str:
    """Of several tables, each under its name; one that is alone has none. `shows` says of pairs, as the manifest calls
    them, whether their dependence stands out of its noise."""
    told = manifest.verdict.worst_pairs if manifest.verdict is not None else ()
    parts = CardParts(
        manifest,
        tuple(CardTable(name, synthetic, measured[name]) for name, synthetic in tables.items()),
        {pair.table: pair.stands_out for pair in told} if shows is None else shows,
    )
    pairs = {one.name: pairs_of(parts, one) for one in parts.tables}
    cards = (_rendered(parts, pairs, agreements, spent_before, detail) for detail in DETAILS)
    card = ""
    for card in cards:
        if len(card.encode()) <= MOST_BYTES:
            break
    return card


def _rendered(
    parts: CardParts,
    pairs: dict[str, list[Pair]],
    agreements: Sequence[Agreement],
    spent_before: float,
    detail: Detail,
) -> str:
    manifest = parts.manifest
    sections = (
        *tree_section(manifest),
        columns_section(parts, detail),
        pairs_section(parts, pairs, detail),
        *verdict_section(manifest),
        *pictures_sections(parts, detail),
        rows_section(parts),
        using_section(parts),
        checks_section(manifest, agreements),
        *quality_sections(manifest),
        *privacy_sections(parts, spent_before),
        schema_section(parts),
        provenance_section(manifest),
    )
    subtitle = Html(
        f"synthetic copy of snapshot <bdi>{escape(manifest.snapshot)}</bdi> · release {code(manifest.release_id)} · "
        f"{escape(manifest.created_at)}"
    )
    return page(manifest.name, subtitle, (), first_screen(manifest), sections)
