"""Marginals that the spec names: their plan, and the one purchase that answers all of them.

Sensitivity, events and noise are those of `counting.residuals`; the statistics of the spec are released beside, in the
same event.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.pipelines.counting.groups import groupings_of
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.counting.quality import quality_by_name, quality_cliques, quality_fact, quality_shares
from understudy.pipelines.counting.released import (
    LEVEL,
    NUMBERS,
    RESIDUALS,
    grouped_by_name,
    residual_facts,
    residuals_by_name,
)
from understudy.pipelines.counting.residuals import ResidualNoise, residual_noise
from understudy.pipelines.counting.shares import ResidualWorkload, share_out, summed_out, widest_of
from understudy.pipelines.counting.triples import TripleCounts, TriplesNoise
from understudy.pipelines.counting.weighted_tally import level_column, rows_column
from understudy.pipelines.counting.weights import EntityWeights, counted_unit
from understudy.pipelines.counting.workload import Clique, choose_cliques
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import MethodPlan, NoiseLine, PrivateTable
from understudy.pipelines.methods.privpgd.chosen import plan_triples, triples_details, triples_lines, triples_steps
from understudy.pipelines.methods.privpgd.options import PrivPGDOptions, entity_weights
from understudy.pipelines.methods.privpgd.rounds import quality_lines, quality_steps
from understudy.pipelines.methods.privpgd.statistics import Region, region_of, statistic_key
from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.privacy.noise.rounded import MAX_SIGMA
from understudy.pipelines.privacy.relation import Relation, counts_sensitivity
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

STAGE = "marginals"
NUMBERS_SHARE = 0.01
"""Of the budget, for how many entities have how many rows."""

WEIGHED = (
    "weigh the rows of an entity, at most {}, so that every entity counts once; count the level of its rows with them"
)


@dataclass(frozen=True)
class ListedDesign:
    """What answers the marginals that the spec names, and the regions of its statistics: one charge."""

    workload: ResidualWorkload
    regions: tuple[tuple[str, Region], ...]
    noise: ResidualNoise
    focus: frozenset[int] = frozenset()
    without_focus: ListedDesign | None = None
    """The same without `focus`, to tell who pays for it."""
    quality: tuple[Clique, ...] = ()
    """How columns were understood, where the spec asks for it; noised beside, after the regions."""
    triples: TriplesNoise | None = None
    """Where triples are chosen: all of the noise, of which `noise` is then the first release."""
    weights: EntityWeights | None = None
    """How rows are weighed where entities are counted: the level of their rows is then a column after the others, and
    their numbers of rows, where levels do not tell them, are noised beside, before the regions."""

    @property
    def counted(self) -> tuple[Clique, ...]:
        """The marginals that all others are summed out of."""
        return widest_of([*self.workload.asked, *(self.triples.candidates if self.triples else ())])

    @property
    def event(self) -> Event:
        return self.noise.event if self.triples is None else self.triples.event

    @property
    def with_numbers(self) -> bool:
        return self.weights is not None and not self.weights.are_exact

    @property
    def levels(self) -> int:
        """How many numbers a statistic takes."""
        return len(self.weights.levels) if self.weights else 1


def plan_listed(spec: ReleaseSpec, options: PrivPGDOptions, domain: TableDomain) -> ListedDesign:
    """The marginals' residuals, the regions, and the noise of each of them in this order."""
    z = noise_multiplier(spec.privacy.budget, spec.privacy.relation, spec.privacy.noise)
    return _design(spec, options, domain, z, frozenset(domain.index(name) for name in options.focus))


def _design(
    spec: ReleaseSpec, options: PrivPGDOptions, domain: TableDomain, z: float, focus: frozenset[int]
) -> ListedDesign:
    assert options.marginals != "adaptive"
    privacy, weights = spec.privacy, entity_weights(spec, options)
    unit = counted_unit(privacy.protected_unit, weights)
    sizes = counted_sizes(domain, weights)
    one = weights.ticks if weights else 1
    workload = share_out(
        [
            *choose_cliques("all-2way" if options.marginals == "auto" else options.marginals, domain),
            *level_pairs(domain, weights),
        ],
        sizes,
        z * counts_sensitivity(privacy.relation, unit.max_rows) / one,
        one_way_share=options.one_way_share,
        split=options.split,
        public_total=_total_is_public(spec),
        focus=focus,
        raised=dict.fromkeys(level_pairs(domain, weights), level_worth(weights)),
        groupings=groupings_of(domain),
    )
    extra = [NUMBERS_SHARE] if weights and not weights.are_exact else []
    extra += [statistic.share for statistic in options.statistics.values()]
    if privacy.quality is not None:
        extra += quality_shares(privacy.quality, domain)
    if math.fsum(extra) >= 1:
        raise SpecError("privacy.quality and method.statistics leave no budget for marginals", "lower their shares")
    shares = [share * (1 - math.fsum(extra)) for share in (*workload.shares, *workload.grouped_shares)]
    shapes = workload.shapes(sizes)
    noise = residual_noise(shapes, shares, extra, z, privacy.relation, unit, privacy.noise)
    regions = tuple((name, region_of(one, domain)) for name, one in options.statistics.items())
    quality = quality_cliques(domain) if privacy.quality is not None else ()
    without = _design(spec, options, domain, z, frozenset()) if focus else None
    triples = plan_triples(spec, options, domain, sizes, workload, extra, z, unit, one)
    first = noise if triples is None else triples.first
    _refuse_undrawable(workload, first, domain)
    return ListedDesign(workload, regions, first, focus, without, tuple(quality), triples, weights)


def _refuse_undrawable(workload: ResidualWorkload, noise: ResidualNoise, domain: TableDomain) -> None:
    """Noise grows with the number of cells and with the ticks of an entity; the sampler ends somewhere."""
    cliques = [*workload.measured, *(each.columns for each in workload.grouped)]
    for clique, std in zip(cliques, noise.stds, strict=True):
        if noise.sampler == "rounded" and std > MAX_SIGMA:
            raise SpecError(
                f"the noise of {_title(clique, domain)} would be too large to draw", "use fewer bins for these columns"
            )


def measure_listed(
    table: PrivateTable, spec: ReleaseSpec, design: ListedDesign, charge: PlannedCharge, purchase: Purchase
) -> Measurement:
    domain, weights = table.domain, design.weights
    level = level_column(domain)
    regions = [(*region.clique, level) if weights else region.clique for _, region in design.regions]
    numbers = [(rows_column(domain),)] if design.with_numbers else []
    widest_cliques = [tuple(level if c == len(domain.columns) else c for c in each) for each in design.counted]
    wanted = [*widest_cliques, *numbers, *regions, *design.quality]
    counted = table.counts(wanted, weights) if weights else table.counts(wanted)
    widest, rest = counted[: len(design.counted)], counted[len(design.counted) :]
    by_number, rest = rest[: len(numbers)], rest[len(numbers) :]
    summed = summed_out(design.workload.measured, design.counted, widest)
    by_clique = dict(zip(design.workload.measured, summed, strict=True))
    exact = residuals_by_name(summed)
    exact |= grouped_by_name([each.summed(by_clique[each.columns]) for each in design.workload.grouped])
    inside = {
        statistic_key(name): region.count(counts)
        for (name, region), counts in zip(design.regions, rest[: len(regions)], strict=True)
    }
    cells = quality_by_name(rest[len(regions) :])
    total = int(widest[0].sum()) if _total_is_public(spec) else None
    facts = residual_facts(design.workload, design.noise, domain, total, weights)
    facts |= quality_fact(design.quality, design.noise.beside)
    named = {NUMBERS: by_number[0]} if by_number else {}
    tables = {**exact, **named, **inside, **cells}
    if design.triples is None:
        return purchase(charge, Mechanism(design.noise, tables, RESIDUALS, facts))
    counts = TripleCounts(tables, dict(zip(design.counted, widest, strict=True)), total)
    return purchase(charge, Mechanism(design.triples, counts, RESIDUALS, facts))


def describe_listed(design: ListedDesign, domain: TableDomain) -> MethodPlan[Any]:
    workload, noise = design.workload, design.noise
    told = _without_counts(design, domain)
    one = design.weights.ticks if design.weights else 1
    lines = tuple(
        NoiseLine(_title(clique, domain), math.prod(told.sizes[c] for c in clique), math.sqrt(told.variance(clique)))
        for clique in workload.asked
    )
    beside = [std / one for std in noise.beside.stds] if noise.beside else []
    if design.with_numbers:
        assert design.weights is not None
        lines += (NoiseLine("entities by their number of rows", design.weights.max_rows, beside.pop(0)),)
    bought = zip(design.regions, beside[: len(design.regions)], strict=True)
    lines += tuple(NoiseLine(f"statistic {name}", design.levels, std) for (name, _), std in bought)
    lines += quality_lines(design.quality, beside)
    lines += triples_lines(design.triples)
    wide = sum(len(clique) > 1 for clique in workload.asked)
    weighed = (WEIGHED.format(design.weights.max_rows),) if design.weights else ()
    return MethodPlan(
        method="privpgd",
        charges=(PlannedCharge(STAGE, design.event),),
        noise=lines,
        steps=(
            f"count {wide} marginals and {len(workload.asked) - wide} one-way marginals exactly",
            *weighed,
            *quality_steps(design.quality),
            *(triples_steps(design.triples) if design.triples else ("add rounded Gaussian noise, once",)),
            "move particles until their marginals fit the noisy ones",
        ),
        design=design,
        details={
            "marginals": len(workload.asked),
            "residuals": len(workload.measured),
            "cells": sum(line.numbers for line in lines),
            **_who_pays(design, domain),
            **triples_details(design.triples),
        },
        counted=widest_of(_of_columns(design.counted, domain)),
        rows_a_count=math.sqrt(design.weights.max_rows) if design.weights else 1.0,
    )


def _who_pays(design: ListedDesign, domain: TableDomain) -> dict[str, str]:
    """What `focus` does to the noise of its marginals and of the others."""
    if design.without_focus is None:
        return {}
    told, plain = (_without_counts(each, domain) for each in (design, design.without_focus))
    times: dict[bool, list[float]] = {True: [], False: []}
    for clique in design.workload.asked:
        inside = bool(design.focus.intersection(clique))
        times[inside].append(math.sqrt(told.variance(clique) / plain.variance(clique)))
    spans = [f"{min(found):.2f} to {max(found):.2f}" if found else "none" for found in times.values()]
    names = ", ".join(domain.names[column] for column in sorted(design.focus))
    return {"focus": f"{names}; noise of its marginals {spans[0]} times, of the others {spans[1]} times that without"}


def _without_counts(design: ListedDesign, domain: TableDomain) -> Residuals:
    """What is known of the release before it is made: its noise."""
    nothing, one = np.zeros(0), design.weights.ticks if design.weights else 1
    drawn = design.noise.stds if design.triples is None else design.triples.least_stds
    stds = zip(design.workload.measured, design.noise.shapes, drawn, strict=False)  # those of groups come after
    return Residuals(
        design.workload.asked,
        counted_sizes(domain, design.weights),
        {clique: Residual(nothing, std / math.prod(shape) / one) for clique, shape, std in stds},
    )


def _total_is_public(spec: ReleaseSpec) -> bool:
    """n is public under REPLACE_ONE of single rows; an entity may bring fewer rows than its cap, so there it is not."""
    replaced = spec.privacy.relation is Relation.REPLACE_ONE and spec.privacy.unit.entity is None
    return replaced and spec.every_row_counts


def counted_sizes(domain: TableDomain, weights: EntityWeights | None) -> tuple[int, ...]:
    """Of the columns and, where entities are counted, of the level of their rows."""
    return (*domain.sizes, len(weights.levels)) if weights else domain.sizes


def level_pairs(domain: TableDomain, weights: EntityWeights | None) -> list[Clique]:
    """Every column by the level of the entity's rows: what rows are told from."""
    columns = len(domain.columns)
    return [(column, columns) for column in range(columns)] if weights else []


def level_worth(weights: EntityWeights | None) -> float:
    """What a column by level gets of the budget beside a pair: more levels have more rows in the rare ones.

    As much up to four levels, twice for six; chosen on the made table `design` (docs/benchmarks.md).
    """
    return min(max(1.0, len(weights.levels) ** 2 / 18), 2.0) if weights else 1.0


def _of_columns(cliques: Sequence[Clique], domain: TableDomain) -> list[Clique]:
    """The cliques without the level, each once."""
    return list(dict.fromkeys(tuple(c for c in clique if c < len(domain.columns)) for clique in cliques))


def _title(clique: Clique, domain: TableDomain) -> str:
    return " x ".join((*domain.names, LEVEL)[index] for index in clique)
