"""The documentation in a real browser, served and from the disk: nothing is asked for, nothing is cut."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from tests.browser.chromium import LAYOUT, PHONE, Browser, Opened, View
from tests.browser.seeing import assert_everybody_can_read
from tests.site import ROOT, build_site

PAGES = ("index.html", "kernel.html", "api.html")
EVERY = sorted(
    str(page.relative_to(ROOT / "docs").with_suffix(".html")).replace("README.html", "index.html")
    for page in (ROOT / "docs").rglob("*.md")
)


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args: Any) -> None:
        """Nothing: what was asked for is not of interest."""


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(site))) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_of_the_documentation_can_be_read_by_everybody(page: str, browser: Browser, address: str) -> None:
    assert_everybody_can_read(browser.see(f"{address}/{page}", anew=True))


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in EVERY if page not in PAGES])
def test_every_other_page_too(page: str, browser: Browser, address: str) -> None:
    assert_everybody_can_read(browser.see(f"{address}/{page}", anew=True))


def test_on_a_phone_the_contents_come_when_they_are_asked_for(browser: Browser, address: str) -> None:
    def opened(opened: Opened) -> list[str]:
        opened.page.click(".md-header label[for=__drawer]")
        opened.page.wait_for_timeout(500)
        return opened.page.evaluate(LAYOUT, {"print": False})["unreadable"]

    assert browser.do(f"{address}/index.html", opened, View(PHONE)) == []


def test_the_documentation_can_be_opened_from_the_disk(browser: Browser, site: Path) -> None:
    """All but its search, for which browsers allow no worker there, and say so."""
    seen = browser.see((site / "index.html").as_uri(), anew=True)
    assert_everybody_can_read(replace(seen, said=()))
