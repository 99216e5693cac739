"""The Gaussian method as the flow sees it: options are checked, then the chosen mode plans, measures and generates."""

from __future__ import annotations

from dataclasses import replace
from types import ModuleType

import pyarrow as pa

from understudy.pipelines.methods.base import Agreement, MethodPlan, PrivateTable, Progress, Purchase
from understudy.pipelines.methods.gaussian import copula, learned_moments, noisy_moments, sampling_noise
from understudy.pipelines.methods.gaussian.agreement import copula_agreement, moments_agreement
from understudy.pipelines.methods.gaussian.choice import advice
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.options import GaussianOptions, gaussian_options
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

_GENERATORS = {
    "noisy-moments": noisy_moments.generate,
    "copula": copula.generate,
    "sampling-noise": sampling_noise.generate,
}
_AGREEMENTS = {"noisy-moments": moments_agreement, "copula": copula_agreement}


class GaussianMethod:
    name = "gaussian"

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan:
        options = gaussian_options(spec, domain)
        made: MethodPlan = _mode_of(options, domain).plan(spec, domain, options)
        line, comparison = advice(spec, Layout.of(domain, options.label, 1), options)
        return replace(made, steps=(*made.steps, line), details={**made.details, "comparison": comparison})

    def measure(self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan, purchase: Purchase) -> Measurement:
        options = gaussian_options(spec, table.domain)
        return _mode_of(options, table.domain).measure(table, spec, options, plan, purchase)

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
    ) -> pa.Table:
        return _GENERATORS[measured.facts["mode"]](measured, domain, rows, progress)

    def agreement(self, synthetic: pa.Table, measured: Measurement, domain: TableDomain) -> list[Agreement]:
        """Means and shares of the synthetic table beside the released ones; samples are their own release."""
        check = _AGREEMENTS.get(measured.facts["mode"])
        return check(synthetic, measured, domain) if check else []


def _mode_of(options: GaussianOptions, domain: TableDomain) -> ModuleType:
    """The module that plans and measures this mode."""
    if options.mode != "noisy-moments":
        return copula if options.mode == "copula" else sampling_noise
    one_slot = Layout.of(domain, options.label, 1).slots == 1
    return noisy_moments if one_slot or options.centre == "fixed" else learned_moments
