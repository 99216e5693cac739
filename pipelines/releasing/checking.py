"""Checking: nothing is published that breaks its contract, its rules, or lies too far from what was measured.

All of it is judged from the public contract and from released numbers, so its results may be shown.
"""

from __future__ import annotations

from collections.abc import Sequence

from understudy.pipelines.counting.quality import qualities_of
from understudy.pipelines.errors import NotUnderstood, OnlyNoise, ValidationFailed
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.families import family_agreements, family_failures
from understudy.pipelines.releasing.generating import rows_wanted
from understudy.pipelines.releasing.judging import verdict_of_measured
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.table.checks import Check, Checks, Verdict, breaches, checks_of
from understudy.pipelines.table.contract import contract_of
from understudy.pipelines.table.part_checks import breaches_in_parts
from understudy.pipelines.table.rules import broken_rows
from understudy.pipelines.table.synthetic import Synthetic
from understudy.pipelines.table.synthetic_tree import Made, SyntheticTree

MOST_FAILURES = 10


def require_sound(
    synthetic: Made,
    measured: Measurement,
    planned: Planned,
    rows: int | None = None,
    verdict: Verdict = breaches,
) -> list[Agreement]:
    """How the table agrees with what was released, or ValidationFailed. `verdict` runs the checks of the contract."""
    require_worthwhile(measured, planned)
    wanted = rows_wanted(rows, planned)
    if isinstance(synthetic, SyntheticTree) or planned.spec.tree is not None:
        failures = family_failures(synthetic, measured, planned, wanted, verdict)
        agreements = [] if failures else family_agreements(synthetic, measured, planned)
    else:
        contract = contract_of(planned.domain, wanted, measured.facts.get("types"))
        failures = [str(check) for check in _failed(synthetic, checks_of(contract), verdict)]
        agreements = [] if failures else _agreements(synthetic, measured, planned)
    failures += [f"{each.query}: too far from its measurement" for each in agreements if not each.holds]
    if failures:
        told = "; ".join(failures[:MOST_FAILURES])
        more = f" and {len(failures) - MOST_FAILURES} more" if len(failures) > MOST_FAILURES else ""
        raise ValidationFailed(
            f"the synthetic table of {planned.spec.name!r} breaks its contract: {told}{more}",
            "nothing was published and the paid measurement is kept: change `generate` or `publish.rows` if need be "
            "and run `understudy release --resume`, or fit and release again from Python; it spends nothing",
        )
    return agreements


def require_worthwhile(measured: Measurement, planned: Planned) -> None:
    """What `publish.refuse_if` asks of the measurement itself: known before any row is made."""
    require_understood(measured, planned)
    require_useful(measured, planned)


def require_understood(measured: Measurement, planned: Planned) -> None:
    """NotUnderstood if a column passes a limit of `publish.refuse_if`, by noisy cells that were paid for."""
    refuse_if = planned.spec.publish.refuse_if
    limits = refuse_if.limits if refuse_if is not None else {}
    passed = [
        f"{quality.column}: {quality.share(cell):.1%} {cell} (limit {limit:.1%})"
        for quality in qualities_of(measured, planned.domain)
        for cell, limit in limits.items()
        if quality.exceeds(cell, limit)
    ]
    if passed:
        raise NotUnderstood(
            f"{planned.spec.name!r} is not published: too much was not understood: {'; '.join(passed[:MOST_FAILURES])}",
            "the paid measurement is kept. Declare how these columns are written (docs/formats.md), which is measured "
            "and charged anew; or raise publish.refuse_if and run again, which is free",
        )


def require_useful(measured: Measurement, planned: Planned) -> None:
    """OnlyNoise if the copy's verdict is one at which the spec publishes nothing."""
    refuse_if = planned.spec.publish.refuse_if
    verdict = verdict_of_measured(measured, planned)
    if refuse_if is None or refuse_if.verdict is None or verdict is None:
        return
    if verdict.is_refused(refuse_if.verdict):
        worst = ", ".join(f"{table.name} ({table.grade})" for table in verdict.tables[:3])
        raise OnlyNoise(
            f"{planned.spec.name!r} is not published: {verdict.sentence} Worst: {worst}",
            "the paid measurement is kept. Fewer or coarser columns, a larger epsilon or a smaller max_rows would help "
            "(`understudy plan` says which), and are measured and charged anew; without publish.refuse_if it is free",
        )


def _failed(synthetic: Synthetic, checks: Checks, verdict: Verdict) -> Sequence[Check]:
    """Of the table or, where it was made in parts, of what every part was found to be when it was."""
    if synthetic.seen is None:
        return verdict(synthetic.table, checks)
    return breaches_in_parts(synthetic.seen.reports, checks, verdict)


def _agreements(synthetic: Synthetic, measured: Measurement, planned: Planned) -> list[Agreement]:
    """Distances to what was measured, and for each rule how many rows break it, of which none may."""
    rules, seen = planned.spec.generate.rules, synthetic.seen
    broken = (
        [int(broken_rows(rule, synthetic.modelled, planned.domain).sum()) for rule in rules]
        if seen is None
        else seen.broken
    )
    kept = [Agreement(f"rule: {rule}", float(rows), 0.0) for rule, rows in zip(rules, broken, strict=True)]
    return planned.method.agreement(synthetic, measured) + kept
