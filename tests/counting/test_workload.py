"""Which marginals, and how the budget is shared among them."""

from __future__ import annotations

import math

import pytest

from tests.examples import SPEC
from understudy.pipelines.counting.workload import choose_workload, noise_stds
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain

DOMAIN = TableDomain.of(parse_spec(SPEC))


@pytest.mark.parametrize(("marginals", "wide", "order"), [("all-1way", 0, 1), ("all-2way", 15, 2), ("all-3way", 20, 3)])
def test_named_workloads(marginals: str, wide: int, order: int) -> None:
    workload = choose_workload(marginals, DOMAIN, one_way_share=0.1)  # type: ignore[arg-type]
    assert sum(len(clique) == order > 1 for clique in workload.cliques) == wide
    assert sum(len(clique) == 1 for clique in workload.cliques) == 6
    assert math.fsum(workload.shares) == pytest.approx(1)


def test_one_way_marginals_get_their_share_and_less_noise() -> None:
    workload = choose_workload("all-2way", DOMAIN, one_way_share=0.4)
    stds = dict(zip(workload.cliques, noise_stds(workload.shares, 2.0, 3.0), strict=True))
    assert stds[0,] == pytest.approx(2.0 * 3.0 / math.sqrt(0.4 / 6))
    assert stds[0, 1] == pytest.approx(2.0 * 3.0 / math.sqrt(0.6 / 15))
    assert 1 / math.sqrt(sum((3.0 / std) ** 2 for std in stds.values())) == pytest.approx(2.0)


def test_no_share_for_one_ways_means_none_are_measured() -> None:
    assert all(len(clique) == 2 for clique in choose_workload("all-2way", DOMAIN, one_way_share=0.0).cliques)


def test_an_explicit_list_is_taken_as_written() -> None:
    workload = choose_workload([["ward", "age"], ["sex"]], DOMAIN, one_way_share=0.0)
    assert set(workload.cliques) == {(0, 4), (1,)}


@pytest.mark.parametrize(
    ("marginals", "told"),
    [
        ([["age", "agee"]], "agee"),
        ([["age", "age"]], "repeats"),
        ([["age", "sex"], ["sex", "age"]], "twice"),
        ([[]], "empty"),
        ([], "empty"),
    ],
)
def test_impossible_lists_are_refused(marginals: list[list[str]], told: str) -> None:
    with pytest.raises(SpecError, match=told):
        choose_workload(marginals, DOMAIN, one_way_share=0.1)


def test_a_marginal_too_large_to_count_is_refused_by_name() -> None:
    wide = SPEC.replace("max: 110, bins: 32", "max: 1100000, bins: 10000").replace("log, bins: 32", "log, bins: 9000")
    with pytest.raises(SpecError, match="age x charge"):
        choose_workload("all-2way", TableDomain.of(parse_spec(wide)), one_way_share=0.1)
