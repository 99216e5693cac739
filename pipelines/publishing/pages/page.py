"""A page as one file: light and dark, phone and print, read by screen readers, loading nothing.

All pages have one look: `style.css`, `page_template.html`, and `script.js`, which sorts tables and is the only script
that a browser lets run. What goes in is text, and is escaped here; only what says `Html` is taken as it is.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files

MOST_UNLISTED = 3
"""Pages of no more sections need no table of contents."""


class Html(str):
    """Text that was escaped already."""

    __slots__ = ()


@dataclass(frozen=True)
class Section:
    title: str
    body: Html
    remark: str = ""


def page(
    title: str,
    subtitle: Html,
    facts: Sequence[tuple[str, str]],
    lead: Html,
    sections: Iterable[Section],
    foot: str = "Made by Understudy. This page loads nothing and sends nothing.",
    forms: bool = False,
) -> str:
    """`facts` are numbers with what they are, shown large. `forms` may send what is typed to where the page is from."""
    parts = list(sections)
    shown = "".join(
        f'<div class="fact"><b>{escape(number)}</b><span>{escape(what)}</span></div>' for number, what in facts
    )
    filling = {
        "policy": content_policy(forms),
        "style": _text("style.css"),
        "script": _text("script.js"),
        "title": escape(title),
        "subtitle": subtitle,
        "facts": f'<div class="facts">{shown}</div>' if shown else "",
        "lead": lead,
        "contents": _contents(parts) if len(parts) > MOST_UNLISTED else "",
        "sections": "".join(_section(place, section) for place, section in enumerate(parts)),
        "foot": inline(foot),
    }
    # All at once: what is filled in may hold what looks like another place.
    return re.sub(r"\{\{ (\w+) \}\}", lambda found: filling[found[1]], _text("page_template.html"))


def content_policy(forms: bool = False) -> str:
    """What a browser may do for a page: no request, and no script but ours."""
    script = base64.b64encode(hashlib.sha256(f"\n{_text('script.js')}".encode()).digest()).decode()
    whither = "'self'" if forms else "'none'"
    return (
        f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{script}'; base-uri 'none'; "
        f"form-action {whither}"
    )


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    label: str,
    *,
    sortable: bool = False,
    alarming: Sequence[int] = (),
) -> Html:
    """`label` is what the table is, for those who cannot see it; the first cell of a row is its head."""
    head = "".join(f'<th scope="col">{inline(text)}</th>' for text in heads)
    body = "".join(
        ('<tr class="alarm">' if place in alarming else "<tr>") + "".join(_cells(row)) + "</tr>"
        for place, row in enumerate(rows)
    )
    kind = ' class="sortable"' if sortable else ""
    return region(
        Html(
            f'<table{kind}><caption class="unseen">{escape(label)}</caption><thead><tr>{head}</tr></thead>'
            f"<tbody>{body}</tbody></table>"
        ),
        label,
    )


def region(body: Html, label: str) -> Html:
    """What may be wider than the screen: scrolls by itself, with the keyboard too."""
    return Html(f'<div class="wide" role="region" tabindex="0" aria-label="table: {escape(label)}">{body}</div>')


def inline(text: str) -> Html:
    return text if isinstance(text, Html) else Html(escape(text))


def named(text: str) -> Html:
    """A name that somebody gave, in whatever script; it turns nothing around it."""
    return Html(f"<bdi>{escape(text)}</bdi>")


def code(text: str) -> Html:
    return Html(f"<code>{escape(text)}</code>")


def block(text: str, label: str) -> Html:
    """Lines to be copied."""
    return Html(f'<pre tabindex="0" role="region" aria-label="{escape(label)}"><code>{escape(text)}</code></pre>')


def mark(text: str, kind: str) -> Html:
    """In the colour of `yes`, `no` or `open`; the words must tell it too."""
    return Html(f'<span class="{escape(kind)}">{escape(text)}</span>')


def paragraph(text: str) -> Html:
    return Html(f"<p>{inline(text)}</p>")


def listed(lines: Iterable[str]) -> Html:
    return Html("<ul>" + "".join(f"<li>{inline(line)}</li>" for line in lines) + "</ul>")


def panel(title: str, body: Html) -> Html:
    return Html(f'<div class="panel"><h2>{escape(title)}</h2>{body}</div>')


def _cells(row: Sequence[str]) -> Iterable[str]:
    for place, cell in enumerate(row):
        yield f"<td>{inline(cell)}</td>" if place else f'<th scope="row">{inline(cell)}</th>'


def _contents(parts: Sequence[Section]) -> str:
    links = "".join(
        f'<li><a href="#part-{place}">{escape(section.title)}</a></li>' for place, section in enumerate(parts)
    )
    return f'<nav aria-label="On this page"><ul>{links}</ul></nav>\n'


def _section(place: int, section: Section) -> str:
    remark = f'<p class="sub">{inline(section.remark)}</p>' if section.remark else ""
    return (
        f'<section class="part" id="part-{place}" aria-labelledby="title-{place}">'
        f'<h2 id="title-{place}">{escape(section.title)}</h2>{remark}{section.body}</section>'
    )


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
