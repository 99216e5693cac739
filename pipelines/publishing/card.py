"""The card: one self-contained page that says what a release is, how good it is and what it promises.

Everything on it is public: the manifest, the synthetic rows, and noisy measurements that were paid for.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.released import LEVEL
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.manifest import Manifest, NoiseFact
from understudy.pipelines.publishing.samples import sample_grid
from understudy.pipelines.publishing.svg import bar_chart, budget_gauge, heat_map
from understudy.pipelines.publishing.verdict_section import verdict_section
from understudy.pipelines.table.coding.encode import EncodedBatch
from understudy.pipelines.table.domain import TableDomain, TensorDomain
from understudy.pipelines.table.synthetic import Synthetic

SAMPLE_ROWS = 8
MOST_AGREEMENTS = 12
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
    table, domain, encoded = synthetic.table, synthetic.domain, synthetic.codes
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
        "verdict": verdict_section(manifest),
        "quality": _quality(manifest) + _unlisted(manifest) + _left_out(manifest),
        "distributions": _distributions(encoded.columns, domain, measured),
        "pictures": _pictures(table, domain),
        "dependence": _dependence(encoded, domain),
        "agreement": _agreement_table(agreements),
        "noise": _noise_table(manifest, domain),
        "schema": _schema_table(manifest, domain),
        "sample": _sample_table(table, domain),
        "events": _events_table(manifest),
        "spec_hash": manifest.spec_hash,
        "versions": escape(", ".join(f"{name} {number}" for name, number in manifest.versions.items())),
    }
    for key, value in fields.items():
        template = template.replace("{{ " + key + " }}", value)
    return template


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


def _distributions(codes: Sequence[np.ndarray], domain: TableDomain, measured: dict[str, MeasuredColumn]) -> str:
    figures = []
    for column, values in zip(domain.columns, codes, strict=True):
        counts = np.bincount(values, minlength=column.size).astype(float)
        shares = counts / max(1.0, counts.sum())
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


def _dependence(encoded: EncodedBatch, domain: TableDomain) -> str:
    """Cramer's V of every pair of columns of the synthetic table."""
    if len(domain.columns) < 2:
        return '<p class="sub">It has fewer than two columns with values to count.</p>'
    shown = min(len(domain.columns), MOST_DEPENDENCE_COLUMNS)
    pairs = [(i, j) for i in range(shown) for j in range(i + 1, shown)]
    matrix = np.eye(shown)
    for (i, j), table in zip(pairs, count_marginals([encoded], domain.sizes, pairs), strict=True):
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


def _agreement_table(agreements: Sequence[Agreement]) -> str:
    worst = sorted(agreements, key=lambda line: line.distance / max(line.allowed, 1e-12), reverse=True)
    rows = [
        f"<tr><td>{escape(line.query)}</td><td>{line.distance:.4f}</td><td>{line.allowed:.4f}</td></tr>"
        for line in worst[:MOST_AGREEMENTS]
    ]
    more = len(worst) - MOST_AGREEMENTS
    note = f"<p>The {MOST_AGREEMENTS} closest to their limit; {more} more are farther from it.</p>" if more > 0 else ""
    head = "<tr><th>released query</th><th>distance of the synthetic table</th><th>allowed by the noise</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>{note}"


def _noise_table(manifest: Manifest, domain: TableDomain) -> str:
    """A row for all tables of as many columns, and one for whatever else was measured."""
    groups: dict[str, list[NoiseFact]] = {}
    for fact in manifest.noise:
        columns = fact.query.split(" x ")
        counted = all(name in domain.names or name == LEVEL for name in columns)
        width = "one column" if len(columns) == 1 else f"{len(columns)} columns"
        groups.setdefault(f"tables of {width}" if counted else fact.query, []).append(fact)
    rows = []
    for what, facts in groups.items():
        low, high = min(fact.std for fact in facts), max(fact.std for fact in facts)
        noise = f"{low:,.3f}" if f"{low:,.3f}" == f"{high:,.3f}" else f"{low:,.3f} to {high:,.3f}"
        count = f"{len(facts):,} " if what.startswith("tables of ") else ""
        numbers = sum(fact.numbers for fact in facts)
        rows.append(f"<tr><td>{count}{escape(what)}</td><td>{numbers:,}</td><td>{noise}</td></tr>")
    std = "standard deviation of the noise" + (", in entities" if manifest.counted == "entities" else "")
    head = f"<tr><th>what was measured</th><th>numbers released</th><th>{std}</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _schema_table(manifest: Manifest, domain: TableDomain) -> str:
    declared = manifest.spec["columns"]
    rows = []
    for name in manifest.columns:
        column = next((column for column in domain.columns if column.name == name), None)
        tensor = next((tensor for tensor in domain.tensors if tensor.name == name), None)
        if (made := _made_of(name, domain)) is not None:
            detail = made
        elif tensor is not None:
            detail = f"{_shape(tensor)} from {tensor.low:g} to {tensor.high:g}"
        elif column is None:
            detail = "fresh ids, unrelated to the real ones"
        else:
            extras = [text for text, on in (("other", column.has_other), ("null", column.nullable)) if on]
            detail = f"{column.value_codes} {'values' if column.kind == 'category' else 'bins'}"
            detail += f" and {', '.join(extras)}" if extras else ""
        cells = f"<td>{escape(name)}</td><td>{escape(declared[name]['type'])}</td><td>{detail}</td>"
        rows.append(f"<tr>{cells}<td>{_good_for(name, manifest)}</td></tr>")
    head = "<tr><th>column</th><th>type</th><th>domain</th><th>told apart</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>"


def _good_for(name: str, manifest: Manifest) -> str:
    """How fine the column is, which values are exact, and what a reader must not believe."""
    for one in manifest.fitness:
        if one.column == name:
            exact = f"; exactly {', '.join(one.exact[:8])}{' ...' * (len(one.exact) > 8)}" if one.exact else ""
            careful = f' <strong class="caution">{escape(one.caution)}</strong>' if one.caution else ""
            return escape(one.resolution + exact) + careful
    return ""


def _made_of(name: str, domain: TableDomain) -> str | None:
    """How a column is put together that is not modelled as it stands."""
    for split in domain.splits:
        if split.name == name:
            return "modelled by " + ", ".join(f"{part} ({column.value_codes})" for part, column in split.parts)
    for lapse in domain.lapses:
        if lapse.name == name:
            return escape(f"{lapse.after.name} and up to {lapse.most:,} seconds, {lapse.seconds.value_codes} bins")
    for made in domain.made:
        if made.name == name:
            by = f"looked up from {made.source}" if made.expression is None else f"= {made.expression.text}"
            return escape(f"{by}, in every row; not measured")
    return None


def _shape(tensor: TensorDomain) -> str:
    return f"{' x '.join(str(size) for size in tensor.shape)} numbers"


def _sample_table(synthetic: pa.Table, domain: TableDomain) -> str:
    tensors = {tensor.name: _shape(tensor) for tensor in domain.tensors}
    rows = synthetic.slice(0, SAMPLE_ROWS).drop_columns(list(tensors)).to_pylist()
    rows = [{**row, **tensors} for row in rows] if rows else [tensors] * min(SAMPLE_ROWS, synthetic.num_rows)
    head = "".join(f"<th>{escape(name)}</th>" for name in synthetic.column_names)
    body = "".join(
        "<tr>" + "".join(f"<td>{_cell(row[name])}</td>" for name in synthetic.column_names) + "</tr>" for row in rows
    )
    return f'<div class="wide"><table><tr>{head}</tr>{body}</table></div>'


def _cell(value: object) -> str:
    if value is None:
        return '<span class="null">null</span>'
    return escape(f"{value:g}" if isinstance(value, float) else str(value))


def _events_table(manifest: Manifest) -> str:
    rows = "".join(
        f"<tr><td>{escape(event.stage)}</td><td>{escape(event.description)}</td><td><code>{event.mid[:16]}</code></td>"
        f"<td><code>{event.measurement_sha256[:16]}</code></td></tr>"
        for event in manifest.guarantee.events
    )
    return f"<table><tr><th>stage</th><th>event</th><th>charge</th><th>measurement</th></tr>{rows}</table>"
