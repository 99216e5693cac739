"""Mode `sampling-noise`: the released records are the mechanism; nothing is added to the moments.

Theorem. `pseudo_records`: m records of N(mu', Sigma') cost m times the Renyi curve of one, for every dataset.
Relation. ADD_REMOVE or REPLACE_ONE of one row. (A unit of several rows would need group privacy of a curve that ends
  at a finite order; it is refused.)
Sensitivity and noise unit. None is added; the output is rounded to a public grid of 1/1024 of half a column's range.
What leaves. A public number of records in batches, each its own charge. mu' and Sigma' live in this process's memory
  between the pass over the table and the last draw; they are in no measurement, log or result.
Proof. docs/proofs/sampling-noise.md; what the fit in doubles adds is charged by a stated bound (`fitting`).
Reference. Miura et al., Theorem 3.1.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import MethodPlan, NoiseLine, PrivateTable
from understudy.pipelines.methods.gaussian.fitting import fitted_normal
from understudy.pipelines.methods.gaussian.layout import NUMERIC_KINDS, Layout
from understudy.pipelines.methods.gaussian.moments import MAX_GRID, exact_products
from understudy.pipelines.methods.gaussian.options import GaussianOptions
from understudy.pipelines.methods.gaussian.pseudo_records import curve, least_pseudo_records
from understudy.pipelines.methods.gaussian.rounded_normals import rounded_normals
from understudy.pipelines.methods.gaussian.sampling import typed_numbers
from understudy.pipelines.methods.over_rows import summed
from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.decode import fresh_ids
from understudy.pipelines.table.domain import TableDomain

STEPS = 2**10
KIND = "gaussian-samples"


@dataclass(frozen=True)
class FittedNormal:
    """mu' and the factor of Sigma' of one table, with its pseudo-records. Private."""

    mean: np.ndarray
    factor: np.ndarray


@dataclass(frozen=True)
class SampleNoise:
    """So many records of the normal that is fitted with so many pseudo-records: the draws are the noise."""

    rows: int
    dimension: int
    pseudo: int
    relation: Relation

    @property
    def event(self) -> Event:
        event = curve(self.rows, self.dimension, self.pseudo, self.relation)
        if event is None:
            raise ValueError("no Renyi order covers so few pseudo-records")
        return event

    def fitted(self, products: np.ndarray, layout: Layout) -> FittedNormal:
        """What this noise draws from: fitted with the very pseudo-records that its event counts on."""
        return FittedNormal(*fitted_normal(products, layout, self.pseudo))

    def draw(self, exact: FittedNormal, randomness: RandomSource) -> dict[str, np.ndarray]:
        return {"records": rounded_normals(self.rows, exact.mean, exact.factor, STEPS, randomness)}


@dataclass(frozen=True)
class SamplesDesign:
    """Batches of records, a charge each."""

    options: GaussianOptions
    layout: Layout
    batches: tuple[SampleNoise, ...]


def plan(
    spec: ReleaseSpec, domain: TableDomain, options: GaussianOptions, multiplier: float
) -> MethodPlan[SamplesDesign]:
    """`multiplier` is what added noise would need; nothing is added here."""
    _require_numbers(spec, domain, options)
    batches = _batch_sizes(spec, options)
    dimension = len(domain.columns)
    pseudo = least_pseudo_records(sum(batches), dimension, spec.privacy.budget, spec.privacy.relation)
    if pseudo is None:
        raise SpecError(
            f"no number of public pseudo-records makes {sum(batches):,} samples fit this budget",
            "lower method.rows, raise epsilon, or use `mode: noisy-moments`",
        )
    noises = tuple(SampleNoise(size, dimension, pseudo, spec.privacy.relation) for size in batches)
    return MethodPlan(
        method="gaussian",
        charges=tuple(PlannedCharge(f"samples-{place}", noise.event) for place, noise in enumerate(noises, 1)),
        noise=(NoiseLine("covariance", dimension, pseudo / (options.expected_rows + pseudo), _NOTE),),
        steps=(
            f"add {pseudo:,} public pseudo-records, the corners of the domain, so that the theorem holds for any data",
            "fit mean and covariance in memory; they are never stored",
            f"draw {sum(batches):,} records in {len(batches)} charged batches; the draws are the only noise",
        ),
        design=SamplesDesign(options, Layout.of(domain, None, MAX_GRID), noises),
        details={"mode": options.mode, "pseudo_records": pseudo, "batches": list(batches)},
    )


_NOTE = "not noise but inflation: each variance grows by about this much at the expected number of rows"


def measure(
    table: PrivateTable, design: SamplesDesign, charges: tuple[PlannedCharge, ...], purchase: Purchase
) -> Measurement:
    products = summed(table, partial(exact_products, layout=design.layout))[0]
    kinds = {noise.pseudo: noise for noise in design.batches}  # one fit serves all batches with the same pseudo-records
    fits = {pseudo: noise.fitted(products, design.layout) for pseudo, noise in kinds.items()}
    facts = {"mode": design.options.mode, "steps": STEPS}
    bought = [
        purchase(charge, Mechanism(noise, fits[noise.pseudo], KIND, facts))
        for charge, noise in zip(charges, design.batches, strict=True)
    ]
    return Measurement(KIND, facts, {"records": np.concatenate([one.arrays["records"] for one in bought])})


@dataclass(frozen=True, eq=False)
class BoughtRecords:
    """The bought records, typed. There are no others: more would be a further charge."""

    records: np.ndarray
    steps: int
    domain: TableDomain

    @property
    def rows(self) -> int:
        return len(self.records)

    def draw(
        self, first: int, rows: int, rng: np.random.Generator, report: Callable[[int], None] = lambda done: None
    ) -> pa.Table:
        if first + rows > len(self.records):
            raise SpecError(
                f"{first + rows:,} rows are asked for, but this release bought {len(self.records):,} samples",
                "raise method.rows (a new charge), or use `mode: noisy-moments`, which generates any number",
            )
        scaled = self.records[first : first + rows] / self.steps
        arrays = [typed_numbers(scaled[:, place], column) for place, column in enumerate(self.domain.columns)]
        surrogates = [fresh_ids(first + 1, rows) for _ in self.domain.surrogates]
        report(rows)
        return pa.table(surrogates + arrays, names=[*self.domain.surrogates, *self.domain.names])


def fitted(measured: Measurement, domain: TableDomain) -> BoughtRecords:
    return BoughtRecords(measured.arrays["records"], measured.facts["steps"], domain)


def _batch_sizes(spec: ReleaseSpec, options: GaussianOptions) -> tuple[int, ...]:
    rows = options.rows or spec.publish.rows
    if rows is None:
        raise SpecError(
            "sampling-noise releases a public number of records, and none is given",
            "set method.rows or publish.rows",
        )
    if spec.publish.rows is not None and spec.publish.rows > rows:
        raise SpecError(
            f"publish.rows asks for {spec.publish.rows:,} rows, method.rows buys {rows:,}", "make them agree"
        )
    if options.batches > rows:
        raise SpecError(f"{rows:,} records cannot be split into {options.batches} batches", "lower method.batches")
    edges = [rows * place // options.batches for place in range(options.batches + 1)]
    return tuple(stop - start for start, stop in pairwise(edges))


def _require_numbers(spec: ReleaseSpec, domain: TableDomain, options: GaussianOptions) -> None:
    if options.label is not None:
        raise SpecError("sampling-noise has no classes", "drop method.label, or use another mode")
    others = [column.name for column in domain.columns if column.kind not in NUMERIC_KINDS]
    if others:
        raise SpecError(
            f"sampling-noise models numeric columns only, not {', '.join(others)}",
            "declare them {type: identifier, action: drop}, or use `mode: noisy-moments` or `copula`",
        )
    if spec.privacy.unit.max_rows > 1:
        raise SpecError(
            "sampling-noise protects single rows only", "set unit.max_rows to 1, or use `mode: noisy-moments`"
        )
