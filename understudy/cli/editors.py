"""`understudy spec schema|check` and `understudy completion`: for editors, shells and pipelines that check specs."""

from __future__ import annotations

from pathlib import Path

import click


@click.group("spec")
def spec_group() -> None:
    """For editors and for pipelines that check specs before they run them."""


@spec_group.command("schema")
def spec_schema() -> None:
    """Print the JSON Schema of a spec: every key with its description and default."""
    print_schema()


def print_schema() -> None:
    from understudy.pipelines.drafting.schema import shipped_schema

    click.echo(shipped_schema(), nl=False)


@spec_group.command("check")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path))
def spec_check(files: tuple[Path, ...]) -> None:
    """Check each of FILES: keys, types, the method's options and its plan. Needs no ledger and reads no row.

    Every mistake is told by its line. Exit code 2 if there is one.
    """
    from understudy.pipelines.errors import SpecError, UnderstudyError

    problems = []
    for path in files:
        try:
            click.echo(checked(path))
        except UnderstudyError as error:
            problems.append(str(error) if str(path) in error.problem else f"{path}: {error}")
    if problems:
        raise SpecError("\n".join(problems))


def checked(path: Path) -> str:
    from understudy.pipelines.discovery.asking import open_columns
    from understudy.pipelines.drafting.writing import open_lines
    from understudy.pipelines.releasing.apart import require_apart
    from understudy.pipelines.releasing.domains import assumed_spec
    from understudy.pipelines.releasing.planning import plan_release
    from understudy.pipelines.releasing.versions import require_versions
    from understudy.pipelines.sources.opening import open_source
    from understudy.pipelines.spec.reading import load_spec, read_spec

    spec = load_spec(path)
    require_versions(spec)
    planned = plan_release(assumed_spec(spec))
    for alone in spec.alone.values():
        open_source(alone.source, path.parent, alone).close()
    require_apart(spec, path.parent)
    domains = [planned.domains[name] for name in spec.tables] if spec.tables is not None else [planned.domain]
    modelled = sum(len(domain.columns) + len(domain.tensors) for domain in domains)
    columns = sum(len(alone.columns) for alone in spec.alone.values())
    waiting = open_lines(read_spec(path))
    told = f"; still open: lines {', '.join(map(str, waiting))}" if waiting else ""
    if found := len(open_columns(spec)):
        told += f"; {found} {'is' if found == 1 else 'are'} to be discovered"
    told = f" of {len(spec.tables)} tables{told}" if spec.tables is not None else told
    return f"{path}: sound. {modelled} of {columns} columns are copied, by {spec.method.name}{told}"


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what completes commands and options in SHELL.

    bash: eval "$(understudy completion bash)" in ~/.bashrc. zsh: the same in ~/.zshrc. fish: understudy completion fish
    > ~/.config/fish/completions/understudy.fish
    """
    from click.shell_completion import get_completion_class

    from understudy.cli.main import main

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(main, {}, "understudy", "_UNDERSTUDY_COMPLETE").source())
