"""Pictures of pages for the docs: `make pictures` makes the pages with care and draws them in Chromium."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import markdown

from tests.browser.chromium import DESKTOP, PHONE, Opened, View, missing, started
from tests.browser.made import Place, make_pages
from understudy.demo.specs import TABLES


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
    "plan": Picture("plan-clinic.html", View(DESKTOP), 1200),
    "catalogue": Picture("../releases/index.html", View(DESKTOP), 520),
    "ledger": Picture("ledger.html", View(DESKTOP), 1100, "Accounts"),
    "comparison": Picture("compare.html", View(DESKTOP), 1200),
    "audit": Picture("audit.html", View(DESKTOP), 1950),
}
SECTION = (
    "title => [...document.querySelectorAll('h2')].find(each => each.textContent === title).parentElement.offsetTop"
)


STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1b2733; max-width: 62em; margin: 2em auto; padding: 0 2em }
h2 { margin-top: 1.6em; border-top: 1px solid #d5dbe1; padding-top: .8em; font-size: 1.25em }
table { border-collapse: collapse; margin: 1em 0; font-size: .92em }
th, td { text-align: left; padding: .3em .7em; border-bottom: 1px solid #d5dbe1; vertical-align: top }
code { background: #eef2f5; padding: .1em .3em; border-radius: 3px }
"""


def audit_page(place: Place) -> None:
    """What `understudy audit` writes about the demo's tables, as any reader of Markdown shows it."""
    (place.base / "clinic.yaml").write_text(TABLES, encoding="utf-8")
    page = place.base / "audit.md"
    place.run("audit", place.base / "clinic.yaml", "--pairs", "150", "--releases", "2000", "--out", page)
    body = markdown.markdown(page.read_text(encoding="utf-8"), extensions=["tables", "sane_lists"])
    style = f"<meta charset='utf-8'><title>Audit</title><style>{STYLE}</style>"
    place.keep("audit.html", f"<!doctype html><html lang='en'><head>{style}</head><body>{body}</body></html>")


def draw(to: Path, only: Sequence[str]) -> None:
    with tempfile.TemporaryDirectory() as folder, started() as browser:
        others = any(name != "audit" for name in only)
        place = make_pages(Path(folder) / "pages", care=True) if others else Place(Path(folder))
        if "audit" in only:
            audit_page(place)
        for name in only:
            picture = PICTURES[name]

            def shoot(opened: Opened, name: str = name, picture: Picture = picture) -> None:
                top = max(0, opened.page.evaluate(SECTION, picture.section) - 16) if picture.section else 0
                clip = {"x": 0, "y": top, "width": picture.view.width, "height": picture.height}
                opened.page.screenshot(path=str(to / f"{name}.png"), clip=clip, full_page=True)

            browser.do((place.pages / picture.page).resolve().as_uri(), shoot, picture.view)


if __name__ == "__main__":
    if (problem := missing()) is not None:
        sys.exit(problem)
    draw(Path(sys.argv[1]), sys.argv[2:] or [*PICTURES])
