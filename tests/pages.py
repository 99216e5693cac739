"""A page taken apart: its elements, its sections' texts, and what is wrong with it for a browser or a screen reader."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "col", "image", "use", "path", "hr"}
RAW = {"style", "script", "title"}
LANDMARKS = ("header", "main", "footer")


@dataclass
class Element:
    tag: str
    attributes: dict[str, str]
    parents: tuple[str, ...]
    pieces: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(self.pieces)


@dataclass
class Page:
    elements: list[Element] = field(default_factory=list)
    below: dict[str, list[str]] = field(default_factory=dict)

    @property
    def sections(self) -> dict[str, str]:
        """The text below each heading of the second level."""
        return {heading: " ".join(pieces) for heading, pieces in self.below.items()}

    def all(self, tag: str) -> list[Element]:
        return [each for each in self.elements if each.tag == tag]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page, self.open = Page(), list[Element]()
        self.section = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = [name for name, _ in attrs]
        assert len(given) == len({*given}), f"<{tag}> has an attribute twice"
        element = Element(tag, {name: value or "" for name, value in attrs}, tuple(each.tag for each in self.open))
        self.page.elements.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        closed = self.open.pop()
        if tag == "h2":
            self.section = closed.text.strip()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.pieces.append(data)
        if self.open and self.open[-1].tag not in RAW:
            self.page.below.setdefault(self.section, []).append(data.strip())


def read_page(text: str) -> Page:
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert not reader.open, [each.tag for each in reader.open]
    return reader.page


def faults(page: Page) -> list[str]:
    """What loads something, runs something, or cannot be read by a screen reader."""
    found = []
    for each in page.elements:
        for name, value in each.attributes.items():
            if name.startswith("on"):
                found.append(f"<{each.tag} {name}>")
            beside = each.tag == "a" and not re.match(r"[A-Za-z+.-]+:|/", value)
            if name in ("src", "href", "action", "srcset") and not (beside or re.match(r"(#|data:)", value)):
                found.append(f"<{each.tag} {name}={value[:60]}>")
            if name == "style" and ("url(" in value or "expression" in value):
                found.append(f"<{each.tag} style={value}>")
        if each.tag in ("iframe", "object", "embed", "base", "form"):
            found.append(f"<{each.tag}>")
        if each.attributes.get("role") in ("img", "region") and not each.attributes.get("aria-label"):
            found.append(f"<{each.tag} role={each.attributes['role']}> without a label")
        if each.attributes.get("role") == "region" and each.attributes.get("tabindex") != "0":
            found.append(f"<{each.tag}> scrolls and takes no focus")
        if each.tag == "svg" and not each.attributes.get("aria-label"):
            found.append("<svg> without a label")
    tables, captions = page.all("table"), page.all("caption")
    if len(tables) != len(captions) + sum("aria-label" in each.attributes for each in tables) + len(
        [each for each in tables if "details" in each.parents and each.parents[-1] == "div" and not each.attributes]
    ):
        found.append("a table without a caption")
    levels = [int(each.tag[1]) for each in page.elements if re.fullmatch("h[1-6]", each.tag)]
    if levels.count(1) != 1 or any(after > before + 1 for before, after in itertools.pairwise(levels)):
        found.append(f"headings jump: {levels}")
    ids = [each.attributes["id"] for each in page.elements if "id" in each.attributes]
    if len(ids) != len({*ids}):
        found.append("an id twice")
    inside = [each.attributes["href"] for each in page.all("a") if each.attributes["href"].startswith("#")]
    found += [f"a link to nothing: {href}" for href in inside if href[1:] not in ids]
    found += [f"<{landmark}> is not there once" for landmark in LANDMARKS if len(page.all(landmark)) != 1]
    if len(page.all("script")) != 1:
        found.append("another script")
    return found
