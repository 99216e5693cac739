"""A release of several tables, or of a flat one that keeps its entities, once it is generated: what is checked of it.

Post-processing of released numbers. Families that were made in parts (`family_making`) were looked at part by part.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.methods.base import Agreement
from understudy.pipelines.methods.tree.released import ReleasedTree, ReleasedView, released_tree
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.releasing.planning import Planned
from understudy.pipelines.sources.tree.opening import tree_of_frames
from understudy.pipelines.spec.rules import Rule
from understudy.pipelines.spec.tree import ROWS
from understudy.pipelines.table.checks import Checks, HasRows, Verdict, breaches, checks_of
from understudy.pipelines.table.contract import contract_of, where_keys_repeat
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.modelled import modelled
from understudy.pipelines.table.part_checks import breaches_in_parts
from understudy.pipelines.table.rules import broken_rows
from understudy.pipelines.table.synthetic import Synthetic
from understudy.pipelines.table.synthetic_tree import Made, SyntheticTree, seen_families, tables_of
from understudy.pipelines.table.tree_checks import tree_breaches, tree_checks
from understudy.pipelines.table.tree_rules import rows_breaking, tree_rules

MODEL_SLACK = 0.08
"""How far, beside noise, a fitted table may lie from what was measured: children are fitted under fixed parents."""

GAP_SLACK = 0.3
"""Of tables with gaps: moments are drawn within their bins, which cannot follow every column and number at once."""

NOISE_DEVIATIONS = 6


def family_failures(
    made: Made, measured: Measurement, planned: Planned, roots: int | None, verdict: Verdict
) -> list[str]:
    """What is broken, in words: the contract of each table, and what holds between them."""
    failures = []
    for name, checks in checks_by_table(made, measured, planned, roots).items():
        synthetic = tables_of(made)[name]
        broken = (
            verdict(synthetic.table, checks)
            if synthetic.seen is None
            else breaches_in_parts(synthetic.seen.reports, checks, verdict)
        )
        failures += [f"{name}.{check}" if name else str(check) for check in broken]
    if failures:
        return failures
    seen = seen_families(made)
    return failures_between(made, planned, verdict) if seen is None else list(seen.between)


def checks_by_table(made: Made, measured: Measurement, planned: Planned, roots: int | None) -> dict[str, Checks]:
    """The contract of each table, as checks; `made` are all its rows or a part of them."""
    spec, types, found = planned.spec, measured.facts.get("types") or {}, {}
    assert spec.tree is not None
    for name, synthetic in tables_of(made).items():
        of_table = types.get(name) if isinstance(made, SyntheticTree) else types
        exactly = roots if name == spec.tree.root.name else None
        by = spec.tree.table(name or ROWS).by
        contract = where_keys_repeat(contract_of(synthetic.domain, exactly, of_table), by)
        checks = checks_of(contract)
        found[name] = _may_be_empty(checks) if name and name != spec.tree.root.name else checks
    return found


def failures_between(made: Made, planned: Planned, verdict: Verdict = breaches) -> list[str]:
    """What is broken of rules, or else between tables: of all families, or of a part of them, each whole, in memory."""
    spec = planned.spec
    assert spec.tree is not None
    rules = [f"rule: {rule}: {rows:,} rows break it" for rule, rows in _broken(made, planned) if rows]
    if rules:
        return rules
    constant = [name for name in spec.privacy.unit.columns or () if name in planned.domain.published_names]
    checks_between = [
        check for check in tree_checks(spec.tree, constant) if _is_published(check.table, check_columns(check), made)
    ]
    return [str(check) for check in tree_breaches(_by_name(made), checks_between, verdict)]


def _broken(made: Made, planned: Planned) -> list[tuple[Rule, int]]:
    """Each rule of the spec beside the number of rows that break it, by the published values."""
    spec, rules = planned.spec, planned.spec.generate.rules
    if not isinstance(made, SyntheticTree):
        return [(rule, int(broken_rows(rule, made.modelled, planned.domain).sum())) for rule in rules]
    assert spec.tree is not None
    found = tree_rules(rules, spec.tree, planned.domains) if rules else ()
    tables = {
        name: modelled(each.table, each.domain, (*each.domain.surrogates, *each.domain.names))
        for name, each in (made.tables.items() if rules else ())
    }
    return [
        (rule.rule, rows_breaking(rule, tables, spec.tree, planned.domains)) for rule in found if rule.rule is not None
    ]


def check_columns(check: object) -> tuple[str, ...]:
    """The columns that a check between tables looks at in its own table."""
    return tuple(str(value) for key, value in vars(check).items() if key in ("key", "by", "column") and value)


def family_agreements(made: Made, measured: Measurement, planned: Planned) -> list[Agreement]:
    """How far the tables lie from every marginal of every view, counted as private ones are, by the same code."""
    released, seen, one = released_tree(measured), seen_families(made), int(measured.facts["ticks"])
    counted = family_ticks(made, released, planned, one) if seen is None else seen.ticks
    found = [
        each
        for view, tables in zip(released.views, counted, strict=True)
        for each in _of_view(view, [table / one for table in tables], planned.domains)
    ]
    # `family_failures` counted the rows that break each rule before, and found none.
    return found + [Agreement(f"rule: {rule}", 0.0, 0.0) for rule in planned.spec.generate.rules]


def family_ticks(
    made: Made, released: ReleasedTree, planned: Planned, ticks: int, threads: int | None = None
) -> tuple[tuple[np.ndarray, ...], ...]:
    """Of every view, the ticks of every marginal that was asked of it. Those of parts, which hold whole families, add
    up to those of all."""
    spec = planned.spec
    assert spec.tree is not None
    tables = made.shown if isinstance(made, Synthetic) else _by_name(made)
    counted = LocalTree(tree_of_frames(tables, spec), spec.tree, planned.domains, b"synthetic", threads=threads)
    return tuple(tuple(counted.counts(each.view, list(each.view.asked), ticks)) for each in released.views)


def _of_view(view: ReleasedView, found: Sequence[np.ndarray], domains: Mapping[str, TableDomain]) -> list[Agreement]:
    fitted = max([float(table.sum()) for table in found], default=0.0)
    roots, residuals = max(1.0, view.residuals.total), view.residuals
    return [
        Agreement(
            view.view.title(clique, domains),
            float(np.abs(table / max(fitted, 1e-9) - residuals.marginal(clique) / roots).sum() / 2),
            _noise(residuals, clique) / roots + _slack(view, clique),
        )
        for clique, table in zip(view.view.asked, found, strict=True)
    ]


def _slack(view: ReleasedView, clique: Clique) -> float:
    return GAP_SLACK if any(view.view.columns[column].role == "gap" for column in clique) else MODEL_SLACK


def _noise(residuals: Residuals, clique: Clique) -> float:
    """Half the L1 norm that noise hardly exceeds."""
    cells = math.prod(residuals.sizes[column] for column in clique)
    mean = cells * math.sqrt(2 / math.pi)
    deviation = math.sqrt(residuals.noise_cells(clique) * (1 - 2 / math.pi))
    return math.sqrt(residuals.variance(clique)) * (mean + NOISE_DEVIATIONS * deviation) / 2


def _may_be_empty(checks: Checks) -> Checks:
    """Of a table below the root: nobody may have any of its rows."""
    return Checks(checks.form, tuple(check for check in checks.values if not isinstance(check, HasRows)))


def _by_name(made: Made) -> Mapping[str, pa.Table]:
    return {name or ROWS: synthetic.table for name, synthetic in tables_of(made).items()}


def _is_published(table: str, columns: Sequence[str], made: Made) -> bool:
    """Entities of a flat table may be dropped from the copy; then nothing between its rows can be seen."""
    found = _by_name(made).get(table)
    return found is not None and all(column in found.column_names for column in columns)
