"""Kernel as a method of the flow: noisy class embeddings are bought, and a generator is trained on what was bought.

The guarantees are those of `mechanism`; training, sampling and everything else after `purchase` is post-processing,
so a run killed while it trains goes on from its checkpoint and has spent exactly what an uninterrupted one spends.
Supported: both relations; units of several rows with `release: once`.
Reference. Jiang, Sun & Yu, Functional Renyi Differential Privacy for Generative Modeling, NeurIPS 2023;
docs/proofs/kernel.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from functools import partial
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from understudy.pipelines.canonical import hash_of
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.base import Agreement, MethodPlan, NoiseLine, PrivateTable, Progress, Sampler
from understudy.pipelines.methods.kernel.design import Decision, chunks_of, decide, from_facts, to_facts
from understudy.pipelines.methods.kernel.embedding import ReleasedEmbedding
from understudy.pipelines.methods.kernel.features import AMPLITUDE, FeatureBlocks, on_levels
from understudy.pipelines.methods.kernel.mechanism import (
    EMBEDDING,
    EmbeddingDesign,
    GridRecords,
    OnceNoise,
    exact_embedding,
)
from understudy.pipelines.methods.kernel.options import KernelOptions, class_names, kernel_options, picture_of, width_of
from understudy.pipelines.methods.kernel.records import (
    class_codes,
    grid_batches,
    grid_records,
    joined,
    scaled_values,
    to_table,
)
from understudy.pipelines.methods.over_rows import gathered, summed
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.spec.handling import GenerateSpec
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.synthetic import Synthetic

if TYPE_CHECKING:
    from understudy.pipelines.methods.kernel.generators import Architecture, Generator, Shape
    from understudy.pipelines.methods.kernel.judging import JudgedGenerator
    from understudy.pipelines.methods.kernel.training import TrainingPlan

STEPS = "steps"
_CHECKED_BLOCKS = 4
_CHECKED_ROWS = 20_000


class KernelMethod:
    name = "kernel"

    def plan(self, spec: ReleaseSpec, domain: TableDomain) -> MethodPlan[Decision]:
        options = kernel_options(spec, domain)
        _architecture(spec.generate, _shape(options, domain))
        _check_training(spec.generate, options)
        _check_mix(spec.generate, class_names(options, domain))
        decision = decide(spec, domain, options)
        return MethodPlan(
            self.name, _charges(decision), _noise(decision), _steps(decision), decision, _details(decision)
        )

    def measure(
        self, table: PrivateTable, spec: ReleaseSpec, plan: MethodPlan[Decision], purchase: Purchase
    ) -> Measurement:
        options, design = plan.design.options, plan.design.design
        facts = {"design": to_facts(design), "options": options.model_dump(mode="json")}
        if design.release == "once":
            exact = summed(table, partial(_embedded, options=options, domain=table.domain, design=design))
            return purchase(plan.charges[0], Mechanism(OnceNoise(design), exact, self.name, facts))
        records = GridRecords(*joined(gathered(table, partial(grid_records, options=options, domain=table.domain))))
        bought = [
            purchase(charge, Mechanism(chunk, records, STEPS, {"first": chunk.first})).arrays[EMBEDDING]
            for charge, chunk in zip(plan.charges, chunks_of(design), strict=True)
        ]
        return Measurement(self.name, facts, {EMBEDDING: np.concatenate(bought)})

    def generate(
        self,
        measured: Measurement,
        spec: ReleaseSpec,
        domain: TableDomain,
        rows: int | None,
        progress: Progress,
        workshop: Path | None = None,
    ) -> pa.Table:
        import torch

        options = KernelOptions.model_validate(measured.facts["options"])
        embedding = released_embedding(measured, options, domain)
        generator, device = _trained(embedding, options, spec, domain, progress, workshop)
        wanted = rows if rows is not None else self.rows_of(measured, spec, domain)
        labels = class_labels(_shares(embedding, spec.generate, class_names(options, domain)), wanted)
        values = generator.sample(torch.from_numpy(labels).to(device)).numpy()
        return to_table(values, labels, options, domain)

    def rows_of(self, measured: Measurement, spec: ReleaseSpec, domain: TableDomain) -> int:
        options = KernelOptions.model_validate(measured.facts["options"])
        return max(1, round(float(released_embedding(measured, options, domain).sizes.sum())))

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
        from understudy.pipelines.methods.kernel.drawing import TrainedGenerator

        options = KernelOptions.model_validate(measured.facts["options"])
        embedding = released_embedding(measured, options, domain)
        generator, device = _trained(embedding, options, spec, domain, progress, workshop)
        shares = _shares(embedding, spec.generate, class_names(options, domain))
        return TrainedGenerator(generator.eval(), device, shares, options, domain)

    def compared(self, measured: Measurement) -> Sequence[tuple[int, ...]]:
        """None: embeddings are compared by the rows that are shown."""
        return ()

    def agreement(self, synthetic: Synthetic, measured: Measurement) -> list[Agreement]:
        """Distance of each class's synthetic embedding from the released one; half its norm may miss, and the noise."""
        domain, options = synthetic.domain, KernelOptions.model_validate(measured.facts["options"])
        embedding = released_embedding(measured, options, domain)
        rows = synthetic.modelled.slice(0, _CHECKED_ROWS)
        records = on_levels(scaled_values(rows, options, domain))
        labels = class_codes(rows, options, domain)
        counts = np.bincount(labels, minlength=embedding.design.classes)
        distances, norms = _distances(embedding, records, labels, counts)
        noise = embedding.noise_norm()
        return [
            Agreement(
                f"embedding of class {name}",
                float(distances[k]),
                float(0.5 * norms[k] + 1.5 * noise[k] + 1 / np.sqrt(counts[k])),
            )
            for k, name in enumerate(class_names(options, domain))
            if counts[k]
        ]


def _embedded(
    batches: Iterable[pa.RecordBatch], options: KernelOptions, domain: TableDomain, design: EmbeddingDesign
) -> np.ndarray:
    return exact_embedding(grid_batches(batches, options, domain), design)


def released_embedding(measured: Measurement, options: KernelOptions, domain: TableDomain) -> ReleasedEmbedding:
    sizes = options.class_sizes
    public = None if sizes is None else np.array([sizes[name] for name in class_names(options, domain)])
    return ReleasedEmbedding(from_facts(dict(measured.facts["design"])), measured.arrays[EMBEDDING], public)


def _distances(
    embedding: ReleasedEmbedding, records: np.ndarray, labels: np.ndarray, counts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Norm of (synthetic - released) and of the synthetic embedding, by class, over the first few blocks."""
    design = embedding.design
    blocks = min(_CHECKED_BLOCKS, design.blocks)
    apart, size = np.zeros(design.classes), np.zeros(design.classes)
    for block in range(blocks):
        totals = np.zeros((design.classes, design.numbers), dtype=np.int64)
        design.features.add(block, records, labels, totals)
        unit = AMPLITUDE * np.sqrt(design.features.frequencies) * np.maximum(counts, 1)[:, None]
        means = totals[:, : 2 * design.features.frequencies] / unit
        apart += np.square(means - embedding.block(block)).sum(axis=1)
        size += np.square(means).sum(axis=1)
    return np.sqrt(apart / blocks), np.sqrt(size / blocks)


def _shape(options: KernelOptions, domain: TableDomain) -> Shape:
    from understudy.pipelines.methods.kernel.generators import Shape

    return Shape(width_of(options, domain), picture_of(options, domain))


def _architecture(generate: GenerateSpec, shape: Shape, usual: Architecture = "conv") -> Architecture:
    if generate.generator == "auto":
        return usual if shape.has_convolutions else "mlp"
    if generate.generator != "mlp" and not shape.has_convolutions:
        raise SpecError(
            f"generate.generator: {generate.generator} makes pictures of 28 or 32 pixels with 1 or 3 channels",
            "use mlp, or auto, for records of another shape",
        )
    return generate.generator


def training_plan(generate: GenerateSpec, shape: Shape, features: FeatureBlocks) -> TrainingPlan:
    """What was released without windows, or without edges, is trained on as before there were any."""
    from understudy.pipelines.methods.kernel.training import OF_EDGES, PLAIN, WHITENED, device_named

    metric = generate.metric
    if metric == "auto":
        metric = "whitened" if features.windows or features.edges else "plain"
    usual = PLAIN if metric == "plain" else OF_EDGES if features.edges else WHITENED
    return replace(
        usual,
        architecture=_architecture(generate, shape, usual.architecture),
        steps=generate.training_steps or usual.steps,
        one_a_class=generate.one_a_class,
        device=device_named(generate.device),
    )


def _trained(
    embedding: ReleasedEmbedding,
    options: KernelOptions,
    spec: ReleaseSpec,
    domain: TableDomain,
    progress: Progress,
    workshop: Path | None,
) -> tuple[Generator | JudgedGenerator, str]:
    """The generator, and the device that it is on."""
    from understudy.pipelines.methods.kernel.judging import judged
    from understudy.pipelines.methods.kernel.training import train

    shape = _shape(options, domain)
    plan = training_plan(spec.generate, shape, embedding.design.features)
    key = training_key(embedding, plan)
    checkpoint = workshop / f"{key}.pt" if workshop is not None else None
    seed = int(key[:12], 16)
    generator = train(embedding, shape, plan, seed, progress, checkpoint)
    if spec.generate.judged:
        return judged(embedding, generator, plan.device, seed), plan.device
    return generator, plan.device


def training_key(embedding: ReleasedEmbedding, plan: TrainingPlan) -> str:
    """Names a training run: what was released, how it is trained on, and by which version. All of it is public. A plain
    metric is not named, as by versions that had no other."""
    data = sha256(np.ascontiguousarray(embedding.released).tobytes()).hexdigest()
    planned = {name: value for name, value in asdict(plan).items() if (name, value) != ("metric", "plain")}
    facts = {"plan": planned, "design": to_facts(embedding.design), "version": version("understudy")}
    return hash_of({"released": data, **facts})


def _check_training(generate: GenerateSpec, options: KernelOptions) -> None:
    if generate.judged and (options.release != "once" or options.label is None):
        raise SpecError("generate.judged needs `release: once` and a label", "drop it")
    if generate.metric == "whitened" and options.release != "once":
        raise SpecError("generate.metric: whitened needs `release: once`", "use plain, or auto")


def _check_mix(generate: GenerateSpec, names: list[str]) -> None:
    if isinstance(generate.class_mix, dict) and not set(generate.class_mix) <= set(names):
        strange = sorted(set(generate.class_mix) - set(names))
        raise SpecError(f"generate.class_mix: no class is called {', '.join(strange)}", f"use {', '.join(names)}")


def _shares(embedding: ReleasedEmbedding, generate: GenerateSpec, names: list[str]) -> np.ndarray:
    """Of the classes among the rows to make."""
    if isinstance(generate.class_mix, dict):
        shares = np.array([generate.class_mix.get(name, 0.0) for name in names])
    elif generate.class_mix == "equal":
        shares = np.ones(len(names))
    else:
        shares = np.where(embedding.standing_out, embedding.sizes, 0.0)
    return np.asarray(shares / shares.sum() if shares.sum() > 0 else np.full(len(names), 1 / len(names)))


def class_labels(shares: np.ndarray, rows: int) -> np.ndarray:
    """Classes of the rows to make: shares by largest remainder, classes interleaved."""
    counts = np.floor(shares * rows).astype(np.int64)
    remainders = np.argsort(counts - shares * rows, kind="stable")
    counts[remainders[: rows - counts.sum()]] += 1
    places = np.concatenate([(np.arange(count) + 0.5) / max(count, 1) for count in counts])
    labels: np.ndarray = np.repeat(np.arange(len(shares)), counts)[np.argsort(places, kind="stable")]
    return labels


def _charges(decision: Decision) -> tuple[PlannedCharge, ...]:
    design = decision.design
    if design.release == "once":
        return (PlannedCharge(EMBEDDING, OnceNoise(design).event),)
    return tuple(PlannedCharge(f"{STEPS}-{number:05d}", chunk.event) for number, chunk in enumerate(chunks_of(design)))


def _noise(decision: Decision) -> tuple[NoiseLine, ...]:
    design = decision.design
    releases = 1 if design.release == "once" else design.blocks
    scale = AMPLITUDE * np.sqrt(design.blocks_a_release * design.features.frequencies)
    std = float(design.sigma / scale)
    lines = [NoiseLine("class embeddings", design.classes * (design.numbers - 1) * releases, std, "in records")]
    if design.counted:
        lines.append(NoiseLine("class sizes", design.classes * releases, design.sigma / design.count_weight))
    return tuple(lines)


def _steps(decision: Decision) -> tuple[str, ...]:
    design = decision.design
    what = f"{design.features.frequencies * design.blocks_a_release:,} random frequencies"
    if design.release == "once":
        first = f"embed every class with {what} and add rounded Gaussian noise, once"
    else:
        first = f"{design.blocks:,} times: sample rows at rate {design.rate:g}, embed them with {what}, add noise"
    return (first, "train a generator on the released embeddings alone", "sample it class by class")


def _details(decision: Decision) -> dict[str, Any]:
    design = decision.design
    return {
        "design": to_facts(design),
        "release": design.release,
        "noise_multiplier": design.noise_multiplier,
        "epsilon_charged": decision.loss.epsilon,
        "accountant": decision.loss.accountant,
        "schedules": [asdict(schedule) for schedule in decision.schedules],
    }
