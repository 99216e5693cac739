"""Planning: what a spec comes to, decided once, before anything is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import Method, MethodPlan
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.methods.tree.plan import plan_tree, tree_domains
from understudy.pipelines.privacy.ledger.spend import EventCallback
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.rolling import declared_steps, enter_series
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.tree_rules import tree_rules


class Planned:
    """A spec with its domain, its method and the method's plan, as every later stage uses them.

    Not a dataclass: an orchestrator looks through those value by value each time one is handed on, which for the bins
    of a wide table takes longer than to make them.
    """

    def __init__(
        self,
        spec: ReleaseSpec,
        domain: TableDomain,
        method: Method[Any],
        plan: MethodPlan[Any],
        bought: tuple[str, ...] = (),
        discovered: tuple[str, ...] = (),
        domains: Mapping[str, TableDomain] | None = None,
    ) -> None:
        self.spec = spec
        self.domain = domain
        self.method = method
        self.plan = plan
        self.bought = bought  # charges by which this release bought what its columns can hold
        self.discovered = discovered  # columns that the spec left open
        self.domains = domains or {}  # of a tree, by table, parents first; `domain` is then of a flat table, or empty


def plan_release(spec: ReleaseSpec) -> Planned:
    """Reads no row and no ledger. Numbers that no noise can be calibrated to are the spec's mistake, not a crash."""
    try:
        domain, method = TableDomain.of(spec), method_named(spec.method.name)
        if spec.tree is not None:
            domains = tree_domains(spec)
            tree_rules(spec.generate.rules, spec.tree, domains)  # refuses what cannot be kept before anything is paid
            return Planned(spec, domain, method, plan_tree(spec, domains), domains=domains)
        return Planned(spec, domain, method, method.plan(spec, domain))
    except (ValueError, ArithmeticError, MemoryError) as error:
        reason = str(error)[:200] or type(error).__name__  # a plan knows public values only, so this may be told
    raise SpecError(
        f"the method {spec.method.name} has no plan at epsilon {spec.privacy.epsilon} and delta {spec.privacy.delta}: "
        f"{reason}",
        "use a larger epsilon or delta, tighter bounds or fewer bins",
    )


def enter_period(
    planned: Planned,
    books: Books,
    pay_again: bool = False,
    resume: bool = False,
    on_event: EventCallback | None = None,
) -> Planned:
    """The plan of a rolling release as its period's account pays for it, once the series is paid for."""
    spec = enter_series(books.ledger, books.store, planned.spec, planned.plan, pay_again, resume, on_event=on_event)
    plan = replace(planned.plan, steps=(*planned.plan.steps, *declared_steps(planned.spec)))
    return Planned(spec, planned.domain, planned.method, plan, planned.bought, planned.discovered, planned.domains)
