"""Pictures of pages for the docs: `make pictures` makes the pages with care and draws them in Chromium."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.browser.chromium import DESKTOP, PHONE, Opened, View, missing, started
from tests.browser.made import make_pages

PICTURES = {
    "card": ("card-clinic.html", View(DESKTOP), 1500),
    "card-tables": ("card-tree.html", View(DESKTOP), 1500),
    "card-phone-dark": ("card-clinic.html", View(PHONE, dark=True), 1300),
    "card-pictures": ("card-pictures.html", View(DESKTOP), 1300),
    "evidence": ("evidence-clinic/evidence.html", View(DESKTOP), 1100),
}
"""Page, how it is looked at, and how many of its pixels from the top are kept."""


def draw(to: Path) -> None:
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        place = make_pages(Path(folder) / "pages", care=True)
        for name, (page, view, height) in PICTURES.items():

            def shoot(opened: Opened, name: str = name, view: View = view, height: int = height) -> None:
                clip = {"x": 0, "y": 0, "width": view.width, "height": height}
                opened.page.screenshot(path=str(to / f"{name}.png"), clip=clip, full_page=True)

            browser.do((place.pages / page).as_uri(), shoot, view)


if __name__ == "__main__":
    if (problem := missing()) is not None:
        sys.exit(problem)
    draw(Path(sys.argv[1]))
