"""Answers as a notebook shows them: a table whose every cell is text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def shown(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]], notes: Sequence[str] = ()) -> str:
    head = "".join(f'<th scope="col" style="text-align:left">{escape(text)}</th>' for text in heads)
    body = "".join(
        "<tr>" + "".join(f'<td style="text-align:left"><bdi>{escape(cell)}</bdi></td>' for cell in row) + "</tr>"
        for row in rows
    )
    told = "".join(f"<p>note: {escape(note)}</p>" for note in notes)
    return (
        f'<table><caption style="text-align:left"><bdi>{escape(caption)}</bdi></caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table>{told}"
    )
