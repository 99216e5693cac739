"""A piece of a page for a notebook: in the notebook's own colours, whatever its theme, and with nothing that runs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from understudy.pipelines.publishing.pages.page import Html

_STYLE = (
    ".understudy{font-family:system-ui,sans-serif;max-width:900px}"
    ".understudy table{border-collapse:collapse;margin:6px 0}"
    ".understudy th,.understudy td{text-align:left!important;padding:3px 12px 3px 0;border-bottom:1px solid #8884}"
    ".understudy .facts{display:flex;flex-wrap:wrap;gap:18px;margin:6px 0}"
    ".understudy .facts b{display:block;font-size:1.3em}"
    ".understudy .wide{overflow-x:auto}.understudy .unseen{position:absolute;clip-path:inset(50%);width:1px;height:1px;"
    "overflow:hidden}.understudy .yes,.understudy .no,.understudy .open{font-weight:600}"
)


def fragment(title: str, facts: Sequence[tuple[str, str]], body: Html) -> Html:
    """`facts` are numbers with what they are, shown large."""
    shown = "".join(f"<div><b>{escape(number)}</b>{escape(what)}</div>" for number, what in facts)
    return Html(
        f'<div class="understudy"><style>{_STYLE}</style><p><b><bdi>{escape(title)}</bdi></b></p>'
        f'<div class="facts">{shown}</div>{body}</div>'
    )
