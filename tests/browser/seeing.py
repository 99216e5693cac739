"""What is asked of every page, in every view."""

from __future__ import annotations

from tests.browser.chromium import Seen


def assert_everybody_can_read(seen: Seen) -> None:
    assert seen.said == ()
    assert seen.asked == ()
    assert not seen.ran
    assert [f"{view}: {text}" for view, look in seen.looks.items() for text in look.unreadable] == []
    assert [f"{view}: {text}" for view, look in seen.looks.items() for text in look.unnamed] == []
    assert [f"{view}: {text}" for view, look in seen.looks.items() for text in look.barriers] == []
