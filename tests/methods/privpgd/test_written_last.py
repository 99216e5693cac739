"""Columns of the focus are written from the model of greatest entropy, with as little chance as can be."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from understudy.pipelines.methods.privpgd.constraints import Rule
from understudy.pipelines.methods.privpgd.polish import polish
from understudy.pipelines.methods.privpgd.targets import Target
from understudy.pipelines.methods.privpgd.written_last import _relation, chances, fitted_terms, write_last

SIZES = [5, 4, 3, 6]
ROWS = 4000
LABEL = 2


def rows_of(rng: np.random.Generator, rows: int = ROWS) -> np.ndarray:
    hidden = rng.normal(size=rows)
    columns = [np.clip((hidden + 0.7 * rng.normal(size=rows) + 2) / 4 * n, 0, n - 1).astype(int) for n in SIZES]
    return np.stack(columns, axis=1).astype(np.int32)


def shares(rows: np.ndarray, columns: tuple[int, ...]) -> np.ndarray:
    found = np.zeros([SIZES[c] for c in columns])
    np.add.at(found, tuple(rows[:, c] for c in columns), 1 / len(rows))
    return found


def pairs_of(rows: np.ndarray, variance: float = 0.0) -> list[Target]:
    return [Target(pair, shares(rows, pair), 1.0, variance) for pair in combinations(range(4), 2)]


def labelled(targets: list[Target]) -> list[Target]:
    return [target for target in targets if LABEL in target.columns]


def test_the_model_has_the_pairs_it_was_fitted_to() -> None:
    rows = rows_of(np.random.default_rng(1))
    relations = [_relation(target, LABEL) for target in labelled(pairs_of(rows))]
    model = chances(rows, relations, fitted_terms(rows, relations))
    assert np.allclose(model.sum(axis=1), 1.0)
    for relation in relations:
        expected = np.stack([np.bincount(relation.cells(rows), w, len(relation.probabilities)) for w in model.T], 1)
        assert np.abs(expected / ROWS - relation.probabilities).sum() < 5e-3


def test_the_less_a_pair_is_known_the_less_it_is_followed() -> None:
    rows = rows_of(np.random.default_rng(2))
    told = []
    for variance in (0.0, 1e-4, 1.0):
        relations = [_relation(target, LABEL) for target in labelled(pairs_of(rows, variance))]
        told.append(float(np.std(chances(rows, relations, fitted_terms(rows, relations)), axis=0).sum()))
    assert told[0] > told[1] > 10 * told[2]


def test_triples_scatter_less_than_in_a_table_that_has_the_same_pairs() -> None:
    many = rows_of(np.random.default_rng(3), 200_000)
    targets, rng = pairs_of(many), np.random.default_rng(4)
    rows = rows_of(rng)
    polish(rows, targets, SIZES, 12, rng, redraws=4)
    triples = [triple for triple in combinations(range(4), 3) if LABEL in triple]

    def scatter(found: np.ndarray) -> float:
        relations = [_relation(target, LABEL) for target in labelled(targets)]
        model, total = chances(found, relations, fitted_terms(found, relations)), 0.0
        for triple in triples:
            expected = np.zeros([SIZES[c] for c in triple])
            for code in range(SIZES[LABEL]):
                cells = [np.full(ROWS, code) if c == LABEL else found[:, c] for c in triple]
                np.add.at(expected, tuple(cells), model[:, code] / ROWS)
            total += float(np.abs(shares(found, triple) - expected).sum()) / 2
        return total

    before, others = scatter(rows), rows.copy()
    write_last(rows, LABEL, targets, SIZES, 12, rng)
    assert scatter(rows) < 0.5 * before
    assert np.array_equal(np.delete(rows, LABEL, axis=1), np.delete(others, LABEL, axis=1))
    for target in labelled(targets):
        assert np.abs(shares(rows, target.columns) - target.probabilities).sum() / 2 < 0.01


def test_rows_go_on_obeying_the_rules() -> None:
    rng = np.random.default_rng(5)
    rows = rows_of(rng)
    targets = pairs_of(rows)
    allowed = np.ones((SIZES[0], SIZES[LABEL]), dtype=bool)
    allowed[0, 1:] = False
    allowed[4, 0] = False
    rows[rows[:, 0] == 0, LABEL] = 0
    rows[(rows[:, 0] == 4) & (rows[:, LABEL] == 0), LABEL] = 1
    rule = Rule((0, LABEL), allowed)
    assert not rule.broken_by(rows).any()
    before = rows.copy()
    write_last(rows, LABEL, targets, SIZES, 12, rng, [rule])
    assert not rule.broken_by(rows).any()
    assert (rows != before).any()


@pytest.mark.parametrize(
    ("targets", "sweeps", "many"),
    [([], 12, ROWS), ([Target((LABEL,), np.full(3, 1 / 3), 1.0, 0.0)], 12, ROWS), (None, 0, ROWS), (None, 12, 0)],
)
def test_where_nothing_is_told_nothing_is_written(targets: list[Target] | None, sweeps: int, many: int) -> None:
    rows = rows_of(np.random.default_rng(6))
    wanted = pairs_of(rows) if targets is None else targets
    rows = rows[:many]
    before = rows.copy()
    write_last(rows, LABEL, wanted, SIZES, sweeps, np.random.default_rng(7))
    assert np.array_equal(rows, before)


def test_a_measured_triple_with_the_column_is_kept_too() -> None:
    """The label is one of two others, exclusively: no pair says so."""
    rng = np.random.default_rng(8)
    a, b = rng.integers(0, 2, 3000), rng.integers(0, 2, 3000)
    rows = np.stack([a, b, a ^ b], axis=1).astype(np.int32)
    target = Target((0, 1, 2), np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]]]) / 4.0, 1.0, 0.0)
    rows[:, 2] = rng.integers(0, 2, 3000)
    write_last(rows, 2, [target], [2, 2, 2], 12, rng)
    assert np.mean(rows[:, 2] == (a ^ b)) > 0.99


def test_codes_that_no_target_allows_are_not_written() -> None:
    rng = np.random.default_rng(9)
    rows = rows_of(rng)
    rows[rows[:, 0] == 0, LABEL] = 2
    targets = pairs_of(rows)
    write_last(rows, LABEL, targets, SIZES, 12, rng)
    assert np.mean(rows[rows[:, 0] == 0, LABEL] == 2) > 0.97
