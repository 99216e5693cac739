"""One Chromium and one set of pages for all tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.browser import chromium
from tests.browser.made import Place, make_pages


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Browser]:
    if (problem := chromium.missing()) is not None:
        pytest.skip(f"NO PAGE WAS LOOKED AT: {problem}")
    with chromium.started() as started:
        yield started


@pytest.fixture(scope="session")
def place(browser: chromium.Browser, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return make_pages(tmp_path_factory.mktemp("browser") / "pages")
