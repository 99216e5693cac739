"""Hard rules hold in every row, whatever the marginals say; penalties move statistics as the paper means them
to.
"""

from __future__ import annotations

import numpy as np
import pytest

from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.constraints import (
    AtLeast,
    Constraint,
    Forbidden,
    Implies,
    Protect,
    Statistic,
)
from understudy.pipelines.methods.privpgd.engine import synthesize
from understudy.pipelines.methods.privpgd.problem import GenerationError, GridColumn, NoisyMarginal

QUICK = PrivPGDConfig(epochs=2, directions=2, direction_pool=4, quantiles=128, bins=128, device="cpu")
SIZES = [6, 5, 4]
COLUMNS = [GridColumn(k, True) for k in SIZES]


def flat_marginals(sigma: float = 20.0) -> list[NoisyMarginal]:
    """Marginals that put mass on every cell, so that any rule is in conflict with them."""
    rng = np.random.default_rng(0)
    pairs = ((0, 1), (0, 2), (1, 2))
    shapes = [(SIZES[a], SIZES[b]) for a, b in pairs]
    return [
        NoisyMarginal(pair, np.rint(3000 / np.prod(shape) + sigma * rng.normal(size=shape)), sigma)
        for pair, shape in zip(pairs, shapes, strict=True)
    ]


@pytest.mark.parametrize("rows", [1, 2, 1500])
def test_rules_hold_in_every_row(rows: int) -> None:
    rules: list[Constraint] = [
        Forbidden((0, 2), ((0, 0), (1, 3), (5, 2))),
        Implies(0, frozenset({0, 1}), 1, frozenset({4})),
        AtLeast((2, 1), (1.0, -1.0), bound=-2.0),
        AtLeast((0, 1, 2), (1.0, 1.0, 1.0), bound=3.0),
    ]
    fake = synthesize(flat_marginals(), COLUMNS, rows, QUICK, constraints=rules, seed=3)
    a, b, c = fake.T
    assert fake.shape == (rows, 3)
    assert not np.any((a == 0) & (c == 0) | (a == 1) & (c == 3) | (a == 5) & (c == 2))
    assert np.all((a > 1) | (b == 4))
    assert np.all(c - b >= -2)
    assert np.all(a + b + c >= 3)


def test_row_needing_two_changes_at_once_is_replaced() -> None:
    """Only (0,0) and (5,4) are allowed and both columns are pulled elsewhere: no single move helps."""
    cells = tuple((a, b) for a in range(6) for b in range(5) if (a, b) not in ((0, 0), (5, 4)))
    fake = synthesize(flat_marginals(), COLUMNS, 400, QUICK, constraints=[Forbidden((0, 1), cells)], seed=1)
    assert set(map(tuple, fake[:, :2])) <= {(0, 0), (5, 4)}


def test_numbers_of_codes_and_nulls_in_inequalities() -> None:
    late = AtLeast((0, 1), (1.0, -1.0), values=((0, 10, 20, 30, 40, float("nan")), (5, 15, 25, 35, 45)))
    fake = synthesize(flat_marginals(), COLUMNS, 800, QUICK, constraints=[late], seed=2)
    left, right = np.array([0, 10, 20, 30, 40, np.inf])[fake[:, 0]], np.array([5, 15, 25, 35, 45])[fake[:, 1]]
    assert np.all(left >= right)
    assert np.any(fake[:, 0] == 5)


def test_contradictory_rules_are_refused() -> None:
    never = [Forbidden((0,), tuple((a,) for a in range(6)))]
    with pytest.raises(GenerationError, match="no row can obey"):
        synthesize(flat_marginals(), COLUMNS, 10, QUICK, constraints=never, seed=1)


@pytest.mark.parametrize(
    "bad",
    [
        Forbidden((0, 0), ((0, 0),)),
        Implies(0, frozenset({1}), 9, frozenset({1})),
        AtLeast((0, 1), (1.0,)),
        AtLeast((0, 1), (1.0, -1.0), values=((1, 2), None)),
    ],
)
def test_malformed_rules_are_refused(bad: Constraint) -> None:
    with pytest.raises(GenerationError):
        synthesize(flat_marginals(), COLUMNS, 10, QUICK, constraints=[bad])


def test_protection_pushes_a_statistic_away_and_spares_the_marginals() -> None:
    rng = np.random.default_rng(5)
    real = np.stack([rng.integers(0, k, 4000) for k in SIZES], axis=1)
    real[:, 1] = np.minimum(real[:, 0], 4)
    marginals = []
    for pair in ((0, 1), (0, 2), (1, 2)):
        counts = np.zeros([SIZES[c] for c in pair])
        np.add.at(counts, tuple(real[:, c] for c in pair), 1)
        marginals.append(NoisyMarginal(pair, counts, 1.0))
    secret = Statistic({0: np.linspace(-1, 1, 6), 2: np.linspace(-1, 1, 4)})
    gaps, spread = [], []
    for strength in (0.0, 1e-4, 1e-2):
        fake = synthesize(
            marginals, COLUMNS, 4000, QUICK, constraints=[Protect(secret, secret.of(real), strength)], seed=1
        )
        gaps.append(abs(secret.of(fake) - secret.of(real)))
        ones = [np.bincount(t[:, 1], minlength=5) / 4000 for t in (real, fake)]
        spread.append(0.5 * np.abs(ones[0] - ones[1]).sum())
    assert gaps[0] < 0.005
    assert gaps[0] < gaps[1] < gaps[2]
    assert gaps[2] > 0.05
    assert max(spread) < 0.1
