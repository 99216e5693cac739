"""PrivPGD as a method of the flow: noisy marginals are bought once, particles are moved to fit them.

Reference. PrivPGD: Particle Gradient Descent and Optimal Transport for Private Tabular Data Synthesis, Algorithm 3.
The guarantee is that of `marginals.mechanism`; all of this module after `purchase` is post-processing (Lemma 3.2).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.adaptive import AdaptivePlan, measure_adaptively
from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.mechanism import MarginalNoise, calibrate_marginals
from understudy.pipelines.counting.released import (
    KIND,
    marginal_facts,
    marginals_by_name,
    noisy_total,
    released_marginals,
    title,
)
from understudy.pipelines.counting.workload import Clique, choose_workload
from understudy.pipelines.methods.base import (
    Agreement,
    MethodPlan,
    NoiseLine,
    PrivateTable,
    Progress,
)
from understudy.pipelines.methods.privpgd.options import PrivPGDOptions, privpgd_options
from understudy.pipelines.methods.privpgd.problem import NoisyMarginal, grid_of
from understudy.pipelines.methods.privpgd.rounds import describe_rounds, plan_adaptive, quick_copy
from understudy.pipelines.methods.privpgd.statistics import (
    Region,
    region_of,
    rule_constraints,
    statistic_constraints,
    statistic_key,
)
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import keep_order
from understudy.pipelines.table.synthetic import Synthetic

STAGE = "marginals"
# A synthetic marginal may miss the noisy one by the noise itself and by what a finite set of particles cannot express.
MODEL_SLACK = 0.05
NOISE_DEVIATIONS = 6  # hundreds of marginals are checked, and a sound release must not fail by chance


@dataclass(frozen=True)
class ListedDesign:
    """Marginals that the spec names and the regions of its statistics, all noised together: one charge."""

    cliques: tuple[Clique, ...]
    regions: tuple[tuple[str, Region], ...]
    noise: MarginalNoise


PrivPGDDesign = ListedDesign | AdaptivePlan


class PrivPGDMethod:
    name = "privpgd"

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan[PrivPGDDesign]:
        options = privpgd_options(spec, domain)
        if options.marginals == "adaptive":
            return describe_rounds(plan_adaptive(spec, options, domain), domain)
        return _describe(_listed(spec, options, domain), domain)

    def measure(
        self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan[PrivPGDDesign], purchase: Purchase
    ) -> Measurement:
        design, domain = plan.design, table.domain
        if isinstance(design, AdaptivePlan):
            bought = measure_adaptively(design, table.counts, quick_copy(grid_of(domain)), purchase)
            cliques, marginals, stds = zip(*bought, strict=True)
            facts = marginal_facts(cliques, stds, design.one_way.sampler, domain, None)
            return Measurement(KIND, facts, marginals_by_name(marginals))
        counted = table.counts([*design.cliques, *(region.clique for _, region in design.regions)])
        exact, rest = counted[: len(design.cliques)], counted[len(design.cliques) :]
        regions = zip(design.regions, rest, strict=True)
        inside = {statistic_key(name): region.count(counts) for (name, region), counts in regions}
        stds = design.noise.stds[: len(exact)]
        facts = marginal_facts(design.cliques, stds, design.noise.sampler, domain, _public_total(exact, spec))
        return purchase(plan.charges[0], Mechanism(design.noise, {**marginals_by_name(exact), **inside}, KIND, facts))

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
        workshop: Path | None = None,
    ) -> pa.Table:
        # torch and numba take seconds to import, and planning needs neither.
        from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
        from understudy.pipelines.methods.privpgd.engine import synthesize

        marginals = [NoisyMarginal(c, counts, std) for c, counts, std in released_marginals(measured)]
        config = PrivPGDConfig(particles=spec.generate.particles, device=spec.generate.device)
        if spec.generate.epochs is not None:
            config = replace(config, epochs=spec.generate.epochs)
        rules, statistics = spec.generate.rules, privpgd_options(spec, domain).statistics
        total = noisy_total(measured)
        codes = synthesize(
            marginals,
            grid_of(domain),
            total if rows is None else rows,
            config,
            constraints=rule_constraints(rules, domain) + statistic_constraints(statistics, measured, total, domain),
            total=measured.facts["public_total"],
            progress=lambda done, steps, loss: progress(done, steps, f"transport loss {loss:.2e}"),
        )
        rng = np.random.default_rng()
        return keep_order(decode(codes, domain, rng), codes, rules, domain, rng)

    def agreement(self, synthetic: Synthetic, measured: Measurement) -> list[Agreement]:
        """Total variation between each noisy marginal and the synthetic one, against what the noise alone causes."""
        released = list(released_marginals(measured))
        total = max(1.0, float(noisy_total(measured)))
        domain, encoded = synthetic.domain, synthetic.codes
        counted = count_marginals([encoded], domain.sizes, [clique for clique, _, _ in released])
        return [
            Agreement(
                title(clique, domain),
                float(np.abs(fitted / max(1, encoded.rows) - noisy / total).sum() / 2),
                _distance_of_noise(noisy.size, std) / total + MODEL_SLACK,
            )
            for (clique, noisy, std), fitted in zip(released, counted, strict=True)
        ]


def _listed(spec: ReleaseSpec, options: PrivPGDOptions, domain: TableDomain) -> ListedDesign:
    """The marginals, the regions, and the noise of each of them in this order."""
    assert options.marginals != "adaptive"
    workload = choose_workload(options.marginals, domain, options.one_way_share, options.split)
    extra = [statistic.share for statistic in options.statistics.values()]
    shares = (*(share * (1 - math.fsum(extra)) for share in workload.shares), *extra)
    privacy = spec.privacy
    noise = calibrate_marginals(shares, privacy.budget, privacy.relation, privacy.protected_unit, privacy.noise)
    regions = tuple((name, region_of(one, domain)) for name, one in options.statistics.items())
    return ListedDesign(workload.cliques, regions, noise)


def _describe(design: ListedDesign, domain: TableDomain) -> MethodPlan[PrivPGDDesign]:
    stds = design.noise.stds
    lines = tuple(
        NoiseLine(title(clique, domain), _cells(clique, domain), std)
        for clique, std in zip(design.cliques, stds, strict=False)
    )
    bought = zip(design.regions, stds[len(lines) :], strict=True)
    lines += tuple(NoiseLine(f"statistic {name}", 1, std) for (name, _), std in bought)
    wide = sum(len(clique) > 1 for clique in design.cliques)
    return MethodPlan(
        method="privpgd",
        charges=(PlannedCharge(STAGE, design.noise.event),),
        noise=lines,
        steps=(
            f"count {wide} marginals and {len(design.cliques) - wide} one-way marginals exactly",
            "add rounded Gaussian noise to every cell, once",
            "move particles until their marginals fit the noisy ones",
        ),
        design=design,
        details={"marginals": len(design.cliques), "cells": sum(line.numbers for line in lines)},
        counted=design.cliques,
    )


def _distance_of_noise(cells: int, std: float) -> float:
    """Half the L1 norm that noise hardly exceeds: |N(0, s^2)| has mean s sqrt(2/pi) and variance s^2 (1 - 2/pi)."""
    mean, deviation = cells * math.sqrt(2 / math.pi), math.sqrt(cells * (1 - 2 / math.pi))
    return std * (mean + NOISE_DEVIATIONS * deviation) / 2


def _public_total(exact: list[np.ndarray], spec: ReleaseSpec) -> int | None:
    """n is public under REPLACE_ONE of single rows; an entity may bring fewer rows than its cap, so there it is not."""
    if spec.privacy.relation is Relation.REPLACE_ONE and spec.privacy.unit.entity is None:
        return int(exact[0].sum())
    return None


def _cells(clique: tuple[int, ...], domain: TableDomain) -> int:
    return math.prod(domain.sizes[index] for index in clique)
