"""`understudy compare`: what a copy gets wrong, for the owner of the table alone."""

from __future__ import annotations

from pathlib import Path

import click

from understudy.pipelines.comparing.comparing import compare_release
from understudy.pipelines.comparing.model import Comparison, TreeComparison
from understudy.pipelines.comparing.page import write_comparison
from understudy.pipelines.discovery.asking import open_columns
from understudy.pipelines.errors import SpecError
from understudy.pipelines.publishing.targets.base import target_place
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.domains import known_domain, without_discovery
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.spec.address import is_in
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import load_spec


def run_compare(spec_file: Path, release: str, to: Path | None, labels: tuple[str, ...]) -> None:
    spec, base = load_spec(spec_file), spec_file.absolute().parent
    chosen = to or Workspace.from_environment().home / "confidential"
    published = target_place(spec.publish.address, base)
    if published is not None and is_in(chosen.absolute(), published):
        raise SpecError(
            f"{chosen} lies where releases are published, and a comparison is confidential", "name another folder"
        )
    click.echo("reading the private table through the bounds of the spec; nothing is spent ...", err=True)
    found = compare_release(_as_released(spec), base, release, labels)
    page = write_comparison(found, chosen / found.name / found.release_id)
    click.echo(f"compared   {_told(found)}")
    click.echo(f"page       {page}")
    click.secho("CONFIDENTIAL: computed from private rows without noise; not covered by the guarantee", fg="red")


def _told(found: Comparison | TreeComparison) -> str:
    if isinstance(found, Comparison):
        return f"{len(found.columns)} columns, {len(found.pairs):,} pairs, {len(found.triples):,} triples"
    pairs = sum(len(table.pairs) + len(table.across) + len(table.in_order) for table in found.tables)
    return f"{len(found.tables)} tables, {sum(len(table.columns) for table in found.tables)} columns, {pairs:,} pairs"


def _as_released(spec: ReleaseSpec) -> ReleaseSpec:
    """With what the ledger remembers of columns that the spec leaves open."""
    if not open_columns(spec):
        return without_discovery(spec)
    known = known_domain(spec, Books.open(Workspace.from_environment()))
    if known is None:
        raise SpecError("what the open columns hold was not bought yet", "compare once the spec was released")
    return known.spec
