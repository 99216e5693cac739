"""The starting tree: Chow and Liu's, drawn so that counts are off by less than one."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from understudy.pipelines.methods.privpgd.start import draw_from_tree, grow_tree, mutual_information


def test_tree_is_the_best_of_all_trees() -> None:
    rng = np.random.default_rng(0)
    pairs = {pair: rng.dirichlet(np.full(6, 0.4)).reshape(2, 3) for pair in combinations(range(5), 2)}
    weights = {pair: mutual_information(table) for pair, table in pairs.items()}

    def spans(edges: tuple[tuple[int, int], ...]) -> bool:
        reached = {0}
        for _ in range(5):
            reached |= {v for edge in edges if reached & set(edge) for v in edge}
        return len(reached) == 5

    best = max(sum(weights[e] for e in edges) for edges in combinations(pairs, 4) if spans(edges))
    tree = grow_tree(pairs, 5)
    assert [parent for _, parent in tree].count(None) == 1
    assert np.isclose(sum(weights[tuple(sorted(edge))] for edge in tree if edge[1] is not None), best)


def test_tree_pairs_and_columns_are_matched_to_whole_counts() -> None:
    rng = np.random.default_rng(1)
    joint = rng.dirichlet(np.ones(24)).reshape(2, 3, 4)
    pairs = {(0, 1): joint.sum(2), (1, 2): joint.sum(0)}
    single = [joint.sum((1, 2)), joint.sum((0, 2)), joint.sum((0, 1))]
    codes = draw_from_tree(single, pairs, 5000, rng)
    for (a, b), table in pairs.items():
        counts = np.zeros(table.shape)
        np.add.at(counts, (codes[:, a], codes[:, b]), 1)
        assert np.abs(counts - 5000 * table).max() < 4


def test_columns_without_pairs_are_independent() -> None:
    rng = np.random.default_rng(2)
    codes = draw_from_tree([np.array([0.5, 0.5]), np.array([0.2, 0.8])], {}, 20_000, rng)
    assert abs(np.corrcoef(codes.T)[0, 1]) < 0.03
    assert abs(codes[:, 1].mean() - 0.8) < 1e-3


def test_mutual_information_of_known_tables() -> None:
    assert np.isclose(mutual_information(np.outer([0.3, 0.7], [0.1, 0.9])), 0.0)
    assert np.isclose(mutual_information(np.diag([0.5, 0.5])), np.log(2))
