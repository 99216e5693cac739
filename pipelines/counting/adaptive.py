"""Adaptive selection: measure one-way marginals, then round by round the marginal that the copy gets most wrong.

This is Algorithm 2 of the PrivPGD paper (the MWEM loop) with the scores of AIM (McKenna et al. 2022): a candidate's
score is the L1 distance between its true counts and those of the present copy, less the L1 error that measuring it
would have, so that large marginals are chosen only when they are worth their noise. Wide ordered columns are measured
in groups of neighbours too (counting/groups.py), alone and in what is chosen; a candidate with one is scored by its
codes and by its groups, and the largest of these scores is its own.

Theorem. A round is an exponential mechanism and, on what it chose, a Gaussian: docs/proofs/selection.md.
Relation, sensitivity. Scores are whole numbers of rows. A unit of k rows moves the L1 distance of any marginal, and of
  its sums over groups, by at most k (ADD_REMOVE) or 2 k (REPLACE_ONE), and so the largest of several; the copy and the
  penalties are public. Measured counts: `counting.mechanism`, whose event is one table's whatever is chosen.
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
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import MappingProxyType

import numpy as np

from understudy.pipelines.counting.groups import GroupedClique, Groupings
from understudy.pipelines.counting.lifted import ReleasedGroups
from understudy.pipelines.counting.mechanism import MarginalNoise, one_table_noise
from understudy.pipelines.counting.quality import quality_by_name
from understudy.pipelines.counting.released import GROUPED, Released, grouped_by_name, marginals_by_name
from understudy.pipelines.counting.shares import split_by_groups
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


@dataclass(frozen=True, eq=False)
class Bought:
    """What was released so far: one-way marginals first; and the same in groups of neighbours, where there are any."""

    marginals: list[Released]
    grouped: list[ReleasedGroups] = field(default_factory=list)


Model = Callable[[Bought], Callable[[Clique], np.ndarray]]
"""Fits a copy to what was released so far; the result gives the copy's counts of any clique."""


@dataclass(frozen=True)
class Contest:
    """The exact numbers of one round: the candidates' scores, and the counts of each of them."""

    candidates: tuple[Clique, ...]
    scores: np.ndarray
    counts: Mapping[Clique, np.ndarray]


@dataclass(frozen=True)
class RoundNoise:
    """One round: an exponential mechanism with its epsilon, then Gaussian noise on the marginal that it chose.

    `counts` is the noise of one table, and what any choice costs.
    """

    choice_epsilon: Fraction
    counts: MarginalNoise
    groupings: Mapping[int, Groupings] = field(default_factory=lambda: MappingProxyType({}))

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
            **self.noise_of(clique).draw(self.tables_of(clique, exact.counts[clique]), randomness),
        }

    def grouped(self, clique: Clique) -> tuple[GroupedClique, ...]:
        return tuple(split_by_groups(clique, 1.0, self.groupings)[1])

    def noise_of(self, clique: Clique) -> MarginalNoise:
        """Of the tables that a round releases of a clique, at the cost of one."""
        codes, in_groups = split_by_groups(clique, 1.0, self.groupings)
        if not in_groups:
            return self.counts
        noise = replace(self.counts, stds=noise_stds((codes, *in_groups.values()), self.counts.stds[0], 1.0))
        if noise.event != self.counts.event:
            raise ArithmeticError("the noise of a round is not what was charged")
        return noise

    def tables_of(self, clique: Clique, counts: np.ndarray) -> dict[str, np.ndarray]:
        """A clique's counts as a round releases them: by codes, then by groups."""
        return {"marginal": counts, **grouped_by_name([each.summed(counts) for each in self.grouped(clique)])}


@dataclass(frozen=True)
class AdaptivePlan:
    """Everything about the rounds that is decided before a row is read."""

    candidates: tuple[Clique, ...]
    rounds: int
    one_way: MarginalNoise
    each_round: RoundNoise
    quality: tuple[Clique, ...] = ()
    """How columns were understood, bought with the one-way marginals; the last stds of `one_way` are theirs."""
    grouped: tuple[GroupedClique, ...] = ()
    """Wide columns by themselves in groups, bought with the one-way marginals too, between these and quality."""

    @property
    def columns(self) -> int:
        return len(self.one_way.stds) - len(self.grouped) - len(self.quality)

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
    groupings: Mapping[int, Groupings] = MappingProxyType({}),
) -> AdaptivePlan:
    """The least noise at which one-way marginals, quality and all rounds together stay within the budget."""
    sensitivity = counts_sensitivity(relation, unit.max_rows)

    def at(level: float) -> AdaptivePlan:
        in_round = (1 - one_way_share) / (rounds * level * level)  # of mu^2
        z_one_way = level / math.sqrt(one_way_share)
        shares, grouped = _alone(columns, 1 / columns, groupings)
        if quality:
            first = one_way_share * (1 - quality_share) + quality_share
            in_round *= 1 - quality_share
            z_one_way = level / math.sqrt(first)
            part = quality_share / first
            shares = (*_alone(columns, (1 - part) / columns, groupings)[0], *(part / len(quality),) * len(quality))
        stds = noise_stds(shares, planned(z_one_way), sensitivity)
        z_round = 1 / math.sqrt(in_round * (1 - CHOICE_SHARE))
        epsilon = selection_epsilon(math.sqrt(in_round * CHOICE_SHARE))
        each_round = RoundNoise(epsilon, one_table_noise(planned(z_round), relation, unit), groupings)
        one_way = MarginalNoise(stds, relation, unit)
        return AdaptivePlan(tuple(candidates), rounds, one_way, each_round, quality, grouped)

    return at(calibrate(lambda level: Composed(tuple(c.event for c in at(level).charges)), budget, relation))


def _alone(
    columns: int, share: float, groupings: Mapping[int, Groupings]
) -> tuple[tuple[float, ...], tuple[GroupedClique, ...]]:
    """Shares of the one-way marginals, each of which has `share`, then of their groups; and these groups."""
    split = [split_by_groups((column,), share, groupings) for column in range(columns)]
    in_groups = {each: part for _, ways in split for each, part in ways.items()}
    return (*(codes for codes, _ in split), *in_groups.values()), tuple(in_groups)


def measure_adaptively(
    plan: AdaptivePlan, counts: Callable[[Sequence[Clique]], list[np.ndarray]], model: Model, purchase: Purchase
) -> tuple[Bought, dict[str, np.ndarray]]:
    """Run the rounds; returns everything bought, and the noisy cells of quality by their names."""
    one_ways = [(index,) for index in range(plan.columns)]
    wanted = [*one_ways, *plan.candidates, *plan.quality]
    exact = dict(zip(wanted, counts(wanted), strict=True))
    cells = quality_by_name([exact[clique] for clique in plan.quality])
    bought, arrays = _buy_one_ways(plan, [exact[clique] for clique in one_ways], cells, purchase)
    for charge in plan.charges[1:]:
        copy = model(bought)
        expected = {clique: np.rint(copy(clique)).astype(np.int64) for clique in plan.candidates}
        more = _buy_round(plan, charge, exact, expected, purchase)
        bought = Bought([*bought.marginals, *more.marginals], [*bought.grouped, *more.grouped])
    return bought, {name: arrays[name] for name in cells}


def score_of(clique: Clique, exact: np.ndarray, expected: np.ndarray, noise: RoundNoise) -> int:
    """A candidate's score: by its codes, or by the groups that are worth most."""
    seen, told = noise.tables_of(clique, exact), noise.tables_of(clique, expected)
    tables = zip(seen.values(), told.values(), noise.noise_of(clique).stds, strict=True)
    return max(int(scores([table], [guess], std)[0]) for table, guess, std in tables)


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
) -> tuple[Bought, Mapping[str, np.ndarray]]:
    facts = {"stds": list(plan.one_way.stds[: len(exact)])}
    in_groups = grouped_by_name([each.summed(exact[each.columns[0]]) for each in plan.grouped])
    everything = {**marginals_by_name(exact), **in_groups, **cells}
    sold = purchase(plan.charges[0], Mechanism(plan.one_way, everything, ONE_WAY_STAGE, facts))
    marginals: list[Released] = [
        ((i,), sold.arrays[f"marginal_{i}"], float(std)) for i, std in enumerate(sold.facts["stds"])
    ]
    stds = plan.one_way.stds[len(exact) : len(exact) + len(plan.grouped)]
    return Bought(marginals, _groups(plan.grouped, sold, stds)), sold.arrays


def _buy_round(
    plan: AdaptivePlan,
    charge: PlannedCharge,
    exact: dict[Clique, np.ndarray],
    expected: dict[Clique, np.ndarray],
    purchase: Purchase,
) -> Bought:
    noise, candidates = plan.each_round, plan.candidates
    quality = np.array([score_of(c, exact[c], expected[c], noise) for c in candidates], dtype=np.int64)
    contest = Contest(candidates, quality, {clique: exact[clique] for clique in candidates})
    bought = purchase(charge, Mechanism(noise, contest, "round", {"std": plan.round_std}))
    clique = _chosen(bought)
    grouped = noise.grouped(clique)
    stds = noise.noise_of(clique).stds
    if not _has_groups(bought):
        return Bought([(clique, bought.arrays["marginal"], float(bought.facts["std"]))])
    return Bought([(clique, bought.arrays["marginal"], stds[0])], _groups(grouped, bought, stds[1:]))


def _groups(grouped: Sequence[GroupedClique], bought: Measurement, stds: Sequence[float]) -> list[ReleasedGroups]:
    """None where an earlier version, which did not measure in groups, stored what was bought."""
    if not _has_groups(bought):
        return []
    return [
        (each, bought.arrays[f"{GROUPED}_{i}"], std) for i, (each, std) in enumerate(zip(grouped, stds, strict=True))
    ]


def _has_groups(bought: Measurement) -> bool:
    return f"{GROUPED}_0" in bought.arrays


def _chosen(bought: Measurement) -> Clique:
    """What the round chose. It was drawn, so it is an array; rounds bought by earlier versions keep it as a fact."""
    clique = bought.arrays["clique"].tolist() if "clique" in bought.arrays else bought.facts["clique"]
    return tuple(int(index) for index in clique)
