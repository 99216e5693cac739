"""A page as one file: light and dark, phone and print, read by screen readers, loading and running nothing.

What goes in is text, and is escaped here; only what says `Html` is taken as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files


class Html(str):
    """Text that was escaped already."""

    __slots__ = ()


@dataclass(frozen=True)
class Section:
    title: str
    body: Html
    remark: str = ""


def page(title: str, subtitle: Html, facts: Sequence[tuple[str, str]], lead: Html, sections: Iterable[Section]) -> str:
    """`facts` are numbers with what they are, shown large."""
    filling = {
        "title": escape(title),
        "subtitle": subtitle,
        "facts": "".join(
            f'<div class="fact"><b>{escape(number)}</b><span>{escape(what)}</span></div>' for number, what in facts
        ),
        "lead": lead,
        "sections": "".join(_section(section) for section in sections),
    }
    text = files(__package__).joinpath("page_template.html").read_text(encoding="utf-8")
    for key, value in filling.items():
        text = text.replace("{{ " + key + " }}", value)
    return text


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> Html:
    """`label` is what the table is, for those who cannot see it."""
    head = "".join(f'<th scope="col">{escape(text)}</th>' for text in heads)
    body = "".join("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return Html(
        f'<div class="wide" role="region" tabindex="0" aria-label="{escape(label)}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def inline(text: str) -> Html:
    return text if isinstance(text, Html) else Html(escape(text))


def code(text: str) -> Html:
    return Html(f"<code>{escape(text)}</code>")


def mark(text: str, kind: str) -> Html:
    """In the colour of `yes`, `no` or `open`; the words must tell it too."""
    return Html(f'<span class="{escape(kind)}">{escape(text)}</span>')


def paragraph(text: str) -> Html:
    return Html(f"<p>{inline(text)}</p>")


def _section(section: Section) -> str:
    remark = f'<p class="sub">{escape(section.remark)}</p>' if section.remark else ""
    return f"<section><h2>{escape(section.title)}</h2>{remark}{section.body}</section>"
