"""Rows under fixed parents: what is frozen never moves, gap tables stay true, weighted targets that can be met are."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.methods.privpgd.constraints import Rule
from understudy.pipelines.methods.privpgd.polish import build_fibres
from understudy.pipelines.methods.privpgd.start import draw_the_rest, grow_tree
from understudy.pipelines.methods.privpgd.targets import Target
from understudy.pipelines.methods.tree.generating.family_kernel import redraw_families, sweep_families
from understudy.pipelines.methods.tree.generating.fitting import (
    Effort,
    LagTarget,
    build_lags,
    families_of,
    fit_families,
)

SIZES = [4, 3, 5, 2]
FROZEN = frozenset({0, 3})


def families(rng: np.random.Generator, roots: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes, parents and roots of rows, two parents a root."""
    parent = np.repeat(np.arange(2 * roots), rng.integers(0, 5, 2 * roots))
    codes = np.stack([rng.integers(0, size, len(parent)) for size in SIZES], axis=1).astype(np.int32)
    return codes, parent, parent // 2


def some_targets(rng: np.random.Generator) -> tuple[list[Target], list[LagTarget]]:
    def table(*shape: int) -> np.ndarray:
        return rng.dirichlet(np.ones(int(np.prod(shape)))).reshape(shape)

    targets = [Target((0, 1), table(4, 3), 1.0, 0.0), Target((1, 2), table(3, 5), 0.5, 0.0)]
    targets += [Target((2, 3), table(5, 2), 1.0, 0.0), Target((2,), table(5), 1.0, 0.0)]
    return targets, [LagTarget(1, 1, table(3, 3), 1.0), LagTarget(1, 2, table(3, 5), 0.7)]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from([None, 2]))
def test_frozen_columns_never_move_and_gap_tables_stay_true(seed: int, ordered: int | None) -> None:
    rng = np.random.default_rng(seed)
    codes, parent, root = families(rng)
    if ordered is not None:
        codes[:, ordered] = codes[np.lexsort((codes[:, ordered], parent)), ordered]
    before = codes.copy()
    targets, lags = some_targets(rng)
    there = families_of(parent, root, ordered)
    weights = there.weight.astype(np.float64)
    fibres = build_fibres(codes, targets, [], SIZES, weights, FROZEN)
    gaps = build_lags(codes, lags, SIZES, there)
    columns, widths, rows = np.array([1, 2]), np.array(SIZES), np.arange(len(codes))
    redraw_families(codes, rows, columns, widths, fibres, there, gaps, np.float32(0.1), rng)
    sweep_families(codes, rows, columns, widths, fibres, there, gaps)
    assert np.array_equal(codes[:, [0, 3]], before[:, [0, 3]])
    if len(codes) > 20:
        assert not np.array_equal(codes, before)
    fresh = build_fibres(codes, targets, [], SIZES, weights, FROZEN)
    assert np.allclose(fibres.gaps, fresh.gaps, atol=1e-3)
    assert np.allclose(gaps.gaps, build_lags(codes, lags, SIZES, there).gaps, atol=1e-3)
    if ordered is not None:
        assert np.all(np.diff(codes[:, ordered])[parent[1:] == parent[:-1]] >= 0)


def test_a_root_weighs_one_however_many_rows_and_pairs_it_has() -> None:
    parent, root = np.array([0, 0, 0, 1, 2, 2, 5]), np.array([0, 0, 0, 0, 1, 1, 4])
    there = families_of(parent, root)
    assert np.allclose(np.bincount(root, there.weight), [1, 1, 0, 0, 1])
    assert there.follows.tolist() == [False, True, True, False, False, True, False, False]
    assert np.allclose(np.bincount(root, there.pair_weight * there.follows[:-1]), [1, 1, 0, 0, 0])


def test_weighted_targets_that_can_be_met_are_met() -> None:
    rng = np.random.default_rng(0)
    wanted, parent, root = families(rng, 400)
    wanted[:, 1] = np.minimum(wanted[:, 0], 2)
    wanted[:, 2] = (wanted[:, 1] + wanted[:, 3]) % 5
    there = families_of(parent, root)
    weights = there.weight.astype(np.float64)

    def table(codes: np.ndarray, *columns: int) -> np.ndarray:
        counts = np.zeros([SIZES[c] for c in columns])
        np.add.at(counts, tuple(codes[:, c] for c in columns), weights)
        return counts / weights.sum()

    pairs = [(0, 1), (1, 2), (2, 3)]
    targets = [Target(pair, table(wanted, *pair), 1.0, 0.0) for pair in pairs]
    codes = wanted.copy()
    codes[:, [1, 2]] = 0
    fit_families(codes, targets, [], SIZES, there, FROZEN, rng, effort=Effort(2, 40))
    for pair, target in zip(pairs, targets, strict=True):
        assert np.abs(table(codes, *pair) - target.probabilities).sum() / 2 < 0.01


def test_light_rows_are_as_far_from_chance_as_heavy_ones() -> None:
    """Rows of large families must not be left to chance because they weigh little."""
    rng = np.random.default_rng(1)
    numbers = np.where(np.arange(600) % 2, 1, 20)
    parent = np.repeat(np.arange(600), numbers)
    codes = np.zeros((len(parent), 2), dtype=np.int32)
    codes[:, 0] = rng.integers(0, 4, len(parent))
    alike = np.full((4, 4), 0.1 / 12) + np.eye(4) * (0.9 / 4 - 0.1 / 12)
    there = families_of(parent, parent)
    codes[:, 1] = rng.integers(0, 4, len(parent))
    fit_families(codes, [Target((0, 1), alike, 1.0, 0.0)], [], [4, 4], there, frozenset({0}), rng, effort=Effort(20, 0))
    same = codes[:, 0] == codes[:, 1]
    assert abs(same[numbers[parent] == 1].mean() - same[numbers[parent] == 20].mean()) < 0.1


def test_rules_are_kept_where_single_moves_can() -> None:
    rng = np.random.default_rng(2)
    codes, parent, root = families(rng)
    targets, lags = some_targets(rng)
    allowed = np.ones((3, 5), dtype=bool)
    allowed[0, :4] = False
    fit_families(codes, targets, lags, SIZES, families_of(parent, root), FROZEN, rng, [Rule((1, 2), allowed)])
    assert np.all(allowed[codes[:, 1], codes[:, 2]])


def test_a_tree_grows_out_of_what_is_given_and_leaves_it_as_it_is() -> None:
    rng = np.random.default_rng(3)
    near = np.eye(3) * 0.9 / 3 + 0.1 / 9
    apart = np.full((3, 3), 1 / 9)
    pairs = {(0, 1): apart, (0, 2): near, (1, 2): near}
    assert grow_tree(pairs, 3, frozenset({0})) == [(2, 0), (1, 2)]
    codes = np.zeros((900, 3), dtype=np.int32)
    given_codes = codes[:, 0] = rng.integers(0, 3, 900)
    draw_the_rest(codes, [np.full(3, 1 / 3)] * 3, pairs, rng, frozenset({0}))
    assert np.array_equal(codes[:, 0], given_codes)
    assert 0.9 < (codes[:, 2] == codes[:, 0]).mean() < 0.97
