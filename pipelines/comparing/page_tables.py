"""Tables on the page of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from understudy.pipelines.comparing.model import Detection, Distance, Downstream
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


def told_apart(found: Detection | None) -> Html:
    if found is None:
        return Html("")
    return Html(
        f"<p>A classifier that saw {found.rows:,} rows tells real from synthetic with an AUC of "
        f"<b>{found.auc:.3f}</b>; 0.5 is guessing.</p>"
    )


def downstream_table(found: Sequence[Downstream]) -> Html:
    if not found:
        return Html("")
    rows = [
        (each.label, each.score, f"{each.trained_on_real:.4f}", f"{each.trained_on_synthetic:.4f}") for each in found
    ]
    return table_of(("label", "score on real rows", "trained on real rows", "trained on the copy"), rows)
