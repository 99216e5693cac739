"""Writing a page that somebody asked for."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.pipelines.errors import SpecError


def write_page(to: Path, text: str, option: str, quiet: bool = False) -> None:
    """`quiet`: it says so on stderr, since something else is printed."""
    try:
        to.write_text(text, encoding="utf-8")
    except OSError as error:
        problem = error.strerror
    else:
        click.echo(f"wrote {to}: open it in a browser, or print it", err=quiet)
        return
    raise SpecError(f"cannot write {to}: {problem}", f"name another file with {option}")
