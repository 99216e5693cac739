"""Mixing as a method of the flow: class statistics are bought once, then noisy mixtures, slice by slice.

The guarantees are those of `statistics` and `mechanism`; everything after `purchase` is post-processing.
Supported: relation add_remove, one row a unit. Replaced rows, units of several rows and OpenDP noise are
refused with a SpecError (`options` says why). Classes are the codes of the label column, `other` and null
included, so a class that is empty, smaller than the order or undeclared changes what is summed and nothing
else.
Reference. Saha, Tonoy & Imtiaz, DP-CDA: Enhanced Privacy Preservation in Dataset Synthesis Through
  Randomized Mixing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import (
    Agreement,
    MethodPlan,
    NoiseLine,
    PrivateTable,
    Progress,
    Sampler,
)
from understudy.pipelines.methods.mixing.design import Decision, MixingDesign, decide
from understudy.pipelines.methods.mixing.mechanism import ClassRecords
from understudy.pipelines.methods.mixing.options import MixingOptions, feature_columns, mixing_options
from understudy.pipelines.methods.mixing.release import (
    Frame,
    bought_frame,
    class_rows,
    class_statistics,
    mixture_records,
    records_per_class,
)
from understudy.pipelines.methods.mixing.restore import SumReader
from understudy.pipelines.methods.mixing.slices import SlicedArrays, table_of
from understudy.pipelines.methods.unit_values import read_vectors, to_batch, to_unit, unit_column
from understudy.pipelines.privacy.measurement import Measurement, Stored
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.coding.grid import bounds
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import Synthetic

STATISTICS = "class-statistics"
MIXTURES = "mixtures"


class MixingMethod:
    name = "mixing"

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan[Decision]:
        options = mixing_options(spec, domain)
        features = feature_columns(options, domain)
        classes = domain.columns[domain.index(options.label)].size
        decision = decide(options, classes, len(features), spec.privacy.budget)
        design = decision.design
        if spec.publish.rows is not None and spec.publish.rows > design.records:
            raise SpecError(
                f"publish.rows asks for {spec.publish.rows:,} rows, but {design.records:,} records are mixed",
                "raise method.records, which costs budget, or publish fewer rows",
            )
        return MethodPlan(self.name, _charges(decision), _noise(design), _steps(design), decision, _details(decision))

    def measure(
        self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan[Decision], purchase: Purchase
    ) -> Measurement:
        options, design = plan.design.options, plan.design.design
        charges = list(plan.charges)
        arrays, frame, records, rows = _centred(table, options, design, charges, purchase)
        names = table.domain.columns[table.domain.index(options.label)].code_labels()
        counts = records_per_class(options, design, names, frame.sizes)
        noises = design.slice_noises(options.label_noise)
        facts = {"design": design.to_facts(), "counts": counts, "options": options.model_dump(mode="json")}
        if len(plan.charges) == 1:  # what is stored is then all of it, and is found again as it is
            mixed = ClassRecords(records, rows, counts)
            return purchase(charges[0], Mechanism(noises[0], mixed, self.name, {**facts, "wanted": counts}))
        slices: list[Stored] = []
        for charge, noise, (start, stop) in zip(charges, noises, design.slices, strict=True):
            wanted = [min(max(count - start, 0), stop - start) for count in counts]
            mixed = ClassRecords(records, rows, wanted)
            slices.append(purchase(charge, Mechanism(noise, mixed, MIXTURES, {"wanted": wanted})).shelved())
        return Measurement(self.name, facts, SlicedArrays(arrays, slices, _array_names(options)))

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
        workshop: Path | None = None,
    ) -> pa.Table:
        count = sum(measured.facts["counts"]) if rows is None else rows
        batches = self.generate_batches(measured, spec, domain, rows, progress)
        return table_of(batches, 8 * count * len(domain.columns))

    def generate_batches(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
    ) -> Iterator[pa.RecordBatch]:
        """The records in blocks, classes interleaved; a caller that writes them as they come needs no table of them."""
        restored = _restored(measured, spec, domain)
        wanted = self.rows_of(measured, spec, domain) if rows is None else rows
        done = 0
        for batch in restored.batches(0, wanted):
            done += batch.num_rows
            progress(done, wanted, "records restored")
            yield batch

    def rows_of(self, measured: Measurement, spec: ReleaseSpec, domain: TableDomain) -> int:
        return int(sum(measured.facts["counts"]))

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
        return _restored(measured, spec, domain)

    def compared(self, measured: Measurement) -> Sequence[tuple[int, ...]]:
        """None: the means of classes are those of the rows that are shown."""
        return ()

    def agreement(self, synthetic: Synthetic, measured: Measurement) -> list[Agreement]:
        """Mean distance, over columns, of each class's synthetic mean from the released one, in half ranges."""
        domain, options = synthetic.domain, MixingOptions.model_validate(measured.facts["options"])
        reader = sum_reader(measured, options, domain, "none", None)
        released = np.clip(reader.class_means(), -1.0, 1.0)
        columns = feature_columns(options, domain)
        label = domain.columns[domain.index(options.label)]
        codes = synthetic.codes.columns[domain.index(options.label)]
        units = np.stack([unit_column(synthetic.modelled.column(column.name), column) for column in columns], axis=1)
        lines = []
        for k, name in enumerate(label.code_labels()):
            if reader.counts[k] and (codes == k).any():
                distance = float(np.abs(units[codes == k].mean(axis=0) - released[k]).mean())
                lines.append(Agreement(f"mean of class {name}", distance, reader.spread_of_a_record(k)))
        return lines


@dataclass(frozen=True, eq=False)
class RestoredRecords:
    """The sampler of a release: the bought records and no others. Nothing is drawn."""

    reader: SumReader
    label: str
    domain: TableDomain

    def draw(self, first: int, rows: int, rng: np.random.Generator) -> pa.Table:
        return pa.Table.from_batches(list(self.batches(first, rows)))

    def batches(self, first: int, rows: int) -> Iterator[pa.RecordBatch]:
        if first + rows > self.reader.records:
            raise SpecError(f"only {self.reader.records:,} records were mixed", "publish fewer rows")
        done = 0
        for units, labels in self.reader.blocks(first):
            take = min(len(labels), rows - done)
            yield to_batch(units[:take], labels[:take], self.label, self.domain, first + done + 1)
            done += take
            if done == rows:
                return


def _restored(measured: Measurement, spec: ReleaseSpec, domain: TableDomain) -> RestoredRecords:
    options = mixing_options(spec, domain)
    reader = sum_reader(measured, options, domain, spec.generate.denoise or "spectral", spec.generate.image)
    return RestoredRecords(reader, options.label, domain)


def public_frame(options: MixingOptions, domain: TableDomain) -> Frame:
    """Public constants in unit coordinates: 0 and 1 unless the spec gives its own."""
    features = feature_columns(options, domain)
    label = domain.columns[domain.index(options.label)]
    centre, scale = np.zeros(len(features)), np.ones(len(features))
    for j, column in enumerate(features):
        if isinstance(options.centre, dict):
            centre[j] = to_unit(np.array([options.centre[column.name]]), column)[0]
        if isinstance(options.scale, dict):
            low, high = bounds(column)
            scale[j] = options.scale[column.name] / max((high - low) / 2, 1e-300)
    sizes = np.ones(label.size)
    if options.class_sizes is not None:
        sizes = np.array([max(1, options.class_sizes[name]) for name in label.code_labels()], dtype=float)
    return Frame(np.tile(centre, (label.size, 1)), scale, sizes)


def sum_reader(
    measured: Measurement,
    options: MixingOptions,
    domain: TableDomain,
    denoise: Literal["none", "spectral"],
    image: tuple[int, int] | None,
) -> SumReader:
    design = MixingDesign.from_facts(dict(measured.facts["design"]))
    frame = bought_frame(public_frame(options, domain), measured.arrays.get("statistics"), design, options)
    whole = "sums" in measured.arrays  # bought at once, under one charge
    arrays = SlicedArrays({}, [measured], _array_names(options)) if whole else measured.arrays
    return SumReader(design, frame, list(measured.facts["counts"]), arrays, denoise, image)


def _array_names(options: MixingOptions) -> tuple[str, ...]:
    """What one slice holds."""
    return ("sums",) if options.label_noise is None else ("sums", "labels")


def _centred(
    table: PrivateTable,
    options: MixingOptions,
    design: MixingDesign,
    charges: list[PlannedCharge],
    purchase: Purchase,
) -> tuple[dict[str, np.ndarray], Frame, np.ndarray, list[np.ndarray]]:
    """What was bought first (taken off `charges`), and the records on the grid; the table itself is let go of here."""
    values, labels = read_vectors(table, options.label)
    constants = public_frame(options, table.domain)
    arrays: dict[str, np.ndarray] = {}
    if design.statistics is not None:
        exact = class_statistics(values, labels, design.classes, design.statistics, constants)
        bought = purchase(charges.pop(0), Mechanism(design.statistics, exact, STATISTICS, {}))
        arrays["statistics"] = bought.arrays["statistics"]
    frame = bought_frame(constants, arrays.get("statistics"), design, options)
    return arrays, frame, mixture_records(values, labels, design, frame), class_rows(labels, design.classes)


def _charges(decision: Decision) -> tuple[PlannedCharge, ...]:
    design = decision.design
    charges = [] if design.statistics is None else [PlannedCharge(STATISTICS, design.statistics.event)]
    noises = design.slice_noises(decision.options.label_noise)
    for number, noise in enumerate(noises):
        stage = MIXTURES if len(noises) == 1 else f"{MIXTURES}-{number:05d}"
        charges.append(PlannedCharge(stage, noise.event))
    return tuple(charges)


def _noise(design: MixingDesign) -> tuple[NoiseLine, ...]:
    lines = []
    if design.statistics is not None:
        std = design.statistics.sigma * design.statistics.unit
        lines.append(NoiseLine("class sums", design.classes * design.width, std, "features scaled to [-1, 1]"))
    std = design.mixtures.sigma * design.unit
    note = f"a mean of about {design.mixtures.order} records has noise {std / design.mixtures.order:.4g}"
    return (*lines, NoiseLine("mixture sums", design.classes * design.per_class * design.width, std, note))


def _steps(design: MixingDesign) -> tuple[str, ...]:
    bought = () if design.statistics is None else ("buy class sizes and means once, and centre every class",)
    return (
        *bought,
        f"mix about {design.mixtures.order} records of one class at a time, {design.records:,} times",
        "add rounded Gaussian noise to every mixture, once",
        "restore records from the released mixtures alone",
    )


def _details(decision: Decision) -> dict[str, Any]:
    design = decision.design
    return {
        "design": design.to_facts(),
        "order": design.mixtures.order,
        "epsilon_charged": decision.loss.epsilon,
        "accountant": decision.loss.accountant,
        "epsilon_by_the_papers_theorem": decision.paper_epsilon,
        "orders": [
            {
                "order": line.order,
                "noise_multiplier": line.noise_multiplier,
                "noise_of_a_mean": line.mixture_std,
                "signal_to_noise": line.signal_to_noise,
            }
            for line in decision.sweep
        ],
    }
