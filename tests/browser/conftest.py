"""One Chromium and one set of pages for all tests of this folder."""

from __future__ import annotations

import re
import subprocess
import sys
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
def served(place: Place) -> Iterator[str]:
    """The address at which the real command serves the releases, the ledger and a plan."""
    words = [
        "--home",
        place.home,
        "serve",
        place.base / "releases",
        "--port",
        "0",
        "--plan",
        place.base / "hostile.yaml",
    ]
    command = [sys.executable, "-m", "understudy.cli.main", *(str(word) for word in words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found is not None
            yield found.group()
        finally:
            server.terminate()


@pytest.fixture(scope="session")
def place(browser: chromium.Browser, tmp_path_factory: pytest.TempPathFactory) -> Place:
    return make_pages(tmp_path_factory.mktemp("browser") / "pages")
