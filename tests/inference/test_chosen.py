"""What was chosen by looking at noisy numbers is answered with intervals that hold: what was looked at is not what is
told of a triple, whose noise is drawn after it was chosen."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from tests.randomness import SeededWords
from understudy.pipelines.counting.mechanism import noise_multiplier
from understudy.pipelines.counting.released import RESIDUALS, released_residuals, residuals_by_name
from understudy.pipelines.counting.shares import share_out
from understudy.pipelines.counting.triples import TripleCounts, candidate_triples, triples_noise
from understudy.pipelines.privacy.mechanism import Mechanism
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

SIZES = (2, 3, 6, 8, 2)
ORDERED = (False, True, True, True, False)
ROWS, RELEASES = 20_000, 80


def rows(strength: float) -> np.ndarray:
    """A chain of pairs and, in this part of the rows, a label that is whether exactly one of two columns is high."""
    rng = np.random.default_rng(0)
    codes = [rng.integers(0, SIZES[0], ROWS)]
    for size in SIZES[1:]:
        codes.append(np.where(rng.random(ROWS) < 0.4, codes[-1] % size, rng.integers(0, size, ROWS)))
    told = rng.random(ROWS) < strength
    codes[4] = np.where(told, codes[0] ^ (codes[3] >= 4), codes[4])
    return np.stack(codes, axis=1)


def counted(codes: np.ndarray, clique: tuple[int, ...]) -> np.ndarray:
    shape = [SIZES[column] for column in clique]
    cells = (
        np.ravel_multi_index([codes[:, column] for column in clique], shape) if clique else np.zeros(len(codes), int)
    )
    return np.bincount(cells, minlength=math.prod(shape)).reshape(shape)


@pytest.mark.parametrize("strength", [0.15, 0.3])
def test_intervals_of_pairs_and_of_chosen_triples_cover(strength: float) -> None:
    """At strengths where one release chooses the triple and another does not."""
    codes, z = rows(strength), noise_multiplier(Budget("0.2", "1e-5"), Relation.ADD_REMOVE, "rounded")
    workload, candidates = share_out(list(combinations(range(5), 2)), SIZES, z), candidate_triples(SIZES)
    noise = triples_noise(candidates, workload, SIZES, ORDERED, (), z, Relation.ADD_REMOVE, Unit(), "rounded")
    exact = TripleCounts(
        residuals_by_name([counted(codes, clique) for clique in workload.measured]),
        {triple: counted(codes, triple) for triple in candidates},
        None,
    )
    sold = Mechanism(noise, exact, RESIDUALS, {"sizes": list(SIZES), "public_total": None})
    inside: dict[int, list[np.ndarray]] = {1: [], 2: [], 3: []}
    for seed in range(RELEASES):
        told = released_residuals(sold.draw(SeededWords(seed)))
        for clique in told.asked:
            off = np.abs(told.marginal(clique) - counted(codes, clique)) / math.sqrt(told.variance(clique))
            inside[len(clique)].append((off < 1.96).ravel())
    assert 5 < len(inside[3]) < 2 * RELEASES
    for order, tolerance in ((1, 0.015), (2, 0.01), (3, 0.03)):
        assert abs(float(np.concatenate(inside[order]).mean()) - 0.95) < tolerance
