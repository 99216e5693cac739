"""PrivPGD as a method of the flow: noisy marginals are bought once, particles are moved to fit them.

Reference. PrivPGD: Particle Gradient Descent and Optimal Transport for Private Tabular Data Synthesis, Algorithm 3.
The guarantee is that of `marginals.mechanism`; all of this module after `purchase` is post-processing (Lemma 3.2).
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.adaptive import measure_adaptively
from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.counting.mechanism import MarginalNoise, calibrate_marginals, release_counts
from understudy.pipelines.counting.released import marginals_measurement, noisy_total, released_marginals, title
from understudy.pipelines.counting.workload import Workload, choose_workload
from understudy.pipelines.methods.base import (
    Agreement,
    MethodPlan,
    NoiseLine,
    PlannedCharge,
    PrivateTable,
    Progress,
    Purchase,
)
from understudy.pipelines.methods.privpgd.options import privpgd_options
from understudy.pipelines.methods.privpgd.problem import NoisyMarginal, grid_of
from understudy.pipelines.methods.privpgd.rounds import describe_rounds, plan_adaptive, quick_copy
from understudy.pipelines.methods.privpgd.statistics import (
    region_of,
    rule_constraints,
    statistic_constraints,
    statistic_key,
)
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import keep_order

STAGE = "marginals"
# A synthetic marginal may miss the noisy one by the noise itself and by what a finite set of particles cannot express.
MODEL_SLACK = 0.05
NOISE_DEVIATIONS = 6  # hundreds of marginals are checked, and a sound release must not fail by chance


class PrivPGDMethod:
    name = "privpgd"

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan:
        options = privpgd_options(spec, domain)
        if options.marginals == "adaptive":
            return describe_rounds(plan_adaptive(spec, domain), domain)
        workload, noise = _decide(spec, domain)
        lines = tuple(
            NoiseLine(title(clique, domain), _cells(clique, domain), std)
            for clique, std in zip(workload.cliques, noise.stds, strict=False)
        )
        bought = zip(options.statistics, noise.stds[len(lines) :], strict=True)
        lines += tuple(NoiseLine(f"statistic {name}", 1, std) for name, std in bought)
        wide = sum(len(clique) > 1 for clique in workload.cliques)
        return MethodPlan(
            method=self.name,
            charges=(PlannedCharge(STAGE, noise.event),),
            noise=lines,
            steps=(
                f"count {wide} marginals and {len(workload.cliques) - wide} one-way marginals exactly",
                "add rounded Gaussian noise to every cell, once",
                "move particles until their marginals fit the noisy ones",
            ),
            details={"marginals": len(workload.cliques), "cells": sum(line.numbers for line in lines)},
            counted=workload.cliques,
        )

    def measure(self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan, purchase: Purchase) -> Measurement:
        privacy, domain = spec.privacy, table.domain
        options = privpgd_options(spec, domain)
        if options.marginals == "adaptive":
            bought = measure_adaptively(
                plan_adaptive(spec, domain), table.counts, quick_copy(grid_of(domain)), purchase
            )
            return marginals_measurement(bought, "rounded", domain, None)
        workload, noise = _decide(spec, domain)
        regions = [region_of(statistic, domain) for statistic in options.statistics.values()]
        counted = table.counts([*workload.cliques, *(region.clique for region in regions)])
        exact, rest = counted[: len(workload.cliques)], counted[len(workload.cliques) :]
        inside = [region.count(marginal) for region, marginal in zip(regions, rest, strict=True)]

        def draw(randomness: RandomSource) -> Measurement:
            noisy, event = release_counts(exact + inside, noise, privacy.relation, privacy.protected_unit, randomness)
            if event != plan.charges[0].event:
                raise AssertionError("the drawn noise is not the planned noise; nothing is released")
            released = list(zip(workload.cliques, noisy, noise.stds, strict=False))
            measured = marginals_measurement(released, noise.sampler, domain, _public_total(exact, spec))
            numbers = {statistic_key(name): n for name, n in zip(options.statistics, noisy[len(exact) :], strict=True)}
            return replace(measured, arrays={**measured.arrays, **numbers})

        return purchase(plan.charges[0], draw)

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
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

    def agreement(self, synthetic: pa.Table, measured: Measurement, domain: TableDomain) -> list[Agreement]:
        """Total variation between each noisy marginal and the synthetic one, against what the noise alone causes."""
        released = list(released_marginals(measured))
        total = max(1.0, float(noisy_total(measured)))
        encoded = encode(synthetic, domain)
        counted = count_marginals([encoded], domain.sizes, [clique for clique, _, _ in released])
        return [
            Agreement(
                title(clique, domain),
                float(np.abs(fitted / max(1, encoded.rows) - noisy / total).sum() / 2),
                _distance_of_noise(noisy.size, std) / total + MODEL_SLACK,
            )
            for (clique, noisy, std), fitted in zip(released, counted, strict=True)
        ]


def _decide(spec: ReleaseSpec, domain: TableDomain) -> tuple[Workload, MarginalNoise]:
    """The marginals, and the noise of each of them and then of each statistic."""
    options = privpgd_options(spec, domain)
    assert options.marginals != "adaptive"
    workload = choose_workload(options.marginals, domain, options.one_way_share, options.split)
    extra = [statistic.share for statistic in options.statistics.values()]
    shares = (*(share * (1 - math.fsum(extra)) for share in workload.shares), *extra)
    privacy = spec.privacy
    noise = calibrate_marginals(shares, privacy.budget, privacy.relation, privacy.protected_unit, privacy.noise)
    return workload, noise


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
