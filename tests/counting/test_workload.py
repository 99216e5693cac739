"""Which marginals a spec names, and what a share of the budget comes to."""

from __future__ import annotations

import math

import pytest

from tests.examples import SPEC
from understudy.pipelines.counting.workload import Named, choose_cliques, noise_stds
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain

DOMAIN = TableDomain.of(parse_spec(SPEC))


@pytest.mark.parametrize(
    ("marginals", "cliques", "order"), [("all-1way", 6, 1), ("all-2way", 15, 2), ("all-3way", 20, 3)]
)
def test_named_workloads(marginals: Named, cliques: int, order: int) -> None:
    chosen = choose_cliques(marginals, DOMAIN)
    assert len(chosen) == len(set(chosen)) == cliques
    assert {len(clique) for clique in chosen} == {order}


def test_a_larger_share_gets_less_noise_and_all_together_are_one_event() -> None:
    stds = noise_stds([0.4, 0.35, 0.25], 2.0, 3.0)
    assert stds[0] == pytest.approx(2.0 * 3.0 / math.sqrt(0.4))
    assert 1 / math.sqrt(sum((3.0 / std) ** 2 for std in stds)) == pytest.approx(2.0)


def test_an_explicit_list_is_taken_as_written() -> None:
    assert choose_cliques([["ward", "age"], ["sex"]], DOMAIN) == [(0, 4), (1,)]


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
        choose_cliques(marginals, DOMAIN)


def test_a_marginal_too_large_to_count_is_refused_by_name() -> None:
    wide = SPEC.replace("max: 110, bins: 32", "max: 1100000, bins: 10000").replace("log, bins: 32", "log, bins: 9000")
    with pytest.raises(SpecError, match="age x charge"):
        choose_cliques("all-2way", TableDomain.of(parse_spec(wide)))
