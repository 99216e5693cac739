"""Tables on the page of a comparison."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from understudy.pipelines.comparing.model import Distance

_MOST_LINES = 40


def distances_table(found: Sequence[Distance]) -> str:
    rows = [
        (" x ".join(each.columns), f"{each.distance:.4f}", f"{each.another_sample:.4f}") for each in found[:_MOST_LINES]
    ]
    more = len(found) - len(rows)
    table = table_of(("columns", "distance", "of another sample of as many rows"), rows)
    return table + (f"<p class='sub'>and {more:,} that are nearer</p>" if more else "")


def table_of(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(each)}</td>" for each in row) + "</tr>" for row in rows)
    return f"<div class='wide'><table><tr>{head}</tr>{body}</table></div>"
