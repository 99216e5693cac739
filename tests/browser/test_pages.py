"""Every page in a real browser: nothing runs, nothing is asked for, nothing is cut, and everybody can read it."""

from __future__ import annotations

import pytest

from tests.browser import hostile_names
from tests.browser.chromium import Browser, Opened
from tests.browser.made import TURNED, Place
from tests.browser.seeing import assert_everybody_can_read

LARGE = "card-hostile.html"
PAGES = (
    "card-clinic.html", LARGE, "card-tree.html", "card-pictures.html", "compare.html", "ledger.html",
    "evidence-clinic/evidence.html", "evidence-hostile/evidence.html", "plan.html", "../releases/index.html",
    "card-leftward.html", "plan-leftward.html", "evidence-leftward/evidence.html",
    *(f"turned-{page}" for page in TURNED),
)  # fmt: skip
SORTED = """() => [...document.querySelectorAll('table.sortable')].filter(one => one.rows.length > 3).map(table => {
    const place = table.tHead.rows[0].cells.length - 1, head = table.tHead.rows[0].cells[place];
    const order = () => [...table.tBodies[0].rows].map(row => row.cells[place].textContent.trim());
    const before = order(), button = head.querySelector('button');
    if (!button) return {before, once: before, twice: before, said: null};
    button.click();
    const once = order(), said = head.getAttribute('aria-sort');
    button.click();
    return {before, once, twice: order(), said};
})"""


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_by_everybody_and_asks_for_nothing(page: str, browser: Browser, place: Place) -> None:
    seen = browser.see((place.pages / page).resolve().as_uri(), large=page == LARGE)
    assert_everybody_can_read(seen)
    if page == LARGE:  # names are shown as they are, whatever they would mean elsewhere
        shown = " ".join(seen.text.split())
        assert [name for name in hostile_names.names() if " ".join(name.split()) not in shown] == []


def test_what_is_served_can_be_read_by_everybody_and_its_links_lead_somewhere(browser: Browser, served: str) -> None:
    for path in ("", "ledger"):
        assert_everybody_can_read(browser.see(served + path))

    def follow(opened: Opened) -> dict[str, int]:
        own = "() => [...document.links].map(each => each.href).filter(each => each.startsWith(location.origin))"
        return {link: opened.page.request.get(link).status for link in set(opened.page.evaluate(own))}

    answers = browser.do(served, follow)
    assert len(answers) > 3
    assert set(answers.values()) == {200}


@pytest.mark.parametrize("page", ["card-clinic.html", "compare.html"])
def test_tables_sort_by_their_heads_and_say_so(page: str, browser: Browser, place: Place) -> None:
    def click(opened: Opened) -> list[dict[str, list[str]]]:
        return opened.page.evaluate(SORTED)

    tables = browser.do((place.pages / page).as_uri(), click)
    assert tables
    assert all(table["said"] in ("ascending", "descending") for table in tables)
    assert all(sorted(table["once"]) == sorted(table["before"]) for table in tables)
    assert any(table["once"] != table["twice"] for table in tables)


def test_a_page_that_is_turned_keeps_the_order_of_its_axes_and_the_signs_of_its_numbers(
    browser: Browser, place: Place
) -> None:
    """Bars are drawn from left to right whatever the page's direction: so must stand what is written below them."""
    ends, signs = browser.do(
        (place.pages / "turned-card-leftward.html").as_uri(), lambda opened: opened.page.evaluate(AXES)
    )
    assert len(ends) > 2
    assert all(at == sorted(at) for at in ends)
    assert {*signs} == {"ltr"}


def test_what_is_wrong_with_a_page_is_found(browser: Browser, place: Place) -> None:
    """The measuring itself: every fault that the tests above look for, planted in one page."""
    page = place.keep("faulty.html", FAULTY)
    seen = browser.see(page.as_uri())
    phone, *_, paper = seen.looks.values()
    told = "\n".join((*phone.unreadable, *paper.unreadable))
    for fault in ("cut by <div", "cut by its picture", "lies on", "letters of 5.0 pixels", "lies beside the window",
                  "cannot be scrolled", "sticks out of"):  # fmt: skip
        assert fault in told
    assert phone.unnamed
    assert any("color-contrast" in barrier for barrier in phone.barriers)
    assert seen.ran
    assert any("example.org" in url for url in seen.asked)
    assert any("broken on purpose" in line for line in seen.said)


AXES = """() => [
    [...document.querySelectorAll('.plot .along')].map(each => [...each.children].map(label => label.offsetLeft)),
    [...document.querySelectorAll('.heat td')].map(each => getComputedStyle(each).direction)]"""
FAULTY = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Faulty</title>
<body style="margin: 0; width: 360px">
<div style="width: 60px; overflow: hidden; white-space: nowrap">a text that is longer than its box</div>
<div style="width: 60px; border: 1px solid; white-space: nowrap">a text that is longer than its frame</div>
<div style="width: 60px; overflow: auto; white-space: nowrap">a text that only a mouse can scroll to</div>
<p style="position: absolute; left: 380px; white-space: nowrap">beside the window</p>
<p style="font-size: 5px">small</p><p style="color: #bbb">pale</p>
<svg width="100" height="40"><text x="0" y="20">one label</text><text x="20" y="22">another</text>
<text x="80" y="35">cut at the frame</text></svg>
<img src="https://example.org/x.png">
<script>window.ran = 1; console.error("broken on purpose")</script></body></html>"""
