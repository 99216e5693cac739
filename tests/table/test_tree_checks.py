"""What is checked between tables: each check holds for a sound tree and fails for what it is there for."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.pipelines.spec.tree import Tree, TreeTable, implied_tree
from understudy.pipelines.table.checks import Verdict, breaches
from understudy.pipelines.table.tree_checks import (
    BelongsTo,
    ComesInOrder,
    HasAtMost,
    IsConstant,
    KeysAreUnique,
    tree_breaches,
    tree_checks,
)
from understudy.tasks.engines.expectations import expectations_failed

TREE = Tree(
    (
        TreeTable("patients", "patient_id"),
        TreeTable("visits", "visit_id", "patients", "patient_id", 2, "day"),
        TreeTable("drugs", None, "visits", "visit_id", 1),
    )
)
Tables = dict[str, pa.Table]
by_either = pytest.mark.parametrize("verdict", [breaches, expectations_failed])


def _day(number: int | None) -> dt.date | None:
    return None if number is None else dt.date(2026, 1, number)


def sound() -> Tables:
    return {
        "patients": pa.table({"patient_id": [1, 2, 3]}),
        "visits": pa.table(
            {"patient_id": [1, 1, 3, 3], "visit_id": [1, 2, 3, 4], "day": [_day(d) for d in (2, 2, 9, None)]}
        ),
        "drugs": pa.table({"visit_id": [1, 4], "name": ["a", "b"]}),
    }


def _set(tables: Tables, table: str, column: str, values: list[object]) -> Tables:
    old = tables[table]
    place = old.column_names.index(column)
    return {**tables, table: old.set_column(place, column, pa.array(values, old.schema.field(column).type))}


@by_either
def test_sound_tables_pass_every_check(verdict: Verdict) -> None:
    checks = tree_checks(TREE)
    assert checks == (
        KeysAreUnique("patients", "patient_id"),
        KeysAreUnique("visits", "visit_id"),
        BelongsTo("visits", "patient_id", "patients", "patient_id"),
        HasAtMost("visits", "patient_id", 2),
        ComesInOrder("visits", "patient_id", "day"),
        BelongsTo("drugs", "visit_id", "visits", "visit_id"),
        HasAtMost("drugs", "visit_id", 1),
    )
    assert tree_breaches(sound(), checks, verdict) == []
    empty = {name: table.slice(0, 0) for name, table in sound().items()}
    assert tree_breaches(empty, checks, verdict) == []


@by_either
@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda t: _set(t, "patients", "patient_id", [1, 1, 3]), "patients: patient_id is null or has a value twice"),
        (
            lambda t: _set(t, "patients", "patient_id", [1, None, 3]),
            "patients: patient_id is null or has a value twice",
        ),
        (lambda t: _set(t, "visits", "patient_id", [1, 1, 3, 7]), "visits: patient_id names no row of patients"),
        (lambda t: _set(t, "visits", "patient_id", [1, 1, 3, None]), "visits: patient_id names no row of patients"),
        (lambda t: _set(t, "visits", "patient_id", [1, 1, 1, 3]), "visits: one patient_id has more than 2 rows"),
        (lambda t: _set(t, "drugs", "visit_id", [4, 4]), "drugs: one visit_id has more than 1 rows"),
        (
            lambda t: _set(t, "visits", "day", [_day(d) for d in (3, 2, 9, 9)]),
            "visits: rows of one patient_id do not come in order of day",
        ),
        (
            lambda t: _set(t, "visits", "day", [_day(d) for d in (2, 2, None, 9)]),
            "visits: rows of one patient_id do not come in order of day",
        ),
        (
            lambda t: _set(t, "visits", "patient_id", [1, 3, 1, 3]),
            "visits: rows of one patient_id do not come in order of day",
        ),
    ],
)
def test_each_check_fails_for_what_it_is_there_for(
    spoil: Callable[[Tables], Tables], words: str, verdict: Verdict
) -> None:
    spoilt, checks = spoil(sound()), tree_checks(TREE)
    failed = tree_breaches(spoilt, checks, verdict)
    assert words in [str(check) for check in failed]
    assert failed == [check for check in checks if check.broken(spoilt)]


@by_either
def test_a_flat_table_keeps_what_is_said_of_its_entities(verdict: Verdict) -> None:
    tree = implied_tree("who", 2, "day")
    checks = tree_checks(tree, ("sex",))
    assert checks == (HasAtMost("rows", "who", 2), ComesInOrder("rows", "who", "day"), IsConstant("rows", "who", "sex"))
    table = pa.table({"who": [1, 1, 2], "sex": ["F", "F", None], "day": [1, 2, 1]})
    assert tree_breaches({"rows": table}, checks, verdict) == []
    changed = _set({"rows": table}, "rows", "sex", ["F", None, None])
    assert [str(check) for check in tree_breaches(changed, checks, verdict)] == [
        "rows: sex is not the same in all rows of one who"
    ]


@given(
    owners=st.lists(st.integers(0, 5), max_size=12),
    data=st.data(),
)
def test_order_and_number_are_judged_as_by_hand(owners: list[int], data: st.DataObject) -> None:
    days = data.draw(st.lists(st.none() | st.integers(0, 3), min_size=len(owners), max_size=len(owners)))
    table = {"visits": pa.table({"by": pa.array(owners, pa.int64()), "day": pa.array(days, pa.int64())})}
    last = {owner: place for place, owner in enumerate(owners)}
    together = all(last[owner] - owners.index(owner) + 1 == owners.count(owner) for owner in set(owners))
    falls = any(
        a == b and (y is not None and (x is None or y < x))
        for a, b, x, y in zip(owners, owners[1:], days, days[1:], strict=False)
    )
    assert (ComesInOrder("visits", "by", "day").broken(table) == 0) == (together and not falls)
    assert HasAtMost("visits", "by", 2).broken(table) == sum(owners.count(owner) > 2 for owner in set(owners))
