"""How to spend the budget over time: sampling rate, noise and number of steps for an epsilon, a size and a time.

Every candidate costs exactly the budget; they differ in how well the class embeddings are known in the end. With
rate q, T steps and multiplier z, a class of n records, and kernels of unit norm, the mean embedding over all steps
has error

    sqrt( (z / (q n))^2 + (1 - q) / (q n) ) / sqrt(T)

from noise and from sampling. One full release has z_once / n. Amplification by sampling never makes up for what it
loses in signal (its loss tends to q sqrt(T) / z, that of a full release spread over T steps), so `once` comes out
first unless a pass over the table does not fit the time. The table is part of the plan; nothing in it depends on
the data.
Relation. That of the account. Reference. Budget helper of the kernel issue; Dong, Roth & Su 2022, section 5, for
the limit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from understudy.pipelines.methods.kernel.mechanism import EmbeddingDesign, OnceNoise, StepsNoise
from understudy.pipelines.privacy.accounting import Loss, calibrate_gaussian, composed_loss
from understudy.pipelines.privacy.noise.calibration import renyi_multiplier, sampled_multiplier
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.privacy.rounding import planned

RATES = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
MULTIPLY_ADDS_A_SECOND = 1e10
"""Of exact phases, on two cores: see `kernel.features_per_second` in docs/benchmarks.md. Only a guide for planning."""


@dataclass(frozen=True)
class Schedule:
    """One way to spend the budget. `error` is of a class's mean embedding, whose norm is at most 1."""

    release: str
    rate: float
    steps: int
    noise_multiplier: float
    error: float
    seconds: float


def once_schedule(
    budget: Budget, relation: Relation, unit_factor: float, rows: int, classes: int, work: float
) -> Schedule:
    """`work`: multiply-adds for one record's features; `unit_factor`: sensitivity over one record's norm."""
    z = calibrate_gaussian(budget, relation=relation)
    size = max(1.0, rows / classes)
    return Schedule("once", 1.0, 1, z, z * unit_factor / size, rows * work / MULTIPLY_ADDS_A_SECOND)


def step_schedules(budget: Budget, rows: int, classes: int, work: float, seconds: float, most: int) -> list[Schedule]:
    """One candidate for each rate: as many steps as time and memory (`most`) allow, noise by a quick Renyi bound."""
    size = max(1.0, rows / classes)
    found = []
    for rate in RATES:
        cost = rate * rows * work / MULTIPLY_ADDS_A_SECOND + 1e-3
        steps = min(most, max(1, int(seconds / cost)))
        z = renyi_multiplier(rate, steps, None, budget)
        expected = rate * size
        error = math.sqrt((z / expected) ** 2 + (1 - rate) / expected) / math.sqrt(steps)
        found.append(Schedule("steps", rate, steps, z, error, steps * cost))
    return found


def certified(design: EmbeddingDesign, budget: Budget, once: Schedule) -> tuple[EmbeddingDesign, Loss]:
    """The least noise (to 1%) at which the ledger's own accountant finds the whole design within budget."""
    if design.release == "once":
        final = replace(design, noise_multiplier=planned(once.noise_multiplier))
        return final, composed_loss([OnceNoise(final).event], float(budget.delta), design.relation)
    z = sampled_multiplier(design.rate, design.blocks, None, budget, tolerance=2e-3)
    while True:  # the search used a coarser grid, and replaced records cost more than it knows
        final = replace(design, noise_multiplier=planned(z))
        loss = composed_loss([StepsNoise(final, 0, design.blocks).event], float(budget.delta), design.relation)
        if loss.epsilon <= float(budget.epsilon):
            return final, loss
        z *= 1.01 if design.relation is Relation.ADD_REMOVE else 1.05
