"""The Gaussian method as the flow sees it: options are checked, then the chosen mode plans, measures and generates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa

from understudy.pipelines.methods.base import Agreement, MethodPlan, PrivateTable, Progress, Sampler
from understudy.pipelines.methods.gaussian import copula, learned_moments, noisy_moments, sampling_noise
from understudy.pipelines.methods.gaussian.agreement import copula_agreement, moments_agreement
from understudy.pipelines.methods.gaussian.choice import advice
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.options import GaussianOptions, gaussian_options
from understudy.pipelines.methods.gaussian.sampling import FittedModels
from understudy.pipelines.methods.gaussian.sampling_noise import BoughtRecords
from understudy.pipelines.privacy.accounting import calibrate_gaussian
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Purchase
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import Synthetic

_SAMPLERS: dict[str, Callable[[Measurement, TableDomain], FittedModels | BoughtRecords]] = {
    "noisy-moments": noisy_moments.fitted,
    "copula": copula.fitted,
    "sampling-noise": sampling_noise.fitted,
}
_AGREEMENTS = {"noisy-moments": moments_agreement, "copula": copula_agreement}


GaussianDesign = (
    noisy_moments.MomentsDesign | learned_moments.LearnedDesign | copula.CopulaDesign | sampling_noise.SamplesDesign
)


class GaussianMethod:
    name = "gaussian"

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan[GaussianDesign]:
        options = gaussian_options(spec, domain)
        multiplier = calibrate_gaussian(spec.privacy.budget, relation=spec.privacy.relation)
        made: MethodPlan[GaussianDesign] = _mode_of(options, domain).plan(spec, domain, options, multiplier)
        line, comparison = advice(spec, Layout.of(domain, options.label, 1), options, multiplier)
        return replace(made, steps=(*made.steps, line), details={**made.details, "comparison": comparison})

    def measure(
        self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan[GaussianDesign], purchase: Purchase
    ) -> Measurement:
        design, charges = plan.design, plan.charges
        match design:
            case noisy_moments.MomentsDesign():
                return noisy_moments.measure(table, design, charges, purchase)
            case learned_moments.LearnedDesign():
                return learned_moments.measure(table, design, charges, purchase)
            case copula.CopulaDesign():
                return copula.measure(table, design, charges, purchase)
            case sampling_noise.SamplesDesign():
                return sampling_noise.measure(table, design, charges, purchase)

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
        workshop: Path | None = None,
    ) -> pa.Table:
        sampler = _sampler(measured, domain)
        wanted = sampler.rows if rows is None else rows
        rng = noisy_moments.generation_rng(measured)
        return sampler.draw(0, wanted, rng, lambda done: progress(done, wanted, "rows drawn"))

    def rows_of(self, measured: Measurement, spec: ReleaseSpec, domain: TableDomain) -> int:
        return _sampler(measured, domain).rows

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
        return _sampler(measured, domain)

    def compared(self, measured: Measurement) -> Sequence[tuple[int, ...]]:
        """None: the shares of all columns are counted anyway."""
        return ()

    def agreement(self, synthetic: Synthetic, measured: Measurement) -> list[Agreement]:
        """Means and shares of the synthetic table beside the released ones; samples are their own release."""
        check = _AGREEMENTS.get(measured.facts["mode"])
        return check(synthetic, measured) if check else []


def _sampler(measured: Measurement, domain: TableDomain) -> FittedModels | BoughtRecords:
    return _SAMPLERS[measured.facts["mode"]](measured, domain)


def _mode_of(options: GaussianOptions, domain: TableDomain) -> ModuleType:
    """The module that plans this mode."""
    if options.mode != "noisy-moments":
        return copula if options.mode == "copula" else sampling_noise
    one_slot = Layout.of(domain, options.label, 1).slots == 1
    return noisy_moments if one_slot or options.centre == "fixed" else learned_moments
