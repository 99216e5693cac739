"""The Gaussian method as the flow sees it: options are checked, then the chosen mode plans, measures and generates."""

from __future__ import annotations

import pyarrow as pa
from understudy.pipelines.domain import TableDomain
from understudy.pipelines.gaussian import noisy_moments, sampling_noise
from understudy.pipelines.gaussian.options import read_options
from understudy.pipelines.measurement import Measurement
from understudy.pipelines.method import MethodPlan, PrivateTable, Progress, Purchase
from understudy.pipelines.spec import ReleaseSpec

_MODES = {"noisy-moments": noisy_moments, "sampling-noise": sampling_noise}


class GaussianMethod:
    name = "gaussian"

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan:
        options = read_options(spec, domain)
        return _MODES[options.mode].plan(spec, domain, options)

    def measure(
        self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan, purchase: Purchase
    ) -> Measurement:
        options = read_options(spec, table.domain)
        return _MODES[options.mode].measure(table, spec, options, plan, purchase)

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
    ) -> pa.Table:
        return _MODES[measured.facts["mode"]].generate(measured, domain, rows, progress)
