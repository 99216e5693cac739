"""Tables on the page of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.pipelines.comparing.model import Distance
from understudy.pipelines.publishing.pages.page import Html, paragraph, table

_MOST_LINES = 40


def distances_table(found: Sequence[Distance]) -> Html:
    rows = [
        (" x ".join(each.columns), f"{each.distance:.4f}", f"{each.another_sample:.4f}") for each in found[:_MOST_LINES]
    ]
    more = len(found) - len(rows)
    told = table_of(("columns", "distance", "of another sample of as many rows"), rows)
    return Html(told + (paragraph(f"and {more:,} that are nearer") if more else ""))


def table_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> Html:
    return table(heads, rows, f"{heads[0]}: {', '.join(heads[1:])}", sortable=True)
