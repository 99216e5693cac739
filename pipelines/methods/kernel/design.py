"""From options, columns and budget to the whole public design of a kernel release, in one place."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from understudy.pipelines.methods.kernel.features import FeatureBlocks
from understudy.pipelines.methods.kernel.mechanism import EmbeddingDesign, StepsNoise
from understudy.pipelines.methods.kernel.options import (
    KernelOptions,
    bandwidths_of,
    class_names,
    edge_bandwidths_of,
    frequencies_of,
    picture_of,
    smoothing_of,
    steps_that_fit,
    width_of,
    windows_of,
)
from understudy.pipelines.methods.kernel.schedule import Schedule, certified, once_schedule, step_schedules
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain

BLOCK_FREQUENCIES = 500
"""Frequencies of a block of the single release; a training step takes a few blocks."""
WINDOWED_FREQUENCIES, EDGED_FREQUENCIES = 1000, 2000
"""The same where a block holds whole pictures and windows, and edges too, which training weighs against each other."""
CHUNK_STEPS = 50
"""Steps bought by one charge."""


@dataclass(frozen=True)
class Decision:
    """The plan's design: what is released and how, why, and what it costs."""

    options: KernelOptions
    design: EmbeddingDesign
    loss: Loss
    schedules: tuple[Schedule, ...]


def chunks_of(design: EmbeddingDesign) -> tuple[StepsNoise, ...]:
    """Ranges of steps, each paid for by one charge and kept before the next begins."""
    starts = range(0, design.blocks, CHUNK_STEPS)
    return tuple(StepsNoise(design, start, min(CHUNK_STEPS, design.blocks - start)) for start in starts)


def decide(spec: ReleaseSpec, domain: TableDomain, options: KernelOptions) -> Decision:
    """Reads no row. The spec's hash keys the frequencies, so that a resumed run uses the same ones."""
    width, classes = width_of(options, domain), len(class_names(options, domain))
    budget, relation = spec.privacy.budget, spec.privacy.relation
    unit_rows = spec.privacy.unit.max_rows
    wanted = frequencies_of(options, domain)
    work = float(width * wanted)
    factor = unit_rows * (2.0 if relation is Relation.REPLACE_ONE else 1.0)
    schedules = [once_schedule(budget, relation, factor, options.rows, classes, work)]
    key = sha256(f"features:{spec.hash}".encode()).hexdigest()[:32]
    windows, edges = windows_of(options, domain), edge_bandwidths_of(options, domain)
    if options.release == "once":
        frequencies = min(
            wanted, EDGED_FREQUENCIES if edges else WINDOWED_FREQUENCIES if windows else BLOCK_FREQUENCIES
        )
        blocks = -(-wanted // frequencies)
        rate = 1.0
    else:
        schedules += step_schedules(
            budget, options.rows, classes, work, options.seconds, steps_that_fit(wanted, classes)
        )
        best = min(schedules[1:], key=lambda schedule: schedule.error)
        rate = options.rate or best.rate
        near = min(schedules[1:], key=lambda schedule: abs(schedule.rate - rate))
        frequencies, blocks = wanted, options.steps or near.steps
    features = FeatureBlocks(
        key,
        width,
        frequencies,
        bandwidths_of(options, width),
        picture_of(options, domain),
        smoothing_of(options, domain),
        windows,
        edges,
    )
    draft = EmbeddingDesign(
        options.release, features, blocks, classes, rate, 1.0, relation, unit_rows, options.class_sizes is None
    )
    design, loss = certified(draft, budget, schedules[0])
    return Decision(options, design, loss, tuple(schedules))


def to_facts(design: EmbeddingDesign) -> dict[str, Any]:
    """JSON-able; `from_facts` reads it back to an equal design. What it has not is not named, as by versions that
    knew no windows or edges."""
    features = {name: _listed(value) for name, value in asdict(design.features).items()}
    for later in ("windows", "edges"):
        if not features[later]:
            del features[later]
    return {**asdict(design), "relation": design.relation.value, "features": features}


def from_facts(facts: dict[str, Any]) -> EmbeddingDesign:
    features = dict(facts["features"])
    for name in ("bandwidths", "picture", "windows", "edges"):
        if features.get(name) is not None:
            features[name] = tuple(features[name])
    return EmbeddingDesign(**{**facts, "relation": Relation(facts["relation"]), "features": FeatureBlocks(**features)})


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
