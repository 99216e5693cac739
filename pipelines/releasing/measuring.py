"""Measuring: the private table is opened, bounded and counted, and its noisy form is bought. The one place that
touches private rows, for the flow's tasks and the Python interface alike; hence every function here is discreet."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.privacy.ledger.spend import EventCallback, Purchases
from understudy.pipelines.privacy.measurement import Measurement
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
from understudy.pipelines.spec.model import ReleaseSpec


@discreet("ingest")
def named_source(spec: ReleaseSpec, base: Path) -> Source:
    """The source the spec names, with the columns it declares. Reads no row. Whoever asked for it closes it."""
    return _checked(of_period(open_source(spec.source, base, spec), spec), spec)


@discreet("ingest")
def given_source(table: Any, spec: ReleaseSpec) -> Source:
    """A table that a Python program holds, with the columns the spec declares."""
    return _checked(of_period(ArrowSource(arrow_table(table, spec)), spec), spec)


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


def contribution_key(spec: ReleaseSpec) -> bytes:
    """Keys the hash that picks an entity's rows: the same rows for a snapshot however often a run is repeated."""
    return sha256(f"contribution:{spec.hash}".encode()).digest()


@discreet("privatize")
def measure(
    table: PrivateTable, planned: Planned, approval: Approval, books: Books, on_event: EventCallback | None = None
) -> Measurement:
    """Count exactly, and buy the noisy result under the protocol of `privacy.ledger.spend`."""
    requests = {request.stage: request for request in approval.requests}
    purchases = Purchases(books.ledger, books.store, lambda charge: requests[charge.stage], on_event=on_event)
    types = catalogue_types(getattr(table, "source", None), planned.domain)
    sold = remembering(purchases, planned.spec, types) if len(planned.plan.charges) == 1 else purchases
    measured = planned.method.measure(table, planned.spec, planned.plan, sold)
    return replace(measured, facts={**measured.facts, "types": types}) if types else measured
