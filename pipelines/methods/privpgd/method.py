"""PrivPGD as a method of the flow: what answers the marginals is bought once, particles are moved to fit it.

Reference. PrivPGD: Particle Gradient Descent and Optimal Transport for Private Tabular Data Synthesis, Algorithm 3.
The guarantee is that of `counting.residuals`; all of this module after `purchase` is post-processing (Lemma 3.2).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.adaptive import AdaptivePlan, measure_adaptively
from understudy.pipelines.counting.copies import counts_of
from understudy.pipelines.counting.quality import quality_fact
from understudy.pipelines.counting.released import (
    GROUPED,
    KIND,
    RESIDUALS,
    counts_entities,
    grouped_by_name,
    grouped_facts,
    marginal_facts,
    marginals_by_name,
    noise_cells,
    noisy_total,
    released_entities,
    released_marginals,
    released_residuals,
    released_tables,
    title,
)
from understudy.pipelines.methods.base import (
    Agreement,
    MethodPlan,
    PrivateTable,
    Progress,
    Sampler,
)
from understudy.pipelines.methods.privpgd.listed import ListedDesign, describe_listed, measure_listed, plan_listed
from understudy.pipelines.methods.privpgd.options import privpgd_options
from understudy.pipelines.methods.privpgd.problem import Noisy, NoisyMarginal, grid_of
from understudy.pipelines.methods.privpgd.rounds import describe_rounds, plan_adaptive, quick_copy
from understudy.pipelines.methods.privpgd.statistics import rule_constraints, statistic_constraints
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Purchase
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.decode import decode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.rules import keep_order
from understudy.pipelines.table.synthetic import Synthetic

if TYPE_CHECKING:
    from understudy.pipelines.methods.privpgd.engine import Fitted

# A synthetic marginal may miss the noisy one by the noise itself and by what a finite set of particles cannot express.
MODEL_SLACK = 0.05
NOISE_DEVIATIONS = 6  # hundreds of marginals are checked, and a sound release must not fail by chance


PrivPGDDesign = ListedDesign | AdaptivePlan


class PrivPGDMethod:
    name = "privpgd"

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan[PrivPGDDesign]:
        options = privpgd_options(spec, domain)
        if options.marginals == "adaptive":
            return describe_rounds(plan_adaptive(spec, options, domain), domain)
        return describe_listed(plan_listed(spec, options, domain), domain)

    def measure(
        self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan[PrivPGDDesign], purchase: Purchase
    ) -> Measurement:
        design, domain = plan.design, table.domain
        if isinstance(design, AdaptivePlan):
            bought, cells = measure_adaptively(design, table.counts, quick_copy(grid_of(domain)), purchase)
            cliques, marginals, stds = zip(*bought.marginals, strict=True)
            facts = marginal_facts(cliques, stds, design.one_way.sampler, domain, None)
            facts |= quality_fact(design.quality, design.one_way)
            if bought.grouped:
                facts[GROUPED] = grouped_facts(
                    [each for each, _, _ in bought.grouped], [s for _, _, s in bought.grouped]
                )
            in_groups = grouped_by_name([counts for _, counts, _ in bought.grouped])
            return Measurement(KIND, facts, {**marginals_by_name(marginals), **in_groups, **cells})
        return measure_listed(table, spec, design, plan.charges[0], purchase)

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
        workshop: Path | None = None,
    ) -> pa.Table:
        rng, within = np.random.default_rng(), np.random.default_rng()
        wanted = noisy_total(measured) if rows is None else rows
        fitted = _fitted(measured, spec, domain, wanted, rng, progress)
        codes = fitted.unmerged(fitted.codes, rng)
        return keep_order(decode(codes, domain, within), codes, spec.generate.rules, domain, within)

    def rows_of(self, measured: Measurement, spec: ReleaseSpec, domain: TableDomain) -> int:
        return int(noisy_total(measured))

    def sampler(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int,
        rng: np.random.Generator,
        progress: Progress,
        workshop: Path | None = None,
    ) -> Sampler:
        from understudy.pipelines.methods.privpgd.drawing import FITTED_ROWS, FittedRows

        fitted = _fitted(measured, spec, domain, min(rows, FITTED_ROWS), rng, progress)
        return FittedRows(fitted, domain, spec.generate.rules)

    def compared(self, measured: Measurement) -> Sequence[tuple[int, ...]]:
        if counts_entities(measured):
            return released_entities(measured).asked
        return [clique for clique, _, _ in released_marginals(measured)]

    def agreement(self, synthetic: Synthetic, measured: Measurement) -> list[Agreement]:
        """Total variation between each noisy marginal and the synthetic one, against what the noise alone causes."""
        if counts_entities(measured):
            from understudy.pipelines.methods.privpgd.entity_agreement import entity_agreement

            return entity_agreement(synthetic, released_entities(measured), MODEL_SLACK, NOISE_DEVIATIONS)
        released = list(released_marginals(measured))
        total = max(1.0, float(noisy_total(measured)))
        domain, rows = synthetic.domain, max(1, synthetic.rows)
        counted = counts_of(synthetic, [clique for clique, _, _ in released])
        return [
            Agreement(
                title(clique, domain),
                float(np.abs(fitted / rows - noisy / total).sum() / 2),
                _distance_of_noise(noisy.size, cells, std) / total + MODEL_SLACK,
            )
            for (clique, noisy, std), cells, fitted in zip(released, noise_cells(measured), counted, strict=True)
        ]


def _fitted(
    measured: Measurement,
    spec: ReleaseSpec,
    domain: TableDomain,
    rows: int,
    rng: np.random.Generator,
    progress: Progress,
) -> Fitted:
    # torch and numba take seconds to import, and planning needs neither.
    from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
    from understudy.pipelines.methods.privpgd.engine import fit

    config = PrivPGDConfig(particles=spec.generate.particles, device=spec.generate.device)
    if spec.generate.epochs is not None:
        config = replace(config, epochs=spec.generate.epochs)
    options = privpgd_options(spec, domain)
    rules, statistics = spec.generate.rules, options.statistics
    total = noisy_total(measured)
    return fit(
        _noisy(measured),
        grid_of(domain),
        rows,
        config,
        rng,
        constraints=rule_constraints(rules, domain) + statistic_constraints(statistics, measured, total, domain),
        total=measured.facts["public_total"],
        focus=frozenset(domain.index(name) for name in options.focus),
        progress=lambda done, steps, loss: progress(done, steps, f"transport loss {loss:.2e}"),
    )


def _noisy(measured: Measurement) -> Noisy:
    if counts_entities(measured):
        return released_entities(measured)
    if measured.kind == RESIDUALS:
        return released_residuals(measured)
    if GROUPED in measured.facts:
        return released_tables(measured)
    return [NoisyMarginal(clique, counts, std) for clique, counts, std in released_marginals(measured)]


def _distance_of_noise(cells: int, independent: float, std: float) -> float:
    """Half the L1 norm that noise hardly exceeds: |N(0, s^2)| has mean s sqrt(2/pi) and variance s^2 (1 - 2/pi)."""
    mean, deviation = cells * math.sqrt(2 / math.pi), math.sqrt(independent * (1 - 2 / math.pi))
    return std * (mean + NOISE_DEVIATIONS * deviation) / 2
