"""Adaptive selection: measure one-way marginals, then round by round the marginal that the copy gets most wrong.

This is Algorithm 2 of the PrivPGD paper (the MWEM loop) with the scores of AIM (McKenna et al. 2022): a candidate's
score is the L1 distance between its true counts and those of the present copy, less the L1 error that measuring it
would have, so that large marginals are chosen only when they are worth their noise.

Theorem. A round is an exponential mechanism and, on what it chose, a Gaussian: docs/proofs/selection.md.
Relation, sensitivity. Scores are whole numbers of rows. A unit of k rows moves the L1 distance of any marginal by at
  most k (ADD_REMOVE) or 2 k (REPLACE_ONE); the copy and the penalty are public. Measured counts: `marginals.mechanism`.
Events. A round costs Composed(choice, measurement): the exponential mechanism's range and a Gaussian, both of which
  have a mu (Gaussian DP), so that all rounds together are one Gaussian to the account (docs/proofs/selection.md). The
  number of rounds and the noise of each are fixed by the plan, so every event is known before a row is read. Each
  round is one purchase: its choice and its noisy counts are charged, drawn once and stored together.
Noise unit. The std of a count in rows; the epsilon of a choice is pure.
Reference. McKenna et al. 2022, Algorithm 2; the choice is `privacy.noise.selection`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from understudy.pipelines.counting.mechanism import MarginalNoise, one_table_noise
from understudy.pipelines.counting.quality import quality_by_name
from understudy.pipelines.counting.released import marginals_by_name
from understudy.pipelines.counting.workload import Clique, noise_stds
from understudy.pipelines.privacy.accounting import calibrate
from understudy.pipelines.privacy.events import Composed, Event
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge, Purchase
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.privacy.noise.selection import choose, selection_epsilon, selection_event
from understudy.pipelines.privacy.relation import Budget, Relation, Unit, counts_sensitivity
from understudy.pipelines.privacy.rounding import planned

ONE_WAY_STAGE = "one-way"
CHOICE_SHARE = 0.15  # of a round's mu^2: a poor choice wastes the round, but noise hurts every cell of it

Model = Callable[[Sequence[tuple[Clique, np.ndarray, float]]], Callable[[Clique], np.ndarray]]
"""Fits a copy to the marginals released so far; the result gives the copy's counts of any clique."""


@dataclass(frozen=True)
class Contest:
    """The exact numbers of one round: the candidates' scores, and the counts of each of them."""

    candidates: tuple[Clique, ...]
    scores: np.ndarray
    counts: Mapping[Clique, np.ndarray]


@dataclass(frozen=True)
class RoundNoise:
    """One round: an exponential mechanism with its epsilon, then Gaussian noise on the marginal that it chose."""

    choice_epsilon: Fraction
    counts: MarginalNoise

    @property
    def score_sensitivity(self) -> int:
        return self.counts.unit.max_rows * (2 if self.counts.relation is Relation.REPLACE_ONE else 1)

    @property
    def event(self) -> Event:
        return Composed((selection_event(self.choice_epsilon), self.counts.event))

    def draw(self, exact: Contest, randomness: RandomSource) -> dict[str, np.ndarray]:
        chosen, _ = choose(exact.scores, self.score_sensitivity, self.choice_epsilon, randomness)
        clique = exact.candidates[chosen]
        return {
            "clique": np.array(clique, dtype=np.int64),
            **self.counts.draw({"marginal": exact.counts[clique]}, randomness),
        }


@dataclass(frozen=True)
class AdaptivePlan:
    """Everything about the rounds that is decided before a row is read."""

    candidates: tuple[Clique, ...]
    rounds: int
    one_way: MarginalNoise
    each_round: RoundNoise
    quality: tuple[Clique, ...] = ()
    """How columns were understood, bought with the one-way marginals; the last stds of `one_way` are theirs."""

    @property
    def charges(self) -> tuple[PlannedCharge, ...]:
        event = self.each_round.event
        return (
            PlannedCharge(ONE_WAY_STAGE, self.one_way.event),
            *(PlannedCharge(f"round-{number:03d}", event) for number in range(1, self.rounds + 1)),
        )

    @property
    def round_std(self) -> float:
        return self.each_round.counts.stds[0]


def plan_rounds(
    columns: int,
    candidates: Sequence[Clique],
    rounds: int,
    one_way_share: float,
    budget: Budget,
    relation: Relation,
    unit: Unit,
    quality: tuple[Clique, ...] = (),
    quality_share: float = 0.0,
) -> AdaptivePlan:
    """The least noise at which one-way marginals, quality and all rounds together stay within the budget."""
    sensitivity = counts_sensitivity(relation, unit.max_rows)

    def at(level: float) -> AdaptivePlan:
        in_round = (1 - one_way_share) / (rounds * level * level)  # of mu^2
        z_one_way = level / math.sqrt(one_way_share)
        shares = (1 / columns,) * columns
        if quality:
            first = one_way_share * (1 - quality_share) + quality_share
            in_round *= 1 - quality_share
            z_one_way = level / math.sqrt(first)
            part = quality_share / first
            shares = ((1 - part) / columns,) * columns + (part / len(quality),) * len(quality)
        stds = noise_stds(shares, planned(z_one_way), sensitivity)
        z_round = 1 / math.sqrt(in_round * (1 - CHOICE_SHARE))
        epsilon = selection_epsilon(math.sqrt(in_round * CHOICE_SHARE))
        each_round = RoundNoise(epsilon, one_table_noise(planned(z_round), relation, unit))
        return AdaptivePlan(tuple(candidates), rounds, MarginalNoise(stds, relation, unit), each_round, quality)

    return at(calibrate(lambda level: Composed(tuple(c.event for c in at(level).charges)), budget, relation))


def measure_adaptively(
    plan: AdaptivePlan, counts: Callable[[Sequence[Clique]], list[np.ndarray]], model: Model, purchase: Purchase
) -> tuple[list[tuple[Clique, np.ndarray, float]], dict[str, np.ndarray]]:
    """Run the rounds; returns (clique, noisy counts, std) of every marginal bought, one-way marginals first, and the
    noisy cells of quality by their names."""
    one_ways = [(index,) for index in range(len(plan.one_way.stds) - len(plan.quality))]
    wanted = [*one_ways, *plan.candidates, *plan.quality]
    exact = dict(zip(wanted, counts(wanted), strict=True))
    cells = quality_by_name([exact[clique] for clique in plan.quality])
    released, bought = _buy_one_ways(plan, [exact[clique] for clique in one_ways], cells, purchase)
    for charge in plan.charges[1:]:
        copy = model(released)
        expected = {clique: np.rint(copy(clique)).astype(np.int64) for clique in plan.candidates}
        released.append(_buy_round(plan, charge, exact, expected, purchase))
    return released, {name: bought.arrays[name] for name in cells}


def scores(exact: Sequence[np.ndarray], expected: Sequence[np.ndarray], round_std: float) -> np.ndarray:
    """L1 distance in rows, less the expected L1 error sqrt(2/pi) std of each cell of the measurement."""
    return np.array(
        [
            int(np.abs(truth - guess).sum()) - round(math.sqrt(2 / math.pi) * round_std * truth.size)
            for truth, guess in zip(exact, expected, strict=True)
        ],
        dtype=np.int64,
    )


def _buy_one_ways(
    plan: AdaptivePlan, exact: list[np.ndarray], cells: dict[str, np.ndarray], purchase: Purchase
) -> tuple[list[tuple[Clique, np.ndarray, float]], Measurement]:
    facts = {"stds": list(plan.one_way.stds[: len(exact)])}
    everything = {**marginals_by_name(exact), **cells}
    bought = purchase(plan.charges[0], Mechanism(plan.one_way, everything, ONE_WAY_STAGE, facts))
    return [((i,), bought.arrays[f"marginal_{i}"], std) for i, std in enumerate(bought.facts["stds"])], bought


def _buy_round(
    plan: AdaptivePlan,
    charge: PlannedCharge,
    exact: dict[Clique, np.ndarray],
    expected: dict[Clique, np.ndarray],
    purchase: Purchase,
) -> tuple[Clique, np.ndarray, float]:
    candidates = plan.candidates
    quality = scores([exact[c] for c in candidates], [expected[c] for c in candidates], plan.round_std)
    contest = Contest(candidates, quality, {clique: exact[clique] for clique in candidates})
    bought = purchase(charge, Mechanism(plan.each_round, contest, "round", {"std": plan.round_std}))
    return _chosen(bought), bought.arrays["marginal"], float(bought.facts["std"])


def _chosen(bought: Measurement) -> Clique:
    """What the round chose. It was drawn, so it is an array; rounds bought by earlier versions keep it as a fact."""
    clique = bought.arrays["clique"].tolist() if "clique" in bought.arrays else bought.facts["clique"]
    return tuple(int(index) for index in clique)
