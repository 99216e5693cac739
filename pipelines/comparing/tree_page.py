"""What the page of a comparison says of several tables: table by table, the root's first."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from understudy.pipelines.comparing.model import Distance, TreeComparison, mean
from understudy.pipelines.comparing.page_tables import distances_table, downstream_table, table_of, told_apart
from understudy.pipelines.publishing.pages.page import Html, Section


def tree_facts(found: TreeComparison) -> list[tuple[str, str]]:
    kinds = [
        ("columns", [each for table in found.tables for each in table.columns]),
        ("pairs within a table", [each for table in found.tables for each in table.pairs]),
        ("pairs across tables", [each for table in found.tables for each in table.across]),
        ("rows that follow each other", [each for table in found.tables for each in table.in_order]),
    ]
    means = [
        (f"{average:.4f}", f"mean distance of {what}") for what, each in kinds if (average := mean(each)) is not None
    ]
    return [
        (f"{found.real_roots:,}", f"private {found.root}"),
        (f"{found.synthetic_roots:,}", f"synthetic {found.root}"),
        *means,
        *(
            (f"{table.detection.auc:.3f}", f"AUC of telling {table.table} apart")
            for table in found.tables
            if table.detection is not None
        ),
        (f"{sum(check.broken for check in found.keys):,}", "rows that break a key or an order"),
    ]


def tree_sections(found: TreeComparison) -> list[Section]:
    checked = table_of(("what must hold between the published tables", "broken"),
                       [(check.what, f"{check.broken:,}") for check in found.keys])  # fmt: skip
    sections = [Section("Keys and order", checked)]
    for table in found.tables:
        of = f" of {table.parent}" if table.parent is not None else ""
        rows = f"{table.real_rows:,} private rows, {table.synthetic_rows:,} synthetic ones"
        parts: Sequence[tuple[str, Sequence[Distance]]] = (
            ("Columns, rows counting alike", table.columns),
            (f"How many rows one of {table.parent} has", table.numbers),
            (f"Pairs of its columns, each of {found.root} counting once", table.pairs),
            ("Its columns beside those above, and numbers of rows", table.across),
            ("Rows that follow each other", table.in_order),
        )
        body = "".join(f"<h3>{escape(title)}</h3>{distances_table(each)}" for title, each in parts if each)
        apart = told_apart(table.detection)
        seen = f"<h3>Telling its rows apart, with those above and before them</h3>{apart}" if apart else ""
        sections.append(Section(f"{table.table}{of}", Html(body + seen), rows))
    if found.downstream:
        sections.append(Section("Learning from it", downstream_table(found.downstream)))
    return sections
