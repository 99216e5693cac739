"""The generator as the flow calls it: closed over its domain, faithful at low noise, total on degenerate
input.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import resize, synthesize
from understudy.pipelines.methods.privpgd.problem import GenerationError, GridColumn, NoisyMarginal

QUICK = PrivPGDConfig(epochs=4, directions=2, direction_pool=4, quantiles=256, bins=256, device="cpu")


def counts_of(codes: np.ndarray, columns: tuple[int, ...], sizes: list[int]) -> np.ndarray:
    shape = [sizes[c] for c in columns]
    cells = np.ravel_multi_index([codes[:, c] for c in columns], shape)
    return np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape).astype(float)


def correlated_table(rows: int, sizes: list[int], seed: int = 3) -> np.ndarray:
    rng = np.random.default_rng(seed)
    base = rng.beta(2, 4, size=rows)
    noisy = [np.clip(base + 0.15 * rng.normal(size=rows), 0, 0.999) for _ in sizes]
    return np.stack([(u * k).astype(int) for u, k in zip(noisy, sizes, strict=True)], axis=1)


def measure(codes: np.ndarray, sizes: list[int], order: int, sigma: float, seed: int = 5) -> list[NoisyMarginal]:
    rng = np.random.default_rng(seed)
    marginals = []
    for columns in combinations(range(len(sizes)), order):
        exact = counts_of(codes, columns, sizes)
        marginals.append(NoisyMarginal(columns, np.rint(exact + sigma * rng.normal(size=exact.shape)), sigma))
    return marginals


def mean_variation(left: np.ndarray, right: np.ndarray, sizes: list[int], order: int) -> float:
    distances = [
        0.5 * np.abs(counts_of(left, s, sizes) / len(left) - counts_of(right, s, sizes) / len(right)).sum()
        for s in combinations(range(len(sizes)), order)
    ]
    return float(np.mean(distances))


def assert_in_domain(codes: np.ndarray, rows: int, columns: list[GridColumn]) -> None:
    assert codes.dtype == np.int32
    assert codes.shape == (rows, len(columns))
    for index, column in enumerate(columns):
        assert rows == 0 or 0 <= codes[:, index].min() <= codes[:, index].max() < column.size


@pytest.mark.parametrize("order", [2, 3])
def test_low_noise_marginals_are_reproduced(order: int) -> None:
    sizes = [8, 5, 2, 6]
    columns = [GridColumn(8, True), GridColumn(5, False), GridColumn(2, False), GridColumn(6, True, (5,))]
    real = correlated_table(4000, sizes)
    fake = synthesize(measure(real, sizes, order, 1.0), columns, 4000, QUICK, seed=1)
    assert_in_domain(fake, 4000, columns)
    independent = np.stack([np.random.default_rng(c).permutation(real[:, c]) for c in range(4)], axis=1)
    assert mean_variation(real, fake, sizes, 2) < 0.015 < 0.1 < mean_variation(real, independent, sizes, 2)


@pytest.mark.parametrize("rows", [0, 1, 7, 3000])
@pytest.mark.parametrize("sigma", [0.0, 1.0, 1e5])
def test_any_column_can_be_in_focus(rows: int, sigma: float) -> None:
    """Also one of a single value, one that no marginal covers, and one whose codes are not all in order."""
    sizes = [8, 5, 1, 6]
    columns = [GridColumn(8, True), GridColumn(5, False), GridColumn(1, False), GridColumn(6, True, (5,))]
    marginals = measure(correlated_table(3000, sizes), sizes, 2, sigma)
    focus = frozenset(range(5))
    fake = synthesize(marginals, [*columns, GridColumn(4, True)], rows, QUICK, seed=1, focus=focus)
    assert_in_domain(fake, rows, [*columns, GridColumn(4, True)])


def test_a_label_follows_from_the_other_columns_better_with_a_focus_on_it() -> None:
    """Columns that all say the same of a label, at a noise that hides what each says of it."""
    sizes, rng = [16, 16, 16, 16, 2], np.random.default_rng(8)
    real = correlated_table(20_000, sizes)
    columns, gaps = [GridColumn(k, k > 2) for k in sizes], []
    for seed in range(3):
        marginals = measure(real, sizes, 2, 150.0, seed)
        means = []
        for focus in (frozenset[int](), frozenset({4})):
            fake = synthesize(marginals, columns, 20_000, QUICK, seed=seed, focus=focus)
            # How far apart the labels' mean scores lie, by a linear rule learned from the copy, on the real rows.
            cells = np.eye(16)[fake[:, :4]].reshape(len(fake), -1)
            rule = np.linalg.solve(cells.T @ cells + 10 * np.eye(64), cells.T @ (fake[:, 4] - fake[:, 4].mean()))
            score = np.eye(16)[real[:, :4]].reshape(len(real), -1) @ rule
            means.append(float(np.corrcoef(score + 1e-9 * rng.normal(size=len(score)), real[:, 4])[0, 1]))
        gaps.append(means[1] - means[0])
    assert np.mean(gaps) > 0.01


def test_result_is_closer_to_the_truth_than_the_noisy_marginals() -> None:
    sizes = [16, 12, 4, 10]
    real = correlated_table(20_000, sizes)
    marginals = measure(real, sizes, 2, 30.0)
    fake = synthesize(marginals, [GridColumn(k, True) for k in sizes], 20_000, QUICK, seed=2)
    clipped = [np.maximum(m.counts, 0) / np.maximum(m.counts, 0).sum() for m in marginals]
    truth = [counts_of(real, m.columns, sizes) / len(real) for m in marginals]
    noisy_variation = np.mean([0.5 * np.abs(c - t).sum() for c, t in zip(clipped, truth, strict=True)])
    assert mean_variation(real, fake, sizes, 2) < 0.85 * noisy_variation


def test_mixed_orders_and_any_number_of_rows() -> None:
    sizes = [6, 4, 3]
    columns = [GridColumn(k, True) for k in sizes]
    real = correlated_table(3000, sizes)
    mixed = [*measure(real, sizes, 1, 2.0), measure(real, sizes, 2, 5.0)[0], *measure(real, sizes, 3, 5.0)]
    for rows, particles in ((7, 500), (500, 500), (2600, 500), (0, 10)):
        config = PrivPGDConfig(particles=particles, epochs=2, quantiles=64, bins=64, device="cpu")
        fake = synthesize(mixed, columns, rows, config, seed=4)
        assert_in_domain(fake, rows, columns)
        if rows >= 500:
            assert mean_variation(real, fake, sizes, 3) < 0.05


def test_same_seed_same_table_and_input_is_untouched() -> None:
    sizes = [6, 4, 3]
    marginals = measure(correlated_table(500, sizes), sizes, 2, 3.0)
    before = [m.counts.copy() for m in marginals]
    columns = [GridColumn(k, True) for k in sizes]
    first = synthesize(marginals, columns, 300, QUICK, seed=9)
    assert np.array_equal(first, synthesize(marginals, columns, 300, QUICK, seed=9))
    assert not np.array_equal(first, synthesize(marginals, columns, 300, QUICK, seed=10))
    assert all(np.array_equal(m.counts, b) for m, b in zip(marginals, before, strict=True))


def test_progress_reports_falling_loss() -> None:
    sizes = [12, 12, 9, 7]
    marginals = measure(correlated_table(5000, sizes), sizes, 2, 0.0)
    seen: list[tuple[int, int, float]] = []
    config = PrivPGDConfig(epochs=8, device="cpu")
    synthesize(
        marginals,
        [GridColumn(k, True) for k in sizes],
        2000,
        config,
        seed=1,
        progress=lambda done, total, loss: seen.append((done, total, loss)),
    )
    assert [s[:2] for s in seen] == [(i + 1, 8) for i in range(len(seen))]
    assert seen[-1][2] < 0.5 * seen[0][2]


@pytest.mark.parametrize(
    ("marginals", "columns"),
    [
        pytest.param([NoisyMarginal((0,), np.array([5, 3]), 1.0)], [GridColumn(2, True)], id="one column"),
        pytest.param(
            [NoisyMarginal((0, 1), np.array([[5, 3]]), 1.0)],
            [GridColumn(1, True), GridColumn(2, False)],
            id="constant column",
        ),
        pytest.param([NoisyMarginal((0, 1), np.zeros((3, 3)), 1.0)], [GridColumn(3, True)] * 2, id="n = 0"),
        pytest.param([NoisyMarginal((0, 1), np.full((3, 3), -40), 9.0)], [GridColumn(3, False)] * 2, id="negative"),
        pytest.param([NoisyMarginal((0, 1), np.eye(3), 0.0)], [GridColumn(3, True)] * 2, id="exact"),
        pytest.param(
            [NoisyMarginal((0, 1), np.arange(9).reshape(3, 3) * 1e9, 1e9)],
            [GridColumn(3, True)] * 2,
            id="enormous noise",
        ),
        pytest.param([], [GridColumn(4, True), GridColumn(2, False)], id="no marginal"),
        pytest.param(
            [NoisyMarginal((0,), np.array([9, 1]), 1.0)],
            [GridColumn(2, True), GridColumn(3, False)],
            id="uncovered column",
        ),
        pytest.param(
            [NoisyMarginal((0, 1), np.ones((3, 2)), 1.0)],
            [GridColumn(3, True, (0, 1, 2)), GridColumn(2, True)],
            id="every code off the axis",
        ),
    ],
)
@pytest.mark.parametrize("rows", [1, 50])
def test_degenerate_input_gives_a_table_of_the_domain(
    marginals: list[NoisyMarginal], columns: list[GridColumn], rows: int
) -> None:
    assert_in_domain(synthesize(marginals, columns, rows, QUICK, seed=1), rows, columns)


def test_ten_thousand_values() -> None:
    rng = np.random.default_rng(1)
    weights = rng.dirichlet(np.full(10_000, 0.05))
    pair = rng.multinomial(20_000, np.stack([0.8 * weights, 0.2 * weights], axis=1).ravel()).reshape(10_000, 2)
    columns = [GridColumn(10_000, True), GridColumn(2, False)]
    fake = synthesize([NoisyMarginal((0, 1), pair, 0.5)], columns, 5000, QUICK, seed=1)
    assert_in_domain(fake, 5000, columns)
    assert np.abs(np.bincount(fake[:, 0], minlength=10_000) / 5000 - weights).sum() / 2 < 0.2


def test_category_never_seen_stays_rare() -> None:
    counts = np.array([[900.0, 0.0, 100.0], [500.0, 0.0, 500.0]])
    fake = synthesize(
        [NoisyMarginal((0, 1), counts, 2.0)], [GridColumn(2, True), GridColumn(3, False)], 2000, QUICK, seed=1
    )
    assert np.mean(fake[:, 1] == 1) < 0.005


@pytest.mark.parametrize(
    ("marginals", "columns", "said"),
    [
        ([], [], "no columns"),
        ([], [GridColumn(0, True)], "at least one code"),
        ([], [GridColumn(2, True, (2,))], "unordered codes"),
        ([NoisyMarginal((0, 1), np.ones((2, 3)), 1.0)], [GridColumn(2, True)] * 2, "shape"),
        ([NoisyMarginal((1, 0), np.ones((2, 2)), 1.0)], [GridColumn(2, True)] * 2, "increasing"),
        ([NoisyMarginal((0, 2), np.ones((2, 2)), 1.0)], [GridColumn(2, True)] * 2, "outside"),
        ([NoisyMarginal((0,), np.ones(2), -1.0)], [GridColumn(2, True)], "sigma"),
        ([NoisyMarginal((0,), np.array([1.0, np.nan]), 1.0)], [GridColumn(2, True)], "not finite"),
        ([NoisyMarginal((), np.array(1.0), 1.0)], [GridColumn(2, True)], "columns"),
    ],
)
def test_bad_input_is_refused_by_name(marginals: list[NoisyMarginal], columns: list[GridColumn], said: str) -> None:
    with pytest.raises(GenerationError, match=said):
        synthesize(marginals, columns, 5)


def test_bad_requests_are_refused() -> None:
    with pytest.raises(GenerationError, match="rows"):
        synthesize([], [GridColumn(2, True)], -1)
    for bad in (
        {"device": "tpu"},
        {"particles": 0},
        {"epochs": -1},
        {"learning_rate": 0.0},
        {"directions": 99},
    ):
        with pytest.raises(GenerationError):
            PrivPGDConfig(**bad)


def test_resize_uses_every_row_equally() -> None:
    codes = np.arange(10, dtype=np.int32)[:, None]
    times = np.bincount(resize(codes, 37, np.random.default_rng(0))[:, 0], minlength=10)
    assert sorted(set(times)) == [3, 4]
    assert times.sum() == 37
    assert len(np.unique(resize(codes, 6, np.random.default_rng(0)))) == 6
