"""Charged statistics: shares of rows in a region, bought with the marginals, to be kept or to be hidden.

Sensitivity. The number of rows in a region moves by at most k for a unit of k rows, under either relation, which is
  within the Δ of `marginals.mechanism`; a region is released as one more cell of that Gaussian event. Where entities
  are counted, it is released by the level of their rows, a table of disjoint cells, so that rows can be told from it.
Use. `keep` holds the copy near the noisy value; `hide` pushes it away (PrivPGD section 4.4, equation 12). Both are
  post-processing of the noisy value, never of the true one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from pydantic import Field

from understudy.pipelines.counting.released import counts_entities, released_entities
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.public import Public
from understudy.pipelines.spec.rules import Rule, Selection
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import allowed_cells

if TYPE_CHECKING:
    from understudy.pipelines.methods.privpgd.constraints import Constraint


class StatisticOptions(Public):
    """The share of rows for which all of `where` holds, bought for `share` of the budget."""

    where: dict[str, Selection] = Field(min_length=1, max_length=3, description="what holds for the rows it counts")
    share: float = Field(0.02, gt=0, le=0.5, description="part of the budget that this number gets")
    use: Literal["keep", "hide"] = Field("keep", description="hold the copy to it, or push the copy away from it")
    strength: float = Field(1.0, gt=0, le=1e6, description="how hard")


@dataclass(frozen=True, eq=False)
class Region:
    """The cells of some columns that a statistic counts."""

    clique: Clique
    inside: np.ndarray

    def count(self, marginal: np.ndarray) -> np.ndarray:
        """Of a table over the clique one number; of one with a further axis, a number for each place along it."""
        return np.atleast_1d(marginal[self.inside].sum(axis=0, dtype=np.int64))


def region_of(statistic: StatisticOptions, domain: TableDomain) -> Region:
    clique, allowed = allowed_cells(Rule(forbid=statistic.where), domain)
    return Region(clique, ~allowed)


def statistic_key(name: str) -> str:
    return f"statistic_{name}"


def statistic_constraints(
    statistics: dict[str, StatisticOptions], measured: Measurement, total: float, domain: TableDomain
) -> list[Constraint]:
    """Each bought number as a penalty of the generator."""
    from understudy.pipelines.methods.privpgd.constraints import Preserve, Protect, Statistic

    made: list[Constraint] = []
    for name, statistic in statistics.items():
        region = region_of(statistic, domain)
        value = float(np.clip(_rows_inside(measured, name) / max(total, 1.0), 0.0, 1.0))
        # A region is a product of selections: "all of them hold" is a sum of indicators above their number less a half.
        indicators = _indicators(region)
        inside = Statistic(indicators, offset=0.5 - len(indicators), link="threshold")
        kind = Preserve if statistic.use == "keep" else Protect
        made.append(kind(inside, value, statistic.strength))
    return made


def _rows_inside(measured: Measurement, name: str) -> float:
    """As it was drawn; where entities were counted, the rows of each level of them."""
    drawn = np.asarray(measured.arrays[statistic_key(name)], dtype=np.float64)
    if not counts_entities(measured):
        return float(drawn[0])
    counted = released_entities(measured)
    return float(drawn @ counted.rows_each) / counted.weights.ticks


def rule_constraints(rules: Sequence[Rule], domain: TableDomain) -> list[Constraint]:
    from understudy.pipelines.methods.privpgd.constraints import Allowed

    return [Allowed(*allowed_cells(rule, domain)) for rule in rules]


def refuse_what_cannot_be_bought(
    statistics: dict[str, StatisticOptions], spec: ReleaseSpec, domain: TableDomain
) -> None:
    if sum(statistic.share for statistic in statistics.values()) > 0.9:
        raise SpecError("method.statistics take more than 0.9 of the budget", "lower their shares")
    for statistic in statistics.values():
        region_of(statistic, domain)
    for rule in spec.generate.rules:
        allowed_cells(rule, domain)


def _indicators(region: Region) -> dict[int, np.ndarray]:
    axes = range(len(region.clique))
    return {
        column: np.asarray(region.inside.any(axis=tuple(o for o in axes if o != axis)), dtype=np.float64)
        for axis, column in enumerate(region.clique)
    }
