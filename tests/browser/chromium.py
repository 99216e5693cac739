"""Chromium, driven through Playwright in a thread of its own, and what it saw of a page.

Playwright's synchronous face runs an event loop in the thread that uses it, where none else can be started.
The browser is the system's: nothing is downloaded, and whatever a page asks of the network is refused and written down.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

Found = TypeVar("Found")
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-component-update", "--disable-sync",
    "--disable-background-networking", "--hide-scrollbars",
)  # fmt: skip
LAYOUT = (Path(__file__).parent / "layout.js").read_text(encoding="utf-8")
STILL = "*, ::before, ::after { transition: none !important; animation: none !important }"
SERIOUS = ("serious", "critical")
HEIGHT = 900


@dataclass(frozen=True)
class View:
    """How a page is looked at."""

    width: int
    dark: bool = False
    print: bool = False

    def __str__(self) -> str:
        return f"{'print' if self.print else 'screen'}-{self.width}-{'dark' if self.dark else 'light'}"


PHONE, DESKTOP, PAPER = 390, 1280, 720
SCREENS = tuple(View(width, dark) for width in (PHONE, DESKTOP) for dark in (False, True))
VIEWS = (*SCREENS, View(PAPER, dark=True, print=True))
"""Whoever prints may have a dark screen: the paper is white all the same."""


@dataclass(frozen=True)
class Look:
    """What was seen of a page in one view: each list is empty for a good one."""

    unreadable: tuple[str, ...]
    """Texts that are cut, stick out, lie on each other or are too small (layout.js)."""
    unnamed: tuple[str, ...]
    """Pictures of which a screen reader says nothing."""
    barriers: tuple[str, ...]
    """Serious and critical violations that axe-core found; on paper, too little contrast with white."""


@dataclass(frozen=True)
class Seen:
    """A page in every view, what it said and asked for meanwhile, and what it shows."""

    looks: dict[View, Look]
    said: tuple[str, ...]
    """Errors and warnings of the console, uncaught exceptions, dialogs."""
    asked: tuple[str, ...]
    """Requests for anything but its own folder or server; all of them were refused."""
    ran: bool
    """Whether a script of a hostile name ran: each of them sets `window.ran`."""
    text: str


@dataclass(frozen=True)
class Opened:
    """A page in the browser, for the browser's thread alone."""

    page: Any
    said: list[str]
    asked: list[str]


class Browser:
    """One Chromium; every call runs in its thread, and every page in a context of its own."""

    def __init__(self, chromium: Any, thread: ThreadPoolExecutor, axe: str) -> None:
        self._chromium, self._thread, self._axe = chromium, thread, axe

    def see(self, address: str, large: bool = False, anew: bool = False) -> Seen:
        """`anew`: loaded again for every view, where a script of the page chooses its colours."""
        return self.do(address, lambda opened: self._seen(opened, large, anew))

    def do(self, address: str, action: Callable[[Opened], Found], view: View = SCREENS[-1]) -> Found:
        """What `action` returns of the page at `address`; it runs in the browser's thread."""
        return self._thread.submit(self._act, address, action, view).result(timeout=900)

    def _act(self, address: str, action: Callable[[Opened], Found], view: View) -> Found:
        context = self._chromium.new_context()
        try:
            context.set_default_timeout(300_000)
            opened = Opened(context.new_page(), [], [])
            own = address.rpartition("/")[0] if address.startswith("file:") else "/".join(address.split("/")[:3])
            _listen(opened, own)
            _turn_to(opened.page, view)
            opened.page.goto(address)
            return action(opened)
        finally:
            context.close()

    def _seen(self, opened: Opened, large: bool, anew: bool) -> Seen:
        page = opened.page
        page.evaluate(self._axe)
        looks = {}
        for view in VIEWS:
            _turn_to(page, view)
            if anew:
                page.evaluate("localStorage.clear()")  # in which colours it was seen before
                page.reload()
                page.add_style_tag(content=STILL)
                page.evaluate(self._axe)
            if view.print:
                page.add_style_tag(content="* { background: none !important }")  # as browsers print
            layout = page.evaluate(LAYOUT, {"print": view.print})
            barriers = self._barriers(page, view, large)
            looks[view] = Look(tuple(layout["unreadable"]), tuple(layout["unnamed"]), barriers)
        ran, text = page.evaluate("() => ['ran' in window, document.body.innerText]")
        return Seen(looks, tuple(opened.said), tuple(opened.asked), ran, text)

    def _barriers(self, page: Any, view: View, large: bool) -> tuple[str, ...]:
        """All rules at both widths and in both themes, without asking twice what neither changes.

        A large page costs axe-core many seconds: it is gone through once, since its colours are those of all pages.
        """
        if large and view != SCREENS[0]:
            return ()
        rules = {} if view in (SCREENS[0], SCREENS[-1]) else {"runOnly": ["color-contrast"]}
        found = page.evaluate("rules => axe.run(document, {resultTypes: ['violations'], ...rules})", rules)
        return tuple(_told(each) for each in found["violations"] if each["impact"] in SERIOUS)


def _turn_to(page: Any, view: View) -> None:
    page.set_viewport_size({"width": view.width, "height": HEIGHT})
    page.emulate_media(media="print" if view.print else "screen", color_scheme="dark" if view.dark else "light")


def _listen(opened: Opened, own: str) -> None:
    page, said, asked = opened.page, opened.said, opened.asked
    page.on("console", lambda line: said.append(line.text) if line.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("dialog", lambda dialog: (said.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def answer(route: Any) -> None:
        url = route.request.url
        if url.startswith((own, "data:", "blob:")):
            route.continue_()
        else:
            asked.append(url)
            route.abort()

    page.route("**/*", answer)


def _told(violation: dict[str, Any]) -> str:
    first = violation["nodes"][0]
    summary = f"{first['html'][:160]} {first.get('failureSummary', '')[:300]}"
    return f"{violation['id']} ({violation['impact']}), {len(violation['nodes'])} times: {summary}"


def installed() -> str | None:
    """The path of the system's Chromium."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def missing() -> str | None:
    """What pages cannot be looked at for, here."""
    try:
        import axe_playwright_python
        import playwright  # noqa: F401
    except ImportError as error:
        return f"{error.name} is not installed (pip install -e '.[dev]')"
    assert axe_playwright_python.__file__
    return None if installed() else "no Chromium is installed (apt-get install chromium)"


def _axe_core() -> str:
    import axe_playwright_python

    assert axe_playwright_python.__file__
    return (Path(axe_playwright_python.__file__).parent / "axe.min.js").read_text(encoding="utf-8")


@contextmanager
def started() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with ThreadPoolExecutor(1, "chromium") as thread:
        driver = thread.submit(lambda: sync_playwright().start()).result(timeout=300)
        try:
            chromium = thread.submit(
                lambda: driver.chromium.launch(executable_path=installed(), args=list(FLAGS))
            ).result(timeout=300)
            try:
                yield Browser(chromium, thread, _axe_core())
            finally:
                thread.submit(chromium.close).result(timeout=300)
        finally:
            thread.submit(driver.stop).result(timeout=300)
