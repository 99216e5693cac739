"""Tables on the card: agreement, noise, schema, a few rows, provenance. All of them of public values."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from html import escape

import pyarrow as pa

from understudy.pipelines.counting.released import LEVEL
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.publishing.manifest import Manifest, NoiseFact
from understudy.pipelines.table.domain import TableDomain, TensorDomain

SAMPLE_ROWS = 8
MOST_AGREEMENTS = 12


def agreement_table(agreements: Sequence[Agreement]) -> str:
    worst = sorted(agreements, key=lambda line: line.distance / max(line.allowed, 1e-12), reverse=True)
    rows = [
        f"<tr><td>{escape(line.query)}</td><td>{line.distance:.4f}</td><td>{line.allowed:.4f}</td></tr>"
        for line in worst[:MOST_AGREEMENTS]
    ]
    more = len(worst) - MOST_AGREEMENTS
    note = f"<p>The {MOST_AGREEMENTS} closest to their limit; {more} more are farther from it.</p>" if more > 0 else ""
    head = "<tr><th>released query</th><th>distance of the synthetic table</th><th>allowed by the noise</th></tr>"
    return f"<table>{head}{''.join(rows)}</table>{note}"


def noise_table(manifest: Manifest, names: Collection[str]) -> str:
    """A row for all tables of as many columns, and one for whatever else was measured."""
    groups: dict[str, list[NoiseFact]] = {}
    for fact in manifest.noise:
        columns = fact.query.split(" x ")
        counted = all(name in names or name == LEVEL for name in columns)
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


def schema_table(manifest: Manifest, domain: TableDomain, table: str = "") -> str:
    declared = manifest.spec["tables"][table]["columns"] if table else manifest.spec["columns"]
    names = next((fact.columns for fact in manifest.tables if fact.name == table), manifest.columns)
    rows = []
    for name in names:
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
        kind = declared[name]["type"] if name in declared else "identifier"  # a key that the tree declares
        cells = f"<td>{escape(name)}</td><td>{escape(kind)}</td><td>{detail}</td>"
        rows.append(f"<tr>{cells}<td>{_good_for(f'{table}.{name}' if table else name, manifest)}</td></tr>")
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


def sample_table(synthetic: pa.Table, domain: TableDomain) -> str:
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


def events_table(manifest: Manifest) -> str:
    rows = "".join(
        f"<tr><td>{escape(event.stage)}</td><td>{escape(event.description)}</td><td><code>{event.mid[:16]}</code></td>"
        f"<td><code>{event.measurement_sha256[:16]}</code></td></tr>"
        for event in manifest.guarantee.events
    )
    return f"<table><tr><th>stage</th><th>event</th><th>charge</th><th>measurement</th></tr>{rows}</table>"
