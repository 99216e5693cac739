"""Discrete refinement: its bookkeeping is exact, every sweep lowers the loss, and it reaches what can be
reached.
"""

from __future__ import annotations

import numpy as np
import pytest

from understudy.pipelines.privpgd.constraints import Penalty, Preserve, Statistic
from understudy.pipelines.privpgd.polish import build_fibres, build_scores, polish
from understudy.pipelines.privpgd.polish_kernel import sweep
from understudy.pipelines.privpgd.targets import Target

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
