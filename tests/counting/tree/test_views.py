"""Views of a tree: public, and every pair in the one place where it is first seen."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trees import clinic, domains_of, flat
from understudy.pipelines.counting.tree.views import (
    View,
    gap_codes,
    gap_edges,
    levels_tell,
    number_levels,
    view_facts,
    view_from,
    views_of,
)
from understudy.pipelines.sources.tree.rows import order_values
from understudy.pipelines.spec.model import ReleaseSpec


def views(spec: ReleaseSpec) -> list[View]:
    assert spec.tree is not None
    return list(views_of(spec.tree, domains_of(spec)))


def named(view: View, spec: ReleaseSpec) -> list[str]:
    return [column.name(domains_of(spec)) for column in view.columns]


def test_every_table_is_seen_with_what_is_above_and_how_many_are_below():
    spec = clinic()
    root, visits, order, drugs = views(spec)
    assert named(root, spec) == ["patients.sex", "patients.age", "number of visits"]
    assert named(visits, spec) == [
        "visits.ward",
        "visits.visited_on",
        "patients.sex",
        "patients.age",
        "siblings in visits",
        "place",
        "number of drugs",
    ]
    assert named(order, spec)[2:] == ["visits.ward before", "visits.visited_on before", "gap", "siblings in visits"]
    assert named(drugs, spec)[0] == "drugs.drug"
    assert (2, 3) not in visits.asked  # sex by age was measured of the patients
    assert (0, 2) in visits.asked
    assert (2, 6) in visits.asked  # sex by the number of drugs
    assert {(0, 2), (1, 3), (0, 4)} <= set(order.asked)


def test_numbers_are_exact_where_they_are_few_and_levels_beyond():
    assert number_levels(3) == (0, 1, 2, 3)
    assert number_levels(8, 1) == tuple(range(1, 9))
    assert number_levels(12) == (0, 1, 2, 3, 4, 8, 12)
    assert number_levels(40, 1) == (1, 2, 3, 4, 8, 16, 32, 40)
    assert levels_tell(number_levels(8))
    assert not levels_tell(number_levels(9))


def test_an_implied_root_has_rows():
    root = views(flat())[0]
    assert root.columns[-1].role == "number"
    assert root.columns[-1].most == (1, 2, 3, 4)


@given(st.integers(1, 5_000), st.booleans(), st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_every_gap_of_the_domain_has_its_bin(days: int, nullable: bool, parts: list[float]):
    import datetime as dt

    last = dt.date(2000, 1, 1) + dt.timedelta(days=days)
    dates = {"type": "date", "min": "2000-01-01", "max": last, "bins": 4, "nullable": nullable}
    spec = clinic(visits={"columns": {"visited_on": dates}})
    column = domains_of(spec)["visits"].columns[0]
    edges = gap_edges(column)
    assert len(edges) <= 33
    assert list(edges) == sorted(set(edges))
    assert (edges[0], edges[-1]) == (0.0, float(days))
    gaps = np.round(np.array(parts) * days)
    codes = gap_codes(gaps, edges)
    assert all(edges[c] <= gap <= edges[c + 1] for gap, c in zip(gaps, codes, strict=True))
    assert gap_codes(np.array([np.nan]), edges)[0] == len(edges) - 1
    gap = next(each for each in views(spec)[2].columns if each.role == "gap")
    assert gap.size == len(edges) - 1 + nullable


def test_values_that_order_lie_in_the_domain():
    column = domains_of(clinic())["visits"].columns[1]
    low, high = column.ends
    told = order_values(np.array([-1e9, np.nan, np.inf, low + 3, 1e9]), column)
    assert told.tolist() == [low, low, low, low + 3, high]


@pytest.mark.parametrize("spec", [clinic(), flat(), clinic(visits={"max_rows": 20})])
def test_a_view_survives_being_stored(spec: ReleaseSpec):
    for view in views(spec):
        assert view_from(view_facts(view)) == view
