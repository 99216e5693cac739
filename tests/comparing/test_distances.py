"""Distances against brute force, and what another sample is expected to differ by against samples."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.pipelines.comparing.distances import (
    MOST_TRIPLES,
    another_sample,
    distances,
    pairs_of,
    total_variation,
    triples_of,
)
from understudy.pipelines.comparing.numbers import compared_numbers, ks_statistic
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.domain import TableDomain

NUMBERS = st.lists(st.floats(-5, 5, width=16), min_size=1, max_size=40).map(np.array)


def boolean(name: str) -> DomainColumn:
    return DomainColumn(name, "boolean", (), (), False, False, True)


@given(st.lists(st.integers(0, 9), min_size=3, max_size=3), st.lists(st.integers(0, 9), min_size=3, max_size=3))
def test_total_variation_is_the_part_of_the_rows_that_would_have_to_be_moved(one: list[int], other: list[int]) -> None:
    if not sum(one) or not sum(other):
        return
    moved = sum(max(0, a / sum(one) - b / sum(other)) for a, b in zip(one, other, strict=True))
    assert total_variation(np.array(one), np.array(other)) == pytest.approx(moved)


def test_a_table_without_rows_is_far_from_any_other() -> None:
    assert total_variation(np.zeros(3, int), np.ones(3, int)) == 1
    assert total_variation(np.zeros(3, int), np.zeros(3, int)) == 0


def test_what_another_sample_would_differ_by_is_what_samples_differ_by() -> None:
    rng = np.random.default_rng(4)
    shares = np.array([0.5, 0.2, 0.15, 0.1, 0.05])
    samples = rng.multinomial(2000, shares, 400)
    seen = np.mean([total_variation(one, other) for one, other in zip(samples[::2], samples[1::2], strict=True)])
    assert another_sample(samples[0]) == pytest.approx(seen, rel=0.1)


@given(NUMBERS, NUMBERS)
def test_the_gap_between_distribution_functions_is_the_greatest_of_all_places(
    one: np.ndarray, other: np.ndarray
) -> None:
    gaps = [abs((one <= place).mean() - (other <= place).mean()) for place in (*one, *other)]
    assert ks_statistic(one, other) == pytest.approx(max(gaps))


def test_spikes_and_quantiles_are_of_what_is_there() -> None:
    column = DomainColumn("tip", "number", (), (0.0, 0.5, 9.0), False, True, True, spikes=((0, 0),))
    found = compared_numbers(column, np.array([0, 0, 4.0, np.nan]), np.array([0, 2.0, 4.0, np.inf]))
    assert found is not None
    [spike] = found.spikes
    assert (spike.value, round(spike.real, 6), round(spike.synthetic, 6)) == ("0", 0.666667, 0.333333)
    assert {share: pair for share, *pair in found.quantiles}[0.99] == [4.0, 4.0]
    assert compared_numbers(column, np.array([np.nan]), np.array([1.0])) is None


def test_the_worst_come_first_and_many_triples_are_looked_at_in_part() -> None:
    domain = TableDomain(tuple(boolean(f"c{i}") for i in range(20)))
    far, near = np.array([10, 0]), np.array([6, 4])

    def real(cliques: object) -> list[np.ndarray]:
        return [near for _ in cliques]  # type: ignore[attr-defined]

    def copy(cliques: object) -> list[np.ndarray]:
        return [far if clique == (3,) else near for clique in cliques]  # type: ignore[attr-defined]

    found = distances(real, copy, [(i,) for i in range(20)], domain)
    assert (found[0].columns, found[0].distance, found[1].distance) == (("c3",), 0.4, 0.0)
    triples, in_all = triples_of(domain)
    assert (len(pairs_of(domain)), len(triples), in_all) == (190, MOST_TRIPLES, 1140)
    assert len(set(triples)) == MOST_TRIPLES
