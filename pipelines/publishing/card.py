"""The card: one self-contained page that says what a release is, how good it is and what it promises.

Everything on it is public: the manifest, the synthetic rows, and noisy measurements that were paid for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.copies import counts_of
from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.card_tables import (
    agreement_table,
    events_table,
    noise_table,
    sample_table,
    schema_table,
)
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.samples import sample_grid
from understudy.pipelines.publishing.svg import bar_chart, budget_gauge, heat_map, tree_drawing
from understudy.pipelines.publishing.verdict_section import verdict_section
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import Synthetic

MOST_DEPENDENCE_COLUMNS = 24
LEGIBLE = 56
"""Pixels of the screen that a small picture is blown up to."""


@dataclass(frozen=True)
class MeasuredColumn:
    """A column's noisy one-way shares, and the standard deviation of each."""

    shares: np.ndarray
    std: float


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
) -> str:
    """Of several tables, each under its name; one that is alone has none."""

    def by_table(section: Callable[[str, Synthetic], str]) -> str:
        return "".join(_named(name) + section(name, synthetic) for name, synthetic in tables.items())

    template = files(__package__).joinpath("card_template.html").read_text(encoding="utf-8")
    fields = {
        "name": escape(manifest.name),
        "snapshot": escape(manifest.snapshot),
        "release_id": escape(manifest.release_id),
        "created_at": escape(manifest.created_at),
        "epsilon": at_most(manifest.guarantee.epsilon, 3),
        "delta": at_most(manifest.guarantee.delta, 2),
        "rows": f"{manifest.rows:,}",
        "columns": str(len(manifest.columns)),
        "method": escape(manifest.method),
        "sentence": escape(manifest.guarantee.sentence),
        "unit": escape(manifest.guarantee.unit),
        "accountant": escape(manifest.guarantee.accountant),
        "gauge": budget_gauge(spent_before, manifest.account.spent_epsilon, manifest.account.cap_epsilon),
        "filter": escape(manifest.account.filter),
        "theorem": escape(manifest.account.theorem),
        "cap_delta": escape(manifest.account.cap_delta),
        "account": escape(manifest.account.name),
        "steps": "".join(f"<li>{escape(step)}</li>" for step in manifest.steps),
        "verdict": verdict_section(manifest) + _tree(manifest),
        "quality": _quality(manifest) + _unlisted(manifest) + _left_out(manifest),
        "distributions": by_table(lambda name, one: _distributions(one, measured[name])),
        "pictures": "".join(_pictures(one.shown, one.domain) for one in tables.values()),
        "dependence": by_table(lambda name, one: _dependence(one)),
        "agreement": agreement_table(agreements),
        "noise": noise_table(manifest, _counted_names(tables)),
        "schema": by_table(lambda name, one: schema_table(manifest, one.domain, name)),
        "sample": by_table(lambda name, one: sample_table(one.shown, one.domain)),
        "events": events_table(manifest),
        "spec_hash": manifest.spec_hash,
        "versions": escape(", ".join(f"{name} {number}" for name, number in manifest.versions.items())),
    }
    for key, value in fields.items():
        template = template.replace("{{ " + key + " }}", value)
    return template


def _named(table: str) -> str:
    return f'<h3 class="table">{escape(table)}</h3>' if table else ""


def _tree(manifest: Manifest) -> str:
    """How several tables hang together; nothing for one that is alone."""
    if not manifest.tables:
        return ""
    depths: dict[str, int] = {}
    nodes = []
    for fact in manifest.tables:
        depths[fact.name] = 0 if fact.parent is None else depths[fact.parent] + 1
        below = f", up to {fact.max_rows:,} of one row of {fact.parent}" if fact.parent is not None else ""
        nodes.append((fact.name, depths[fact.name], f"{fact.rows:,} rows x {len(fact.columns)} columns{below}"))
    return (
        "<style>h3.table { grid-column: 1 / -1; margin: 14px 0 4px; color: var(--accent) }</style>"
        f"<section><h2>Tables</h2><p class='sub'>Ids are fresh, and lead from every row to a row of the table above it."
        f"</p>{tree_drawing(nodes)}</section>"
    )


def _counted_names(tables: Mapping[str, Synthetic]) -> frozenset[str]:
    """What columns are called where noise is told: those of several tables by their table."""
    return frozenset(
        f"{name}.{column}" if name else column for name, one in tables.items() for column in one.domain.names
    )


def _quality(manifest: Manifest) -> str:
    """How much of each column was understood; nothing where that was not bought."""
    if not manifest.quality:
        return ""
    rows = []
    for fact in manifest.quality:
        cells = "".join(f"<td>{_percent(share)}</td>" for share in fact.shares.values())
        alarm = ' class="alarm"' if fact.alarming else ""
        rows.append(f"<tr{alarm}><td>{escape(fact.column)}</td>{cells}<td>{fact.std:.2%}</td></tr>")
    of = "rows" if manifest.counted == "rows" else "entities, each of which counts once whatever its rows"
    heads = "".join(f"<th>{escape(cell)}</th>" for cell in manifest.quality[0].shares)
    alarming = [escape(fact.column) for fact in manifest.quality if fact.alarming]
    told = f'<p class="alarm">Much of {", ".join(alarming)} was not understood: do not rely on it.</p>' * bool(alarming)
    return (
        f"<style>.alarm, .alarm td {{ color: #b3261e; font-weight: 600 }}</style>"
        f"<section><h2>How much was understood</h2>{told}<p class='sub'>Noisy shares of {of}, bought with the "
        f"measurement.</p><table><tr><th>column</th>{heads}<th>noise (std)</th></tr>{''.join(rows)}</table></section>"
    )


def _unlisted(manifest: Manifest) -> str:
    """Discovered columns of which much is `other`: what they hold has changed, or is too rare to be shown."""
    if not manifest.unlisted:
        return ""
    lines = "".join(
        f"<li>{escape(fact.column)}: {_percent(fact.share)} (noise {fact.std:.2%}) is <code>other</code></li>"
        for fact in manifest.unlisted
    )
    return (
        f"<section><h2>Values that were not found</h2><p class='sub'>What these columns can hold was discovered, once. "
        f"Rarer and newer values are not told apart.</p><ul>{lines}</ul></section>"
    )


def _left_out(manifest: Manifest) -> str:
    if not manifest.left_out:
        return ""
    names = ", ".join(escape(name) for name in manifest.left_out)
    return (
        f"<section><h2>Columns that are missing</h2><p>{names}</p><p class='sub'>What they hold was to be discovered, "
        "and nothing of it stood above the noise: few rows share a value, or it is written in a way that has to be "
        "declared.</p></section>"
    )


def _percent(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0):.1%}"


def _distributions(synthetic: Synthetic, measured: dict[str, MeasuredColumn]) -> str:
    figures = []
    columns = synthetic.domain.columns
    counted = counts_of(synthetic, [(index,) for index in range(len(columns))])
    for column, counts in zip(columns, counted, strict=True):
        shares = counts / max(1.0, float(counts.sum()))
        known = measured.get(column.name)
        chart = bar_chart(column.code_labels(), shares, known.shares if known else None, known.std if known else 0.0)
        figures.append(f"<figure><figcaption>{escape(column.name)}</figcaption>{chart}</figure>")
    return "".join(figures)


def _pictures(synthetic: pa.Table, domain: TableDomain) -> str:
    """A section of its own for tables of pictures, nothing for others."""
    grid = sample_grid(synthetic, domain)
    if grid is None:
        return ""
    labels = "".join(f"<span>{escape(label)}</span>" for label in grid.labels)
    width = grid.width * max(1, LEGIBLE // grid.cell)
    return (
        '<section><h2>Synthetic pictures</h2><div class="samples">'
        f'<div class="labels">{labels}</div>'
        f'<img src="{grid.data_uri}" width="{width}" alt="a grid of synthetic pictures"></div></section>'
    )


def _dependence(synthetic: Synthetic) -> str:
    """Cramer's V of every pair of columns of the synthetic table; of the largest, by the rows that are shown."""
    domain = synthetic.domain
    if len(domain.columns) < 2:
        return '<p class="sub">It has fewer than two columns with values to count.</p>'
    shown = min(len(domain.columns), MOST_DEPENDENCE_COLUMNS)
    pairs = [(i, j) for i in range(shown) for j in range(i + 1, shown)]
    matrix = np.eye(shown)
    counted = {} if synthetic.seen is None else synthetic.seen.counts
    others = [pair for pair in pairs if pair not in counted]
    counted = {**counted, **dict(zip(others, count_marginals([synthetic.codes], domain.sizes, others), strict=True))}
    for (i, j), table in ((pair, counted[pair]) for pair in pairs):
        matrix[i, j] = matrix[j, i] = cramers_v(table)
    names = list(domain.names[:shown])
    return heat_map(matrix, names, names, numbers=shown <= 16)


def cramers_v(table: np.ndarray) -> float:
    """Strength of association of a contingency table, from 0 (independent) to 1."""
    counts = table[table.sum(axis=1) > 0][:, table.sum(axis=0) > 0].astype(float)
    total = counts.sum()
    smaller = min(counts.shape) - 1 if counts.size else 0
    if total == 0 or smaller < 1:
        return 0.0
    expected = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / total
    return float(np.sqrt(((counts - expected) ** 2 / expected).sum() / total / smaller))
