"""Tables on the card: how several hang together, the schema, a few rows. All of them of public values."""

from __future__ import annotations

from html import escape

from understudy.pipelines.publishing.card.parts import CardParts, CardTable
from understudy.pipelines.publishing.manifest import Manifest
from understudy.pipelines.publishing.pages.charts import tree_drawing
from understudy.pipelines.publishing.pages.page import Html, Section, mark, named, table
from understudy.pipelines.table.domain import TableDomain, TensorDomain

SAMPLE_ROWS = 8
LONGEST = 80


def tree_section(manifest: Manifest) -> list[Section]:
    """How several tables hang together; nothing for one that is alone."""
    if not manifest.tables:
        return []
    below: dict[str | None, list[str]] = {}
    facts = {fact.name: fact for fact in manifest.tables}
    for fact in manifest.tables:
        below.setdefault(fact.parent, []).append(fact.name)
    nodes: list[tuple[str, int, str]] = []

    def add(name: str, depth: int) -> None:
        fact = facts[name]
        most = f", up to {fact.max_rows:,} of one row of {fact.parent}" if fact.parent is not None else ""
        nodes.append((name, depth, f"{fact.rows:,} rows x {len(fact.columns)} columns{most}"))
        for child in below.get(name, []):
            add(child, depth + 1)

    for root in below.get(None, []):
        add(root, 0)
    remark = "Ids are fresh, and lead from every row to a row of the table above it."
    return [Section("Tables", tree_drawing(nodes), remark)]


def rows_section(parts: CardParts) -> Section:
    return Section("A few synthetic rows", Html("".join(_heading(one) + _sample(one) for one in parts.tables)))


def schema_section(parts: CardParts) -> Section:
    return Section("Schema", Html("".join(_heading(one) + _schema(parts.manifest, one) for one in parts.tables)))


def _heading(one: CardTable) -> str:
    return f'<h3 class="of">{named(one.name)}</h3>' if one.name else ""


def _sample(one: CardTable) -> str:
    domain, shown = one.synthetic.domain, one.synthetic.shown
    tensors = {tensor.name: _shape(tensor) for tensor in domain.tensors}
    rows = shown.slice(0, SAMPLE_ROWS).drop_columns(list(tensors)).to_pylist()
    rows = [{**row, **tensors} for row in rows] if rows else [tensors] * min(SAMPLE_ROWS, shown.num_rows)
    names = shown.column_names
    return table(
        [named(name) for name in names],
        [[_value(row[name]) for name in names] for row in rows],
        f"synthetic rows{f' of {one.name}' * bool(one.name)}",
    )


def _value(value: object) -> Html:
    if value is None:
        return Html('<span class="null">null</span>')
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return named(text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…")


def _schema(manifest: Manifest, one: CardTable) -> str:
    domain = one.synthetic.domain
    declared = manifest.spec["tables"][one.name]["columns"] if one.name else manifest.spec["columns"]
    names = next((fact.columns for fact in manifest.tables if fact.name == one.name), manifest.columns)
    rows = []
    for name in names:
        kind = declared[name]["type"] if name in declared else "identifier"  # a key that the tree declares
        rows.append((named(name), kind, _detail(name, domain), _good_for(one.called(name), manifest)))
    label = f"columns{f' of {one.name}' * bool(one.name)}"
    return table(("column", "type", "domain", "told apart"), rows, label, sortable=True)


def _detail(name: str, domain: TableDomain) -> str:
    column = next((column for column in domain.columns if column.name == name), None)
    tensor = next((tensor for tensor in domain.tensors if tensor.name == name), None)
    if (made := _made_of(name, domain)) is not None:
        return made
    if tensor is not None:
        return f"{_shape(tensor)} from {tensor.low:g} to {tensor.high:g}"
    if column is None:
        return "fresh ids, unrelated to the real ones"
    extras = [text for text, on in (("other", column.has_other), ("null", column.nullable)) if on]
    detail = f"{column.value_codes} {'values' if column.kind == 'category' else 'bins'}"
    return detail + (f" and {', '.join(extras)}" if extras else "")


def _good_for(name: str, manifest: Manifest) -> Html:
    """How fine the column is, which values are exact, and what a reader must not believe."""
    for one in manifest.fitness:
        if one.column == name:
            exact = f"; exactly {', '.join(one.exact[:8])}{' ...' * (len(one.exact) > 8)}" if one.exact else ""
            careful = Html(" ") + mark(one.caution, "caution") if one.caution else ""
            return Html(escape(one.resolution + exact) + careful)
    return Html("")


def _made_of(name: str, domain: TableDomain) -> str | None:
    """How a column is put together that is not modelled as it stands."""
    for split in domain.splits:
        if split.name == name:
            return "modelled by " + ", ".join(f"{part} ({column.value_codes})" for part, column in split.parts)
    for lapse in domain.lapses:
        if lapse.name == name:
            return f"{lapse.after.name} and up to {lapse.most:,} seconds, {lapse.seconds.value_codes} bins"
    for made in domain.made:
        if made.name == name:
            by = f"looked up from {made.source}" if made.expression is None else f"= {made.expression.text}"
            return f"{by}, in every row; not measured"
    return None


def _shape(tensor: TensorDomain) -> str:
    return f"{' x '.join(str(size) for size in tensor.shape)} numbers"
