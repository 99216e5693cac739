"""Aligned columns of text: the same in a terminal, a pipe and a log, and never wrapped."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import click


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]], right: Collection[str] = ()) -> None:
    widths = [max(len(line[i]) for line in (headings, *rows)) for i in range(len(headings))]

    def aligned(line: Sequence[str]) -> str:
        cells = [
            cell.rjust(width) if heading in right else cell.ljust(width)
            for cell, width, heading in zip(line, widths, headings, strict=True)
        ]
        return "  ".join(cells).rstrip()

    click.secho(aligned(headings), bold=True)
    for row in rows:
        click.echo(aligned(row))
