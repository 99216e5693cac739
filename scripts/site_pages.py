"""What the documentation's theme leaves out for those who hear a page: mkdocs runs this on every page it writes."""

from __future__ import annotations

from typing import Any


def on_post_page(output: str, **_: Any) -> str:
    """The search is a dialog and gets a name; icons stand beside or inside something that has one."""
    named = output.replace('role="dialog"', 'role="dialog" aria-label="Search"')
    return named.replace("<svg xmlns=", '<svg aria-hidden="true" xmlns=')
