"""The reference page of all commands, made from their own help; `python -m understudy.cli.reference` prints it."""

from __future__ import annotations

from collections.abc import Iterator

import click

from understudy.cli.main import main

_INTRODUCTION = """# Commands

What each command's `--help` says. Made by `make reference`; a test compares it with the program.
"""


def commands_page() -> str:
    return _INTRODUCTION + "".join(_sections(main, "understudy"))


def _sections(command: click.Command, path: str) -> Iterator[str]:
    names = ["-h", "--help"]
    context = click.Context(command, info_name=path, max_content_width=100, terminal_width=100, help_option_names=names)
    yield f"\n## {path}\n\n```text\n{command.get_help(context).rstrip()}\n```\n"
    if isinstance(command, click.Group):
        for name, child in sorted(command.commands.items()):
            yield from _sections(child, f"{path} {name}")


if __name__ == "__main__":
    click.echo(commands_page(), nl=False)
