"""Pictures of pages for the docs: `make pictures` makes the pages with care and draws them in Chromium."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.browser.chromium import DESKTOP, PHONE, Opened, View, missing, started
from tests.browser.made import make_pages


@dataclass(frozen=True)
class Picture:
    """A page, how it is looked at, how many of its pixels are kept, and the section that they begin at."""

    page: str
    view: View
    height: int
    section: str = ""


PICTURES = {
    "card": Picture("card-clinic.html", View(DESKTOP), 1500),
    "card-tables": Picture("card-tree.html", View(DESKTOP), 1500),
    "card-phone-dark": Picture("card-clinic.html", View(PHONE, dark=True), 1300),
    "card-pictures": Picture("card-pictures.html", View(DESKTOP), 1300),
    "card-pictures-alike": Picture(
        "card-pictures.html", View(DESKTOP), 1300, "Pictures: what repeats, what is blurred"
    ),
    "evidence": Picture("evidence-clinic/evidence.html", View(DESKTOP), 1100),
    "audit": Picture("audit.html", View(DESKTOP), 1500),
}
SECTION = (
    "title => [...document.querySelectorAll('h2')].find(each => each.textContent === title).parentElement.offsetTop"
)


def draw(to: Path, only: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        place = make_pages(Path(folder) / "pages", care=True)
        for name in only:
            picture = PICTURES[name]

            def shoot(opened: Opened, name: str = name, picture: Picture = picture) -> None:
                top = max(0, opened.page.evaluate(SECTION, picture.section) - 16) if picture.section else 0
                clip = {"x": 0, "y": top, "width": picture.view.width, "height": picture.height}
                opened.page.screenshot(path=str(to / f"{name}.png"), clip=clip, full_page=True)

            browser.do((place.pages / picture.page).as_uri(), shoot, picture.view)


if __name__ == "__main__":
    if (problem := missing()) is not None:
        sys.exit(problem)
    draw(Path(sys.argv[1]), sys.argv[2:] or [*PICTURES])
