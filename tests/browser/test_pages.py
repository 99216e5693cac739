"""Every page in a real browser: nothing runs, nothing is asked for, nothing is cut, and everybody can read it."""

from __future__ import annotations

import pytest

from tests.browser.chromium import Browser
from tests.browser.made import Place

PAGES = (
    "card-clinic.html", "card-hostile.html", "card-tree.html", "card-pictures.html", "compare.html", "ledger.html",
    "evidence-clinic/evidence.html", "evidence-hostile/evidence.html",
)  # fmt: skip


@pytest.mark.parametrize("page", PAGES)
def test_a_page_can_be_read_by_everybody_and_asks_for_nothing(page: str, browser: Browser, place: Place) -> None:
    seen = browser.see((place.pages / page).as_uri())
    assert seen.said == ()
    assert seen.asked == ()
    assert not seen.ran
    assert [f"{view}: {text}" for view, look in seen.looks.items() for text in look.unreadable] == []
    assert [f"{view}: {text}" for view, look in seen.looks.items() for text in look.unnamed] == []
    assert [f"{view}: {text}" for view, look in seen.looks.items() for text in look.barriers] == []
