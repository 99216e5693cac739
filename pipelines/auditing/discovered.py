"""A release that buys what its columns can hold first, step by step as `releasing.discovering` sells it.

The rounds, their questions, noise and sums are those of a release; only the ledger is not there. That a whole release
goes through the same steps is seen from the outside (tests/auditing/test_whole.py).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import lru_cache
from typing import Any

from understudy.pipelines.auditing.values import Tables
from understudy.pipelines.discovery.asking import (
    KIND,
    STAGES,
    DiscoveryPlan,
    discovery_unit,
    first_round,
    open_columns,
    second_round,
)
from understudy.pipelines.discovery.closing import Sizes, closed_column
from understudy.pipelines.discovery.found import found_of
from understudy.pipelines.discovery.rules import CLOSINGS, VERSION
from understudy.pipelines.discovery.sizing import affordable_bins, affordable_values
from understudy.pipelines.discovery.tallying import tally_table
from understudy.pipelines.discovery.thresholds import grain
from understudy.pipelines.discovery.tree_tallying import tally_tree
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.releasing.domains import assumed_spec, closed_spec
from understudy.pipelines.releasing.measuring import contribution_key, given_source
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.model import ReleaseSpec

Purchase = Callable[[PlannedCharge, Mechanism[Any]], Measurement]
RULES = CLOSINGS[VERSION]


def discovered(
    spec: ReleaseSpec, table: Tables, purchase: Purchase, opened: Callable[[Any, ReleaseSpec], Source | TreeSource]
) -> Planned:
    """The release as it is planned after both rounds."""
    columns = open_columns(spec)
    kept_people = spec.tables is None and spec.tree is not None  # whose table is looked at row by row, as in a release
    with closing((given_source if kept_people else opened)(table, assumed_spec(spec))) as source:
        bought = _asked(spec, first_round(spec, columns), source, purchase)
        found = {name: found_of(bought, place, RULES) for place, name in enumerate(columns)}
        further = second_round(spec, columns, found)
        if further is not None:
            more = _asked(spec, further, source, purchase)
            for place, question in enumerate(further.columns):
                found[question.name] = found[question.name].with_more(found_of(more, place, RULES))
    units = next(each.units for each in found.values())
    room = units, 1.0, sum(len(each.columns) for each in spec.alone.values())
    sizes = Sizes(affordable_bins(*room), affordable_values(*room))
    bodies = {name: closed_column(column, found[name], sizes) for name, column in columns.items()}
    return _planned(closed_spec(spec, bodies, bought=True).model_dump_json(), tuple(columns))


@lru_cache(maxsize=8)
def _planned(spec: str, open_before: tuple[str, ...]) -> Planned:
    """Both tables of a pair come to the same plan, after the same history."""
    planned = plan_release(ReleaseSpec.model_validate_json(spec))
    return Planned(planned.spec, planned.domain, planned.method, planned.plan, STAGES, open_before, planned.domains)


def _asked(spec: ReleaseSpec, plan: DiscoveryPlan, source: Source | TreeSource, purchase: Purchase) -> Measurement:
    asked, unit = [one.asked for one in plan.columns], discovery_unit(spec)
    if isinstance(source, TreeSource):
        sums = tally_tree(source, spec, asked, unit)
    else:
        sums = tally_table(source, asked, unit, contribution_key(spec))
    stds = {question.name: std for question, std in zip(plan.noise.questions, plan.noise.stds, strict=True)}
    facts = {"grain": grain(unit), "stds": stds}
    return purchase(plan.charge, Mechanism(plan.noise, sums, KIND, facts))
