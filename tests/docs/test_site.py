"""The documentation as a site: built without a warning, every page in it, and nothing loaded from outside."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.site import ROOT, build_site


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_site(tmp_path_factory.mktemp("site"))


def test_every_page_is_in_the_site(site: Path) -> None:
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")]
    built = [page.with_name("index.html") if page.name == "README.html" else page for page in pages]
    assert len(built) > 40
    assert [str(page) for page in built if not (site / page).is_file()] == []


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    """Links to other places are there for people to follow; scripts, styles and pictures are the site's own."""
    loads = re.compile(r'<(?:script|img|link|iframe)\b[^>]*?\b(?:src|href)="([a-z]+:)?//[^"]*"')
    outside = [page.name for page in site.rglob("*.html") for tag in loads.finditer(page.read_text()) if tag]
    assert outside == []


def test_the_api_reference_has_what_the_package_offers(site: Path) -> None:
    page = (site / "api.html").read_text()
    for name in ("synthesize", "open_release", "Synthesizer", "Release"):
        assert f'id="understudy.api.{name}"' in page
