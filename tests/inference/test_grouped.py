"""Groups of neighbours joined with codes: the best estimates there are, and their covariance by enumeration."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from tests.inference.tables import centred
from understudy.pipelines.counting.groups import GroupedClique, Starts
from understudy.pipelines.counting.lifted import Residual, Residuals
from understudy.pipelines.counting.shares import subsets
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.asking import Asked
from understudy.pipelines.inference.estimating import estimate
from understudy.pipelines.inference.grouped import Joined, with_groups
from understudy.pipelines.inference.quantiles import bins_of
from understudy.pipelines.inference.question import parse_question
from understudy.pipelines.inference.question_sums import Told
from understudy.pipelines.inference.regression import ols
from understudy.pipelines.inference.sums import Grouping, sums
from understudy.pipelines.publishing.estimates import estimates_table
from understudy.pipelines.table.columns import DomainColumn

SIZES = (9, 3, 8)
EVEN: dict[int, tuple[Starts, ...]] = {0: ((0, 3, 6),), 2: ((0, 4), (0, 2, 4, 6))}
UNEVEN: dict[int, tuple[Starts, ...]] = {0: ((0, 4, 8), (0, 2, 4, 6, 8)), 2: ((0, 3), (0, 2, 5))}
"""The last code of the first column is a group of its own, as null is."""

CROSSING: dict[int, tuple[Starts, ...]] = {0: ((0, 4, 8), (0, 3, 5)), 2: ((0, 3), (0, 5))}


def told_with(ways: dict[int, tuple[Starts, ...]], seed: int = 0, lacking: int = 0) -> Residuals:
    """All pairs of three columns, and the groups: of each set another noise, of a pair's ways a product of two."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 30, SIZES).astype(float)
    cliques = [clique for clique in subsets((0, 1, 2)) if len(clique) < 3]

    def residual(table: np.ndarray, std: float) -> Residual:
        return Residual(centred(table + rng.normal(0, std, table.shape)), std)

    own = {c: residual(marginal(counts, c), 1.0 + 0.4 * place) for place, c in enumerate(cliques)}
    grouped = {}
    for clique in cliques:
        found = list(product(*(enumerate(ways.get(column, (None,))) for column in clique)))
        if not any(starts is not None for way in found for _, starts in way):
            continue
        for way in found[: len(found) - lacking if len(clique) == 2 else None]:
            each = GroupedClique(clique, tuple(starts for _, starts in way))
            std = math.prod(1.0 + 0.3 * place for place, _ in way) * (0.9 if lacking == 0 else rng.uniform(0.5, 1.5))
            grouped[each] = residual(each.summed(marginal(counts, clique)), std)
    return Residuals(tuple(cliques), SIZES, own, grouped)


def marginal(counts: np.ndarray, clique: Clique) -> np.ndarray:
    return counts.sum(axis=tuple(column for column in range(3) if column not in clique))


def disturbed(told: Residuals) -> Iterator[Residuals]:
    """Nothing but the noise of one raw cell, of each cell of each table in turn."""
    none = {c: Residual(np.zeros([SIZES[x] for x in c]), r.std) for c, r in told.by_clique.items()}
    no_groups = {g: Residual(np.zeros(g.shape(SIZES)), r.std) for g, r in told.grouped.items()}
    for clique, residual in told.by_clique.items():
        for cell in np.ndindex(none[clique].counts.shape):
            unit = np.zeros(none[clique].counts.shape)
            unit[cell] = residual.std
            yield Residuals((), SIZES, {**none, clique: Residual(centred(unit), residual.std)}, no_groups)
    for each, residual in told.grouped.items():
        for cell in np.ndindex(no_groups[each].counts.shape):
            unit = np.zeros(no_groups[each].counts.shape)
            unit[cell] = residual.std
            yield Residuals((), SIZES, none, {**no_groups, each: Residual(centred(unit), residual.std)})


def enumerated(joined: list[Residuals], clique: Clique) -> np.ndarray:
    moved = np.stack([each.marginal(clique).ravel() for each in joined])
    return np.asarray(moved.T @ moved)


@cache
def moves(name: str) -> list[Residuals]:
    """What each noisy cell does to the joined residuals; the noise of every cell is the same whatever the counts."""
    ways = {"even": EVEN, "uneven": UNEVEN, "crossing": CROSSING}[name]
    found = [with_groups(each) for each in disturbed(told_with(ways))]
    return [replace(each, by_clique={c: Residual(r.counts, 0.0) for c, r in each.by_clique.items()}) for each in found]


def values_of(told: Residuals, columns: Clique, functions: np.ndarray, grouping: Grouping) -> np.ndarray:
    return sums(told, columns, functions, grouping, 0).values


def best(told: Residuals, clique: Clique) -> np.ndarray:
    """The covariance of least squares on everything that was measured of all three columns, by their noise."""
    cells = list(np.ndindex(*SIZES))
    rows = []
    for each, residual in [*((GroupedClique(c, (None,) * len(c)), r) for c, r in told.by_clique.items()),
                           *told.grouped.items()]:  # fmt: skip
        table = np.eye(len(cells)).reshape(-1, *SIZES)
        table = table.sum(axis=tuple(1 + column for column in range(3) if column not in each.columns))
        for axis, starts in enumerate(each.starts):
            table = np.add.reduceat(table, starts, axis=axis + 1) if starts is not None else table
        for axis in range(1, table.ndim):
            table = table - table.mean(axis=axis, keepdims=True)
        rows.append(table.reshape(len(cells), -1).T / residual.std)
    matrix = np.concatenate(rows)
    asked = np.stack([marginal(unit.reshape(SIZES), clique).ravel() for unit in np.eye(len(cells))], axis=1)
    return np.asarray(asked @ np.linalg.pinv(matrix.T @ matrix, rcond=1e-10) @ asked.T)


@pytest.mark.parametrize("ways", [EVEN, UNEVEN, CROSSING])
def test_without_noise_the_estimates_are_the_counts(ways: dict[int, tuple[Starts, ...]]) -> None:
    told = told_with(ways)
    exact = np.random.default_rng(0).integers(0, 30, SIZES).astype(float)
    quiet = replace(
        told,
        by_clique={c: Residual(centred(marginal(exact, c)), r.std) for c, r in told.by_clique.items()},
        grouped={g: Residual(centred(g.summed(marginal(exact, g.columns))), r.std) for g, r in told.grouped.items()},
    )
    for clique in told.by_clique:
        np.testing.assert_allclose(with_groups(quiet).marginal(clique), marginal(exact, clique), atol=1e-9)


@pytest.mark.parametrize("clique", [(0,), (2,), (0, 1), (1, 2), (0, 2)])
def test_groups_of_one_size_give_the_best_estimate_there_is(clique: Clique) -> None:
    told = told_with(EVEN)
    np.testing.assert_allclose(enumerated(moves("even"), clique), best(told, clique), atol=1e-8)


@pytest.mark.parametrize("clique", [(0,), (2,), (0, 1), (1, 2), (0, 2)])
def test_groups_of_unequal_size_give_nearly_the_best_and_far_less_than_codes_alone(clique: Clique) -> None:
    told = told_with(UNEVEN)
    joined = enumerated(moves("uneven"), clique)
    found, least = np.trace(joined), np.trace(best(told, clique))
    assert least * (1 - 1e-9) <= found <= 1.03 * least
    ranges = np.ones(math.prod(SIZES[column] for column in clique))
    ranges[len(ranges) // 2 :] = 0.0  # a range of codes, of every other column's or of the first half of the first's
    codes = sums(told, clique, ranges.reshape(1, *(SIZES[column] for column in clique)), Grouping()).noise.item()
    assert ranges @ joined @ ranges < 0.8 * codes


@settings(max_examples=40, deadline=None, phases=(Phase.explicit, Phase.generate))
@given(
    st.sampled_from([EVEN, UNEVEN, CROSSING]),
    st.sampled_from([(0,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)]),
    st.integers(0, 1000),
    st.integers(0, 3),
    st.integers(0, 3),
)
def test_covariances_are_those_of_every_noisy_cell(
    ways: dict[int, tuple[Starts, ...]], columns: Clique, seed: int, outer: int, inner: int
) -> None:
    """Whatever the functions of pairs, and however columns are shared out between outer and inner groups and the
    rest."""
    rng, told = np.random.default_rng(seed), told_with(ways, seed)
    shuffled = tuple(int(column) for column in rng.permutation(columns))
    if len(columns) == 3:
        outer, inner = min(outer, 1), 0  # three columns were not measured together: only sums of pairs are asked for
    grouping = Grouping(shuffled[: min(outer, 1)], shuffled[min(outer, 1) : min(outer, 1) + min(inner, 2)])
    shape = [SIZES[column] for column in columns]
    functions = rng.normal(size=(2, *shape))
    if len(columns) == 3:
        left = [axis for axis, column in enumerate(columns) if column not in grouping.columns]
        functions = sum(functions.mean(axis=tuple(1 + a for a in left if a != kept), keepdims=True) for kept in left)
        functions = np.broadcast_to(functions, (2, *shape)).copy()
    joined = with_groups(told)
    found = sums(joined, columns, functions, grouping)
    sets = list(subsets(columns))
    moved = moves(("even", "uneven", "crossing")[[EVEN, UNEVEN, CROSSING].index(ways)])
    expected_values = sums(replace(joined, grouped={}), columns, functions, grouping).values
    np.testing.assert_allclose(found.values, expected_values)
    assert any(isinstance(joined.by_clique.get(each), Joined) for each in sets)
    slopes = np.stack([values_of(each, columns, functions, grouping) for each in moved])
    expected = np.einsum("noij,nokm->oijkm", slopes, slopes)
    np.testing.assert_allclose(found.noise, expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("ways", [{}, EVEN, UNEVEN])
@pytest.mark.parametrize(
    ("columns", "by", "along"),
    [((0,), (), 0), ((0, 2), (2,), 0), ((0, 2), (0,), 2), ((0, 2), (), 0), ((0, 1), (1,), 0)],
)
def test_what_a_quantile_needs_is_what_the_whole_covariance_says(
    ways: dict[int, tuple[Starts, ...]], columns: Clique, by: Clique, along: int
) -> None:
    """The running sums of counts, in any order of the codes, where the function is of all columns."""
    told, rng = with_groups(told_with(ways, 1)), np.random.default_rng(1)
    function, order = rng.uniform(size=[SIZES[c] for c in columns]), rng.permutation(SIZES[along])[:-1].tolist()
    low, high, level = np.arange(9.0), np.arange(9.0) + 1, 0.3
    dense = sums(told, columns, function[None], Grouping(by, (along,)))
    found = list(bins_of(told, columns, function, by, along, (order, low, high), level))
    assert len(found) == len(dense.values)
    below = np.tril(np.ones((len(order),) * 2), -1) - level
    for bins, values, noise in zip(found, dense.values[:, order, 0], dense.noise[:, :, 0, :, 0], strict=True):
        noise = noise[np.ix_(order, order)]
        np.testing.assert_allclose(bins.counts, values)
        np.testing.assert_allclose(bins.below, below @ values)
        np.testing.assert_allclose(bins.variance, np.diag(below @ noise @ below.T))
        np.testing.assert_allclose(bins.cross, np.diag(below @ noise))
        np.testing.assert_allclose(bins.own, np.diag(noise))
        more = noise + 2 * np.diag(np.maximum(values, 0))
        np.testing.assert_allclose(bins.sampled(2).variance, np.diag(below @ more @ below.T))
        np.testing.assert_allclose(bins.sampled(2).cross, np.diag(below @ more))
        np.testing.assert_allclose(bins.low, low[order])


@pytest.mark.parametrize("lacking", [1, 3])
def test_ways_that_make_no_product_are_used_as_far_as_they_do_and_never_claim_too_little(lacking: int) -> None:
    told = told_with(UNEVEN, 3, lacking)
    found = sums(with_groups(told), (0, 2), np.eye(72).reshape(72, 9, 8), Grouping()).noise[0, 0, :, 0, :]
    true = enumerated([with_groups(each) for each in disturbed(told)], (0, 2))
    assert np.linalg.eigvalsh(found - true).min() > -1e-8
    assert np.trace(found) < 72 * told.variance((0, 2))


COLUMNS = (
    DomainColumn("cost", "integer", (), tuple(range(9)), False, True, True),
    DomainColumn("ward", "category", ("A", "B", "C"), (), False, False, False),
    DomainColumn("age", "integer", (), tuple(range(9)), False, False, True),
)


def test_questions_are_answered_from_groups_too() -> None:
    told = told_with(UNEVEN)
    for text in ("count by ward where cost >= 4", "mean(age) by ward", "share(cost is null) by ward"):
        codes, joined = (
            [answer.interval for answer in estimate(parse_question(text), Told(each, COLUMNS))]
            for each in (told, with_groups(told))
        )
        assert all(a and b and a.high - a.low < b.high - b.low for a, b in zip(joined, codes, strict=True)), text


def test_estimates_for_sql_are_what_questions_are_answered() -> None:
    told = Told(with_groups(told_with(UNEVEN)), COLUMNS)
    asked = Asked(told, lambda: pytest.fail("no row is needed"))
    rows = estimates_table(told).to_pylist()
    for grouped in ("cost", "cost, age"):
        own = [row for row in rows if row["grouped_by"] == grouped]
        both = zip(own, asked.answer(f"count by {grouped}"), asked.answer(f"share by {grouped}"), strict=True)
        for row, counted, share in both:
            assert counted.interval is not None
            assert share.interval is not None
            assert (row["low"], row["high"]) == pytest.approx((counted.interval.low, counted.interval.high))
            low, high = share.interval.low, share.interval.high
            assert (row["share_low"], row["share_high"]) == pytest.approx((low, high), abs=1e-9)


def test_the_noise_of_least_squares_is_what_every_noisy_cell_does_to_the_coefficients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("understudy.pipelines.inference.profiled.MOST_PROFILED", 0)  # intervals are not looked at
    columns = (replace(COLUMNS[0], edges=tuple(range(10)), nullable=False), *COLUMNS[1:])
    told = told_with(UNEVEN, 2)

    def coefficients(residuals: Residuals) -> np.ndarray:
        return np.array([each.estimate for each in ols(Told(residuals, columns), "cost ~ age + ward")])

    joined, step, variance = with_groups(told), 1e-4, np.zeros(4)
    centre = coefficients(joined)
    for move in moves("uneven"):
        moved = {c: Residual(r.counts + step * move.by_clique[c].counts, r.std) for c, r in joined.by_clique.items()}
        variance += ((coefficients(Residuals(told.asked, SIZES, moved)) - centre) / step) ** 2
    found = [each.noise_std for each in ols(Told(joined, columns), "cost ~ age + ward")]
    np.testing.assert_allclose(found, np.sqrt(variance), rtol=1e-3)
