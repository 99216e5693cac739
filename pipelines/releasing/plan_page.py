"""A plan as a page that whoever answers for the data approves: what would be published of which column, how private,
how good, what it costs. It is made of the spec, its plan and the ledger; no row was read for it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import Any

from understudy.pipelines.inference.verdict import Verdict, rows_needed
from understudy.pipelines.methods.base import MethodPlan
from understudy.pipelines.privacy.accounting import Loss, composed_loss
from understudy.pipelines.privacy.events import describe
from understudy.pipelines.privacy.stating import at_most, spent_text
from understudy.pipelines.publishing.card.first_screen import KINDS, MEANT
from understudy.pipelines.publishing.manifest import public_spec
from understudy.pipelines.publishing.pages.fragment import fragment
from understudy.pipelines.publishing.pages.page import (
    Html,
    Section,
    block,
    code,
    inline,
    listed,
    mark,
    named,
    page,
    panel,
    paragraph,
    table,
)
from understudy.pipelines.releasing.advising import GROUP, Advice, advise, plan_verdict
from understudy.pipelines.spec.columns import IdentifierColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.fitness import Fitness, fitness_of

MOST_NOISE = 200
MOST_CHARGES = 30
MOST_VALUES = 12
MOST_JUDGED = 40


@dataclass(frozen=True)
class PlanTold:
    """A plan with what is said of it. `rows` is a public or an assumed number of rows, `origin` where it comes from;
    `standing` are lines about the account, `costs` about time and memory."""

    spec: ReleaseSpec
    plan: MethodPlan[Any]
    rows: int
    origin: str
    standing: tuple[str, ...] = ()
    cautions: tuple[str, ...] = ()
    costs: tuple[str, ...] = ()
    made_at: str = field(default_factory=lambda: dt.datetime.now(dt.UTC).isoformat(timespec="seconds"))

    @cached_property
    def loss(self) -> Loss:
        privacy = self.spec.privacy
        return composed_loss([charge.event for charge in self.plan.charges], float(privacy.delta), privacy.relation)

    @cached_property
    def verdict(self) -> Verdict | None:
        return plan_verdict(self.spec, self.plan, self.rows)

    @cached_property
    def advice(self) -> Advice | None:
        return advise(self.spec, self.plan, self.rows)

    @cached_property
    def fitness(self) -> dict[str, Fitness]:
        """By column; of several tables, each with its table's name."""
        return {one.column: one for one in every_fitness(self.spec)}

    @property
    def page(self) -> str:
        return plan_page(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> list[str]:
        spent = f"would spend epsilon {spent_text(self.loss.epsilon)} at delta {self.spec.privacy.delta}"
        good = [f"for {self.rows:,} rows ({self.origin}): {self.verdict.sentence}"] if self.verdict is not None else []
        return [
            f"{self.spec.name}, method {self.plan.method}, protects {self.spec.protects}",
            spent,
            *good,
            *self.standing,
        ]

    def _repr_html_(self) -> str:
        heads = ("query", "numbers", "noise std")
        noise = [(named(line.query), f"{line.numbers:,}", f"{line.std:,.1f}") for line in self.plan.noise[:MOST_JUDGED]]
        verdict = self.verdict.grade if self.verdict is not None else "not given"
        facts = [
            (spent_text(self.loss.epsilon), "epsilon it would spend"),
            (verdict, f"verdict for {self.rows:,} rows"),
        ]
        return fragment(
            f"Plan: {self.spec.name}",
            facts,
            Html(listed(self._lines()) + table(heads, noise, "noise of what is measured")),
        )


def every_fitness(spec: ReleaseSpec) -> tuple[Fitness, ...]:
    """Of every column; of several tables, each with its table's name."""
    if spec.tables is None:
        return fitness_of(spec, TableDomain.of(spec))
    found = ((name, one) for name, alone in spec.alone.items() for one in fitness_of(alone, TableDomain.of(alone)))
    return tuple(replace(one, column=f"{name}.{one.column}") for name, one in found)


def plan_page(told: PlanTold) -> str:
    spec = told.spec
    return page(
        f"Plan: {spec.name}",
        Html(f"snapshot {named(spec.source.snapshot)} · spec {code(spec.hash[:16])} · {escape(told.made_at)}"),
        (),
        Html(f'<div class="panels">{"".join(_panels(told))}</div>'),
        _sections(told),
        "Made by Understudy from the spec, its plan and the ledger. No row was read. This page loads nothing and sends "
        "nothing.",
    )


def _panels(told: PlanTold) -> Iterator[Html]:
    spec, privacy = told.spec, told.spec.privacy
    declared = [column for alone in spec.alone.values() for column in alone.columns.values()]
    dropped = sum(isinstance(column, IdentifierColumn) and column.action == "drop" for column in declared)
    tables = f" in {len(spec.alone)} tables" if spec.tables is not None else ""
    yield panel(
        "What would be published",
        Html(
            f'<p><span class="large">{len(declared) - dropped} columns</span>of synthetic rows{tables}, by method '
            f"{escape(told.plan.method)}; {dropped} declared columns are left out. Columns that the spec does not name "
            "are not looked at.</p>"
        ),
    )
    yield panel(
        "How private",
        Html(
            f'<p><span class="large">epsilon {at_most(told.loss.epsilon, 3)}</span>delta {escape(str(privacy.delta))}, '
            f"for {named(spec.protects)} ({escape(privacy.relation.value)}).</p>"
        ),
    )
    yield panel("How good", _good(told))
    lines = [line.strip().removeprefix("! ") for line in told.standing]
    yield panel("What it costs", listed(lines) if lines else paragraph("The account was not looked at."))


def _good(told: PlanTold) -> Html:
    verdict, size = told.verdict, f"{told.rows:,} rows ({told.origin})"
    if verdict is None:
        return Html(
            f'<p><span class="large">no verdict</span>{escape(told.plan.method)} measures no tables of counts that one '
            "could be given from.</p>"
        )
    needed = rows_needed(verdict)
    below = f" Below {needed:,} rows it would be noise." if needed > 1 else ""
    return Html(
        f'<p><span class="large {KINDS[verdict.grade]}">{escape(verdict.grade)}</span>'
        f"{escape(MEANT[verdict.grade])}</p>"
        f"<p>For {escape(size)}, if all values were alike frequent, which is the worst case.{below}</p>"
    )


def _sections(told: PlanTold) -> Iterator[Section]:
    yield Section(
        "Columns, and what would be shown of each",
        Html("".join(_columns(name, alone, told) for name, alone in told.spec.alone.items())),
        "Bounds, bins and categories come from the spec. Whoever approves this says that they are public: no value of "
        "them may be known from the data alone.",
    )
    if told.cautions:
        yield Section("To look at twice", listed(told.cautions))
    if told.verdict is not None:
        yield _judged(told.verdict)
    if told.advice is not None:
        yield _advised(told.advice)
    yield Section("What would be charged", _charges(told), f"By the {told.loss.accountant} accountant.")
    yield _noise(told)
    if told.costs:
        yield Section("Time and memory", listed(told.costs))
    yield Section(
        "The spec",
        block(_yaml(public_spec(told.spec)), "text of the spec"),
        Html(
            f"Without its addresses. Its hash, which the ledger keeps, is {code(told.spec.hash)}: another spec is "
            "another charge."
        ),
    )


def _columns(name: str, alone: ReleaseSpec, told: PlanTold) -> str:
    several = told.spec.tables is not None
    domain = TableDomain.of(alone)
    labels = {column.name: column for column in domain.columns}
    rows = []
    for column, declared in alone.columns.items():
        fit = told.fitness.get(f"{name}.{column}" if several else column)
        exact = f"; exactly {', '.join(fit.exact[:4])}" if fit is not None and fit.exact else ""
        told_apart = "" if fit is None else fit.resolution + exact
        if fit is not None and fit.caution:
            told_apart = Html(f"{escape(told_apart)} {mark(fit.caution, 'caution')}")
        coded = labels.get(column)
        rest = [word for word, on in (("other", coded and coded.has_other), ("null", coded and coded.nullable)) if on]
        rows.append((named(column), declared.type, _shown(declared), ", ".join(rest), told_apart))
    heading = f"<h3>{named(name)}</h3>" if several else ""
    heads = ("column", "type", "what is shown", "besides", "told apart")
    return heading + table(heads, rows, f"columns{f' of {name}' * several}", sortable=True)


def _shown(declared: Any) -> Html:
    """From the declaration alone."""
    if isinstance(declared, IdentifierColumn):
        return mark("left out", "yes") if declared.action == "drop" else inline("fresh ids, unrelated to the real ones")
    values = getattr(declared, "values", None)
    if values:
        more = f" and {len(values) - MOST_VALUES} more" if len(values) > MOST_VALUES else ""
        return Html(f"{', '.join(named(str(value)) for value in values[:MOST_VALUES])}{more}")
    low, high = getattr(declared, "min", None), getattr(declared, "max", None)
    if low is not None and high is not None:
        bins = getattr(declared, "bins", None)
        return inline(f"{low} to {high}" + (f", bins: {bins}" if bins is not None else ""))
    return inline("true or false" if declared.type == "boolean" else "made of other columns, or discovered")


def _judged(verdict: Verdict) -> Section:
    judged = [one for one in verdict.tables if one.grade != "good"][:MOST_JUDGED]
    rows = ((named(one.name), mark(one.grade, KINDS[one.grade]), _part(one.off), f"{one.std:,.1f}") for one in judged)
    heads = ("column or pair", "verdict", "typical error", f"noise of a cell, in {verdict.of}")
    body = table(heads, rows, "verdict by column and pair", sortable=True) if judged else paragraph("All are good.")
    return Section("Verdict by column and pair, the worst first", body, verdict.sentence)


def _advised(advice: Advice) -> Section:
    lines = []
    for column in advice.columns:
        if column.state == "holds":
            continue
        word = "drowns" if column.state == "drowns" else "is blurred"
        changes = "; ".join(
            f"{each.change}: {each.gain or f'noise then moves {_part(each.moved or 0.0)}'}"
            for each in column.suggestions
        )
        told = f" {word}: noise alone moves {_part(column.moved)} of the rows in its tables. {changes}"
        lines.append(Html(f"{named(column.column)}{escape(told)}"))
    body = listed(lines) if lines else paragraph("Every column holds.")
    return Section(
        "Columns that would drown, and what would help",
        body,
        f"A group of {GROUP} rows would be off by about {_part(advice.off_by())}, one of {10 * GROUP:,} rows by "
        f"{_part(advice.off_by(10 * GROUP))}.",
    )


def _charges(told: PlanTold) -> Html:
    rows = [(charge.stage, describe(charge.event)) for charge in told.plan.charges]
    more = len(rows) - MOST_CHARGES
    body = table(("stage", "event"), rows[:MOST_CHARGES], "charges")
    if more > 0:
        body = Html(body + paragraph(f"... and {more} more charges, up to {rows[-1][0]}."))
    steps = "".join(f"<li>{escape(step)}</li>" for step in told.plan.steps)
    total = f"together epsilon {spent_text(told.loss.epsilon)} at delta {told.spec.privacy.delta}"
    return Html(f"{body}{paragraph(total)}<h3>Step by step</h3><ol>{steps}</ol>")


def _noise(told: PlanTold) -> Section:
    lines, each = told.plan.noise, told.plan.rows_a_count
    rows = (
        (named(line.query), f"{line.numbers:,}", f"{line.std:,.3f}", f"{line.std * each / told.rows:.4%}")
        for line in lines[:MOST_NOISE]
    )
    more = f" The first {MOST_NOISE} of {len(lines):,}." if len(lines) > MOST_NOISE else ""
    heads = ("query", "numbers", "noise std", f"share of {told.rows:,} rows")
    return Section("Noise", table(heads, rows, "noise", sortable=True), f"Of each number that is released.{more}")


def _yaml(tree: dict[str, Any]) -> str:
    import yaml

    return str(yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110))


def _part(part: float) -> str:
    return f"{part:.1%}" if part < 1 else f"{part:.1f} times"
