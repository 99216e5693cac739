"""Ticks of a tree's views: exact, as an oracle counts them row by row, in any order and on any number of threads."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tree_oracle import KEY, Rows, arrow, clinics, ticks
from tests.trees import clinic, domains_of
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.counting.tree.tally import SeenTree
from understudy.pipelines.counting.tree.views import View, views_of
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.model import ReleaseSpec

WHOLE = 60


def in_memory(rows: Rows) -> dict[str, Source]:
    return {name: ArrowSource(arrow(table, name)) for name, table in rows.items()}


def local(sources: Mapping[str, Source], spec: ReleaseSpec, threads: int = 1) -> LocalTree:
    assert spec.tree is not None
    return LocalTree(TreeSource(sources), spec.tree, domains_of(spec), KEY, threads=threads)


def whole_view(tree: LocalTree, view: View) -> np.ndarray:
    return tree.counts(view, [tuple(range(len(view.columns)))], WHOLE)[0]


def expected(rows: Rows, spec: ReleaseSpec, view: View) -> np.ndarray:
    table = np.zeros(view.sizes, np.int64)
    for cell, count in ticks(rows, spec, view, WHOLE).items():
        table[cell] = count
    return table


SPEC = clinic()
assert SPEC.tree is not None
VIEWS = views_of(SPEC.tree, domains_of(SPEC))


@settings(max_examples=150, deadline=None)
@given(clinics, st.randoms(use_true_random=False))
def test_every_view_is_what_counting_by_hand_gives(rows: Rows, random):
    mixed = {name: random.sample(table, len(table)) for name, table in rows.items()}
    tree, turned = local(in_memory(rows), SPEC), local(in_memory(mixed), SPEC, threads=2)
    for view in VIEWS:
        found = whole_view(tree, view)
        np.testing.assert_array_equal(found, expected(rows, SPEC, view))
        np.testing.assert_array_equal(found, whole_view(turned, view))


@settings(max_examples=60, deadline=None)
@given(clinics)
def test_a_root_has_at_most_its_ticks_in_every_view(rows: Rows):
    tree = local(in_memory(rows), SPEC)
    roots = len(tree.bounded.tables["patients"])
    for view in VIEWS:
        assert whole_view(tree, view).sum() <= WHOLE * roots
        if len(rows["patients"]) and roots == 1:
            assert whole_view(tree, view).sum() in (0, WHOLE)  # 60 is divided by every number of rows up to 6


def test_numbers_of_rows_are_counted_beside_their_levels():
    patients = [{"patient_id": str(i), "sex": "f", "age": 1} for i in range(3)]
    wanted = [("0", 2), ("1", 20)]
    visits = [
        {"patient_id": who, "visit_id": f"{who}-{i}", "ward": "a", "visited_on": "2020-02-01"}
        for who, number in wanted
        for i in range(number)
    ]
    spec = clinic(visits={"max_rows": 12})
    assert spec.tree is not None
    view = views_of(spec.tree, domains_of(spec))[0]
    tree = local(in_memory({"patients": patients, "visits": visits, "drugs": []}), spec)
    seen = SeenTree(tree.bounded, view, WHOLE)
    level, number = seen.counts([(2,), (3,)], 1)
    assert np.flatnonzero(number).tolist() == [0, 2, 12]  # 20 are cut to 12
    assert number.sum() == 3 * WHOLE
    assert np.flatnonzero(level).tolist() == [0, 2, 6]


def test_ids_of_any_type_name_each_other():
    """7 in a database, 7.0 in a spreadsheet and "07" in a CSV file are one key, in a tree of all three."""
    patients = pa.table({"patient_id": pa.array([7, 8], pa.int32()), "sex": ["f", "m"], "age": [1, 2]})
    visits = pa.table(
        {
            "patient_id": pa.array([7.0, 8.0, float("nan"), None]),
            "visit_id": pa.array(["01", "2", "3", "4"]).dictionary_encode(),
            "ward": ["a"] * 4,
            "visited_on": ["2020-01-01"] * 4,
        }
    )
    drugs = pa.table({"visit_id": pa.array([1, 2, 2, 9], pa.uint8()), "drug": ["x"] * 4})
    sources = {name: ArrowSource(table) for name, table in zip(VIEW_TABLES, (patients, visits, drugs), strict=True)}
    bounded = local(sources, SPEC).bounded.tables
    assert [len(bounded[name]) for name in VIEW_TABLES] == [2, 2, 3]


VIEW_TABLES = ("patients", "visits", "drugs")
