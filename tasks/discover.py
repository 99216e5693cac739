"""Discover: what columns can hold that the spec leaves open, remembered by the ledger or bought, once.

Skipped where everything is known. It has no retries: like `privatize` it is protected by the ledger, which knows what
was bought whatever became of the run.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from prefect.runtime import flow_run

from understudy.pipelines.discovery.tallying import tally_table
from understudy.pipelines.privacy.ledger.fault_points import fault_point
from understudy.pipelines.privacy.ledger.ledger import Charge
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.discovering import Tallying, Terms, buy_domain, require_affordable
from understudy.pipelines.releasing.domains import Known, known_domain
from understudy.pipelines.releasing.measuring import named_source, named_tree
from understudy.pipelines.releasing.policy import Policy, scheduler_of
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.identity import data_identity
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.tasks.preflight import require_ready
from understudy.tasks.telling.advancing import watched
from understudy.tasks.telling.events import announce_charge
from understudy.tasks.telling.retrying import unstored
from understudy.tasks.telling.stages import tell

DISCOVERING = "discovering what columns hold"
REUSING = "reusing what columns hold: nothing is spent on it"


@unstored
def discover(
    spec: ReleaseSpec, books: Books, base: Path, resume: bool = False, pay_again: bool = False, rediscover: bool = False
) -> Known:
    known = known_domain(spec, books, rediscover)
    if known is not None:
        if known.reused:
            tell(REUSING)
        return known
    tell(DISCOVERING)
    terms = Terms(str(flow_run.id or ""), data_identity(spec, base), resume, pay_again, rediscover)
    price = require_affordable(spec, books, terms)
    require_ready(spec, books, base)
    happened: list[tuple[str, Charge]] = []

    def opened(assumed: ReleaseSpec) -> closing[Source | TreeSource]:
        if assumed.tables is not None:
            return closing(named_tree(assumed, base))
        return closing(watched(named_source(assumed, base), assumed, "discovering"))

    try:
        known = buy_domain(
            spec, price, opened, books, terms,
            on_event=lambda what, charge: happened.append((what, charge)), tallying=_tallying(spec),
        )  # fmt: skip
    finally:
        for what, charge in happened:
            announce_charge(what, charge)
    fault_point("after_discover")
    return known


def _tallying(spec: ReleaseSpec) -> Tallying:
    """Which engine sums up can change nothing but the time."""
    if spec.compute.engine != "dask":
        return tally_table
    from understudy.tasks.engines.dask_discovery import DaskTallying

    return DaskTallying(scheduler_of(spec, Policy.from_environment()))
