"""`marginals: auto`: all pairs, and the triples that are worth measuring. What the plan decides and says of it.

Sensitivity, events and noise are those of `counting.triples`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from understudy.pipelines.counting.merging import MOST_GROUPS
from understudy.pipelines.counting.shares import ResidualWorkload
from understudy.pipelines.counting.triples import (
    FIRST_PART,
    FURTHER_PART,
    MOST_FOR_SCORES,
    TriplesNoise,
    candidate_triples,
    triples_noise,
)
from understudy.pipelines.counting.worth import MOST_FOR_TRIPLES, Choice
from understudy.pipelines.methods.base import NoiseLine
from understudy.pipelines.methods.privpgd.options import PrivPGDOptions
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain


def plan_triples(
    spec: ReleaseSpec,
    options: PrivPGDOptions,
    domain: TableDomain,
    sizes: tuple[int, ...],
    workload: ResidualWorkload,
    beside: Sequence[float],
    noise_multiplier: float,
    unit: Unit,
    one: int,
) -> TriplesNoise | None:
    """None where triples are not to be chosen, or where there is none to choose. `one` row or entity counts so much."""
    candidates = candidate_triples(domain.sizes) if options.marginals == "auto" else ()
    if not candidates:
        return None
    privacy, ordered = spec.privacy, [column.ordered for column in domain.columns]
    ordered += [True] * (len(sizes) - len(ordered))  # what is counted beside the columns of the table
    return triples_noise(
        candidates,
        workload,
        sizes,
        tuple(ordered),
        beside,
        noise_multiplier,
        privacy.relation,
        unit,
        privacy.noise,
        one,
    )


def triples_lines(triples: TriplesNoise | None) -> tuple[NoiseLine, ...]:
    """The noise of one triple, in rows or in entities, if a few are chosen."""
    if triples is None:
        return ()
    some = triples.candidates[: max(1, round(len(triples.candidates) / 20))]
    shape = tuple(triples.sizes[column] for column in some[-1])
    chosen = triples.further(Choice(some, MOST_FOR_TRIPLES)).stds[-1] / math.prod(shape) / triples.one
    return (
        NoiseLine(f"chosen triples, if {len(some)} get {MOST_FOR_TRIPLES:.0%} of the budget", math.prod(shape), chosen),
    )


def triples_steps(triples: TriplesNoise) -> tuple[str, ...]:
    return (
        f"count {len(triples.candidates)} triples of columns exactly",
        f"with {FIRST_PART:.0%} of the budget add rounded Gaussian noise to columns and pairs",
        f"with at most {MOST_FOR_SCORES:.1%} score triples, over at most {MOST_GROUPS} groups of each column's values: "
        "those of which this many rows and this budget can tell anything",
        f"with {FURTHER_PART:.0%} measure the pairs once more and, with at most {MOST_FOR_TRIPLES:.1%} of the budget, "
        "the triples that they do not explain, as far as they are worth it",
    )


def triples_details(triples: TriplesNoise | None) -> dict[str, str]:
    if triples is None:
        return {}
    scores, most = (1 / math.sqrt(1 - part) - 1 for part in (MOST_FOR_SCORES, MOST_FOR_SCORES + MOST_FOR_TRIPLES))
    return {
        "triples": f"{len(triples.candidates)} candidates. The noise of pairs is told for no triple being scored or "
        f"chosen. Scores add at most {scores:.1%}, with triples that are chosen at most {most:.1%}"
    }
