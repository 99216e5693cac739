"""Measuring: the private table is opened, bounded and counted, and its noisy form is bought. The one place that
touches private rows, for the flow's tasks and the Python interface alike; hence every function here is discreet."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.discovery.tally import Tally
from understudy.pipelines.discovery.tree_tallying import attribution_key, open_words
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.methods.tree.measure import measure_tree
from understudy.pipelines.privacy.ledger.spend import EventCallback, Purchases
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.releasing.approving import Approval, remembering
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.discretion import discreet
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.sources.catalogue import catalogue_types
from understudy.pipelines.sources.frames import arrow_table
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.modelled import as_modelled
from understudy.pipelines.sources.opening import Source, check_columns, open_source
from understudy.pipelines.sources.period import of_period
from understudy.pipelines.sources.tree.opening import TreeSource, open_tree, tree_of_frames
from understudy.pipelines.spec.model import ReleaseSpec


@discreet("ingest")
def named_source(spec: ReleaseSpec, base: Path) -> Source:
    """The source the spec names, with the columns it declares. Reads no row. Whoever asked for it closes it."""
    return _checked(of_period(open_source(spec.source, base, spec), spec), spec)


@discreet("ingest")
def given_source(table: Any, spec: ReleaseSpec) -> Source:
    """A table that a Python program holds, with the columns the spec declares."""
    return _checked(of_period(ArrowSource(arrow_table(table, spec)), spec), spec)


@discreet("ingest")
def named_tree(spec: ReleaseSpec, base: Path) -> TreeSource:
    """The same of a release of several tables, or of one that keeps its entities."""
    return open_tree(spec, base)


@discreet("ingest")
def given_tree(tables: Any, spec: ReleaseSpec) -> TreeSource:
    """Tables that a Python program holds, by name; of a flat table that keeps its entities, that table."""
    return tree_of_frames(tables, spec)


def _checked(source: Source, spec: ReleaseSpec) -> Source:
    with ExitStack() as unless_sound:
        unless_sound.callback(source.close)
        check_columns(source.schema(), spec)
        unless_sound.pop_all()
    return source


@discreet("normalize")
def counted_here(source: Source, planned: Planned) -> PrivateTable:
    """The table as codes of the public domain, encoded while it streams through this process."""
    spec = planned.spec
    return LocalTable(
        as_modelled(source, planned.domain), planned.domain, spec.privacy.protected_unit, contribution_key(spec)
    )


@discreet("normalize")
def counted_tree(source: TreeSource, planned: Planned) -> LocalTree:
    """The tables as codes, attributed to their roots and bounded when they are first counted.

    A release that bought what its columns can hold attributes rows as it did when it bought that.
    """
    spec = planned.spec
    assert spec.tree is not None
    ids_are_text = spec.privacy.protected_unit.ids_are_text
    if spec.tables is None or not planned.bought:
        return LocalTree(source, spec.tree, planned.domains, contribution_key(spec), ids_are_text)
    key, nothing = attribution_key(spec), {name: Tally((), Unit()) for name in spec.tree.names}
    beside = open_words(spec, planned.discovered, key, nothing)
    return LocalTree(source, spec.tree, planned.domains, key, ids_are_text, beside=beside)


def contribution_key(spec: ReleaseSpec) -> bytes:
    """Keys the hash that picks an entity's rows: the same rows for a snapshot however often a run is repeated."""
    return sha256(f"contribution:{spec.hash}".encode()).digest()


@discreet("privatize")
def measure(
    table: PrivateTable | LocalTree,
    planned: Planned,
    approval: Approval,
    books: Books,
    on_event: EventCallback | None = None,
) -> Measurement:
    """Count exactly, and buy the noisy result under the protocol of `privacy.ledger.spend`."""
    requests = {request.stage: request for request in approval.requests}
    purchases = Purchases(books.ledger, books.store, lambda charge: requests[charge.stage], on_event=on_event)
    types = _types_of(table, planned)
    sold = remembering(purchases, planned.spec, types) if len(planned.plan.charges) == 1 else purchases
    if isinstance(table, LocalTree):
        measured = measure_tree(table, planned.plan.design, planned.plan.charges[0], sold)
    else:
        measured = planned.method.measure(table, planned.spec, planned.plan, sold)
    return replace(measured, facts={**measured.facts, "types": types}) if types else measured


def _types_of(table: PrivateTable | LocalTree, planned: Planned) -> dict[str, Any]:
    """The types of the source's columns; of several tables, those of each, by table."""
    if not isinstance(table, LocalTree):
        return catalogue_types(getattr(table, "source", None), planned.domain)
    sources = table.source.tables
    if table.tree.is_implied:
        return catalogue_types(sources[table.tree.root.name], planned.domain)
    found = {name: catalogue_types(source, planned.domains[name]) for name, source in sources.items()}
    return {name: types for name, types in found.items() if types}
