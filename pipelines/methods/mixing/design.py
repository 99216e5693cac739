"""The whole public design of a mixing release: what is bought, in which charges, with how much noise.

Decided from the options, the domain and the budget alone, so it can be printed, hashed, stored and planned
with.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

from understudy.pipelines.methods.mixing.accounting import (
    ORDERS,
    OrderChoice,
    certified,
    paper_epsilon,
    statistics_multiplier,
    sweep,
)
from understudy.pipelines.methods.mixing.mechanism import MixtureDesign, SliceNoise
from understudy.pipelines.methods.mixing.options import MixingOptions
from understudy.pipelines.methods.mixing.statistics import StatisticsDesign
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.relation import Budget

SLICE_NUMBERS = 1 << 23
"""Numbers bought by one charge: 32 MB of them, some 300 MB while they are stored. Longer releases are charged slice
by slice, and no more than two are ever in memory."""
SIZE_HEADROOM = 2
"""With `balance: sizes` no class gets more than this many times the average: the number that is charged."""


@dataclass(frozen=True)
class MixingDesign:
    """`per_class` is the most mixtures any class gets, hence what is charged; `clip` the norm of a centred record."""

    classes: int
    width: int
    statistics: StatisticsDesign | None
    mixtures: MixtureDesign
    clip: float
    records: int
    per_class: int

    @property
    def unit(self) -> float:
        """One grid step of a mixture, in feature units."""
        return self.clip / self.mixtures.norm_bound

    @property
    def slices(self) -> list[tuple[int, int]]:
        """Ranges of mixture numbers, the same for every class, that are bought together."""
        step = max(1, SLICE_NUMBERS // (self.classes * self.width))
        return [(start, min(start + step, self.per_class)) for start in range(0, self.per_class, step)]

    def slice_noises(self, label_noise: float | None) -> tuple[SliceNoise, ...]:
        return tuple(SliceNoise(self.mixtures, stop - start, label_noise) for start, stop in self.slices)

    def to_facts(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> MixingDesign:
        statistics = facts["statistics"]
        return cls(
            **{
                **facts,
                "statistics": None if statistics is None else StatisticsDesign(**statistics),
                "mixtures": MixtureDesign(**facts["mixtures"]),
            }
        )


@dataclass(frozen=True)
class Decision:
    """The plan's design: what is mixed and how, why, and what it costs."""

    options: MixingOptions
    design: MixingDesign
    loss: Loss
    paper_epsilon: float
    sweep: tuple[OrderChoice, ...]


def decide(options: MixingOptions, classes: int, width: int, budget: Budget) -> Decision:
    """Set order and noise. With `order: auto` the largest predicted signal-to-noise wins; the table is kept."""
    records, per_class = _records(options, classes)
    class_size = max(1.0, options.rows / classes)
    statistics = _statistics(options, width, budget)
    spent = None if statistics is None else statistics.noise_multiplier
    minimum = max(1, int(class_size))

    def design_at(order: int) -> MixtureDesign:
        return MixtureDesign(options.sampler, order / class_size, order, minimum, 1.0)

    table: list[OrderChoice] = []
    if options.order == "auto":
        feasible = [order for order in ORDERS if order <= minimum]
        table = sweep(feasible, design_at, per_class, width, spent, budget)
        order = max(table, key=lambda line: line.signal_to_noise).order
    else:
        order = min(options.order, minimum)
    mixtures, loss = certified(design_at(order), per_class, spent, budget)
    clip = options.clip or math.sqrt(width) * (0.5 if options.scale == "bounds" else 1.0)
    design = MixingDesign(classes, width, statistics, mixtures, clip, records, per_class)
    paper = paper_epsilon(mixtures, class_size, per_class, float(budget.delta))
    return Decision(options, design, loss, paper, tuple(table))


def _records(options: MixingOptions, classes: int) -> tuple[int, int]:
    """Records in all, and the most that one class may get."""
    if isinstance(options.records, dict):
        return sum(options.records.values()), max(options.records.values())
    total = options.records or options.rows
    average = math.ceil(total / classes)
    return total, average * (SIZE_HEADROOM if options.balance == "sizes" else 1)


def _statistics(options: MixingOptions, width: int, budget: Budget) -> StatisticsDesign | None:
    squares = options.scale == "bought"
    sums = options.centre == "bought" or squares
    if options.class_sizes is not None and not sums and options.balance == "equal":
        return None
    clip = options.statistics_clip or math.sqrt(width)
    return StatisticsDesign(clip, sums, squares, statistics_multiplier(budget, options.statistics_share))
