"""Discrete refinement: its bookkeeping is exact, every sweep lowers the loss, and it reaches what can be
reached.
"""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from scipy.stats import chisquare

from understudy.pipelines.methods.privpgd.constraints import Penalty, Preserve, Rule, Statistic
from understudy.pipelines.methods.privpgd.polish import build_fibres, build_scores, polish
from understudy.pipelines.methods.privpgd.polish_kernel import redraw, sweep
from understudy.pipelines.methods.privpgd.projection import maximum_entropy
from understudy.pipelines.methods.privpgd.targets import Target

SIZES = [5, 3, 4]


def random_targets(rng: np.random.Generator) -> list[Target]:
    return [
        Target(columns, rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape), weight, 0.0)
        for columns, shape, weight in (((0, 1), (5, 3), 1.0), ((0, 1, 2), (5, 3, 4), 0.5), ((2,), (4,), 1.0))
    ]


def loss(codes: np.ndarray, targets: list[Target]) -> float:
    total = 0.0
    for target in targets:
        counts = np.zeros(target.probabilities.shape)
        np.add.at(counts, tuple(codes[:, c] for c in target.columns), 1)
        total += target.weight * np.sum((counts - len(codes) * target.probabilities) ** 2)
    return total


def test_gap_tables_stay_true_in_every_layout() -> None:
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, k, 300) for k in SIZES], axis=1).astype(np.int32)
    targets = random_targets(rng)
    penalty = Penalty(Statistic({0: np.linspace(-1, 1, 5)}, link="sigmoid"), 0.4, attract=0.01)
    fibres, scores = build_fibres(codes, targets, [], SIZES), build_scores(codes, [penalty], SIZES)
    moved = sweep(codes, np.arange(300), np.arange(3), np.array(SIZES), fibres, scores)
    assert moved > 50
    fresh = build_fibres(codes, targets, [], SIZES)
    assert np.allclose(fibres.gaps, fresh.gaps, atol=1e-3)
    again = build_scores(codes, [penalty], SIZES)
    assert np.allclose(scores.rows, again.rows)
    assert np.allclose(scores.totals, again.totals)


def test_every_sweep_lowers_the_loss_until_no_single_move_can() -> None:
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, k, 200) for k in SIZES], axis=1).astype(np.int32)
    targets = random_targets(rng)
    before = loss(codes, targets)
    for _ in range(4):
        polish(codes, targets, SIZES, 1, rng)
        after = loss(codes, targets)
        assert after <= before + 1e-6
        before = after
    polish(codes, targets, SIZES, 50, rng)
    final = loss(codes, targets)
    for row in range(0, 200, 7):
        for column, size in enumerate(SIZES):
            for code in range(size):
                trial = codes.copy()
                trial[row, column] = code
                assert loss(trial, targets) >= final - 1e-2


def test_a_reachable_table_is_reached() -> None:
    rng = np.random.default_rng(2)
    real = np.stack([rng.integers(0, k, 1000) for k in SIZES], axis=1)
    real[:, 1] = np.minimum(real[:, 0], 2)
    counts = np.zeros((5, 3))
    np.add.at(counts, (real[:, 0], real[:, 1]), 1)
    codes = np.zeros((1000, 3), dtype=np.int32)
    polish(codes, [Target((0, 1), counts / 1000, 1.0, 0.0)], SIZES, 30, rng)
    assert loss(codes, [Target((0, 1), counts / 1000, 1.0, 0.0)]) < 10


@pytest.mark.parametrize("link", ["mean", "threshold", "sigmoid"])
def test_statistic_is_pulled_to_its_value(link: str) -> None:
    rng = np.random.default_rng(3)
    codes = np.stack([rng.integers(0, k, 2000) for k in SIZES], axis=1).astype(np.int32)
    flat = [Target((0, 1), np.full((5, 3), 1 / 15), 1.0, 0.0), Target((2,), np.full(4, 0.25), 1.0, 0.0)]
    statistic = Statistic({0: np.linspace(0, 0.5, 5), 2: np.linspace(-0.3, 0.2, 4)}, link=link)  # type: ignore[arg-type]
    value = statistic.of(codes) + 0.05
    polish(codes, flat, SIZES, 20, rng, penalties=[Preserve(statistic, value, 100.0).penalty(SIZES)])
    assert statistic.of(codes) == pytest.approx(value, abs=0.004)


def test_redraws_draw_tables_of_the_stated_density() -> None:
    """All 16 tables of two rows and two columns of two codes, by brute force."""
    rng = np.random.default_rng(5)
    targets = [
        Target((0, 1), np.array([[0.6, 0.1], [0.1, 0.2]]), 0.7, 0.0),
        Target((1,), np.array([0.5, 0.5]), 1.0, 0.0),
    ]
    tables = [np.array(codes, dtype=np.int32).reshape(2, 2) for codes in product(range(2), repeat=4)]
    density = np.array([np.exp(-0.9 / 2 * loss(table, targets)) for table in tables])
    codes = np.zeros((2, 2), dtype=np.int32)
    fibres = build_fibres(codes, targets, [], [2, 2])
    seen = np.zeros(16)
    for _ in range(20_000):
        # Neighbouring tables of the chain resemble each other; every fifth hardly does.
        for _ in range(5):
            redraw(codes, np.arange(2), np.arange(2), np.array([2, 2]), fibres, np.float32(0.9), rng)
        seen[int("".join(map(str, codes.ravel())), 2)] += 1
    assert chisquare(seen, 20_000 * density / density.sum()).pvalue > 1e-4
    too_weak = density**0.9
    assert chisquare(seen, 20_000 * too_weak / too_weak.sum()).pvalue < 1e-6


def test_redraws_forget_what_no_pair_asks_for() -> None:
    """A table in which the third column is the parity of the others has the pairs of an independent one."""
    rng = np.random.default_rng(6)
    first = rng.integers(0, 2, (40_000, 2))
    codes = np.column_stack([first, first.sum(axis=1) % 2]).astype(np.int32)
    flat = [Target(pair, np.full((2, 2), 0.25), 1.0, 0.0) for pair in combinations(range(3), 2)]
    kept = codes.copy()
    polish(kept, flat, [2, 2, 2], 20, rng)
    assert np.mean(kept.sum(axis=1) % 2 == 0) > 0.95
    polish(codes, flat, [2, 2, 2], 20, rng, redraws=4)
    assert np.mean(codes.sum(axis=1) % 2 == 0) == pytest.approx(0.5, abs=0.02)


def test_redrawn_tables_have_the_greatest_entropy_of_their_pairs() -> None:
    rng = np.random.default_rng(7)
    sizes, pairs = [2, 3, 2], list(combinations(range(3), 2))
    joint = rng.dirichlet(np.ones(12)).reshape(sizes)
    lower = {pair: joint.sum(axis=3 - sum(pair)) for pair in pairs}
    codes = np.stack(np.unravel_index(rng.choice(12, 50_000, p=joint.ravel()), sizes), axis=1).astype(np.int32)
    polish(codes, [Target(pair, lower[pair], 1.0, 0.0) for pair in pairs], sizes, 20, rng, redraws=8)
    found = np.zeros(sizes)
    np.add.at(found, tuple(codes.T), 1 / len(codes))
    expected = maximum_entropy(lower, tuple(sizes))
    assert np.abs(joint - expected).sum() > 0.05
    assert np.abs(found - expected).sum() < 0.015


def test_redraws_never_break_a_rule() -> None:
    rng = np.random.default_rng(8)
    rule = Rule((0, 1), np.arange(5)[:, None] >= np.arange(3)[None, :])
    codes = np.zeros((2000, 3), dtype=np.int32)
    polish(codes, random_targets(rng), SIZES, 0, rng, [rule], redraws=3)
    assert not rule.broken_by(codes).any()
    assert len(np.unique(codes, axis=0)) > 20
