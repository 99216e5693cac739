"""Questions to several tables: against brute force on their rows, and intervals against the noise of every cell."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from tests.methods.tree.released_trees import made_tree, released_from, rows_above
from tests.trees import CLINIC, clinic, domains_of, flat
from understudy.pipelines.counting.residuals import differences
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import Answers, Uncut
from understudy.pipelines.inference.asking_trees import AskedTree
from understudy.pipelines.inference.intervals import deviations
from understudy.pipelines.inference.tree_verdict import planned_tree_verdict, tree_verdict
from understudy.pipelines.inference.tree_views import full_name, told_tree
from understudy.pipelines.methods.tree.generating.decoding import decode_tree
from understudy.pipelines.methods.tree.generating.tree_codes import TreeCodes
from understudy.pipelines.methods.tree.measure import facts_of
from understudy.pipelines.methods.tree.plan import design_tree
from understudy.pipelines.methods.tree.released import TREE, ReleasedTree, numbers_name, released_tree, residual_name
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.model import ReleaseSpec

SPEC = clinic(patients={"columns": {
    "sex": {"type": "category", "values": ["f", "m"]},
    "age": {"type": "integer", "min": 0, "max": 4, "bins": 5},
}})  # fmt: skip
TICKS = 840
Z = deviations(0.95)


@cache
def codes() -> TreeCodes:
    return made_tree(SPEC, 300, np.random.default_rng(4))


def asked(released: ReleasedTree, spec: ReleaseSpec = SPEC, rows: dict | None = None, ticks: int = TICKS) -> AskedTree:
    assert spec.tree is not None
    published = [f"{name}.{column}" for name, table in (rows or {}).items() for column in table.column_names]
    told = told_tree(released, spec.tree, domains_of(spec), ticks, published)
    return AskedTree(told, lambda: rows or pytest.fail("measurements were to answer"))


@cache
def exact() -> AskedTree:
    return asked(released_from(codes(), SPEC))


@cache
def frames() -> dict[str, pd.DataFrame]:
    """A row a row, with what is above it, what lies below it, and what it weighs: a root counts once."""
    made, tree, domains = codes(), SPEC.tree, domains_of(SPEC)
    assert tree is not None
    found = {}
    for table in tree.tables:
        columns = {}
        for other in (table, *tree.above(table.name)):
            at = rows_above(made, tree, table.name, other.name)
            for place, column in enumerate(domains[other.name].columns):
                labels = np.array(column.code_labels() if column.kind == "category" else range(column.size))
                columns[column.name] = labels[made.codes[other.name][at, place]]
        for child in tree.children(table.name):
            columns[f"{child.name}.number"] = np.bincount(made.parent[child.name], minlength=made.rows(table.name))
        if table.parent is not None:
            columns[f"{table.name}.number"] = np.bincount(made.parent[table.name])[made.parent[table.name]]
            before = pd.Series(made.parent[table.name])
            columns["later"] = (before == before.shift()).to_numpy()
        root = rows_above(made, tree, table.name, tree.root.name)
        columns["weight"] = 1 / np.bincount(root)[root]
        columns["root"] = root
        found[table.name] = pd.DataFrame(columns)
    return found


def weighed(table: str, what: np.ndarray | pd.Series, where: pd.Series | None = None) -> float:
    rows = frames()[table]
    weight = rows.weight if where is None else rows.weight * where
    return float((weight * what).sum() / weight.sum())


def values(found: Answers) -> dict[object, float | None]:
    return {tuple(answer.group.values()): answer.estimate for answer in found}


def test_without_noise_every_table_answers_as_its_rows_do_each_root_counting_once() -> None:
    patients, visits, drugs = frames().values()
    ask = exact().answer
    assert values(ask("count")) == pytest.approx({(): len(patients)})
    assert values(ask("mean(age) by sex"))[("f",)] == pytest.approx(patients.age[patients.sex == "f"].mean())
    assert values(ask("sum(visits.number) by sex"))[("m",)] == pytest.approx((visits.sex == "m").sum())
    assert values(ask("share(visits.number >= 2)"))[()] == pytest.approx((patients["visits.number"] >= 2).mean())
    assert values(ask("count by ward"))[("b",)] == pytest.approx(visits.weight[visits.ward == "b"].sum())
    assert values(ask("share(ward = a) by sex"))[("f",)] == pytest.approx(
        weighed("visits", visits.ward == "a", visits.sex == "f")
    )
    assert values(ask("share(ward = a) by visits.number"))[(2,)] == pytest.approx(
        weighed("visits", visits.ward == "a", visits["visits.number"] == 2)
    )
    assert values(ask("share(ward = a) by visits.place"))[("later",)] == pytest.approx(
        weighed("visits", visits.ward == "a", visits.later)
    )
    assert values(ask("mean(drugs.number) by ward"))[("c",)] == pytest.approx(
        weighed("visits", visits["drugs.number"], visits.ward == "c")
    )
    assert values(ask("mean(age) by drug"))[("x",)] == pytest.approx(weighed("drugs", drugs.age, drugs.drug == "x"))
    assert values(ask("share(drug = y) by drugs.number difference"))[(2, 1)] == pytest.approx(
        weighed("drugs", drugs.drug == "y", drugs["drugs.number"] == 2)
        - weighed("drugs", drugs.drug == "y", drugs["drugs.number"] == 1)
    )


def test_rows_that_follow_each_other_are_weighed_by_themselves() -> None:
    visits = frames()["visits"]
    pairs = visits.assign(before=visits.ward.shift())[visits.later].copy()
    weight = 1 / pairs.groupby("root").ward.transform("size")
    share = (weight * (pairs.before == "a"))[pairs.ward == "b"].sum() / weight[pairs.ward == "b"].sum()
    found = exact().answer("share(previous.ward = a) by ward")
    assert values(found)[("b",)] == pytest.approx(share)
    assert "those of its visits that follow another one" in found.notes[0]
    days = np.diff(codes().values["visits"])[visits.later.to_numpy()[1:]]
    [gap] = exact().answer("mean(gap)")
    assert gap.estimate is not None
    assert abs(gap.estimate - (weight.to_numpy() * days).sum() / weight.sum()) <= gap.within_bins


@pytest.mark.parametrize(
    ("question", "view", "columns"),
    [
        ("count", 0, ""),
        ("count where sex = f", 0, "patients.sex"),
        ("sum(visits.number) where sex = m", 0, "patients.sex visits.number"),
        ("count where ward = a and sex = f", 1, "visits.ward patients.sex"),
        ("sum(drugs.number) where ward = a", 1, "visits.ward drugs.number"),
        ("count where previous.ward = b and ward = b", 2, "visits.ward visits.previous.ward"),
        ("count where visits.gap < 31 and ward = b", 2, "visits.ward visits.gap"),
        ("count where drug = x and age > 2", 3, "drugs.drug patients.age"),
    ],
)
def test_intervals_are_as_wide_as_the_noise_of_every_cell_that_is_drawn(question: str, view: int, columns: str) -> None:
    """From one unit on each number before it is published, through the stored form, to the answer."""
    design = design_tree(SPEC, domains_of(SPEC))
    facts, nothing = facts_of(design), {}
    for i, each in enumerate(design.views):
        for place, clique in enumerate(design.workloads[i].measured):
            shape = tuple(each.sizes[column] for column in clique)
            nothing[residual_name(i, place)] = differences(np.zeros(shape, np.int64)).reshape(-1)
    nothing |= {numbers_name(name): np.zeros(SPEC.tree.table(name).max_rows + 1, np.int64) for name in design.numbers}

    def answered(arrays: dict[str, np.ndarray]) -> Uncut:
        released = released_tree(Measurement(TREE, facts, {**nothing, **arrays}))
        [answer] = asked(released, ticks=design.ticks).answer(question)
        assert answer.uncut is not None
        return answer.uncut

    base, variance, one, seen = answered({}), 0.0, 10**9, design.views[view]
    names = [full_name(column, domains_of(SPEC)) for column in seen.columns]
    for place, (clique, std) in enumerate(zip(design.workloads[view].measured, design.stds(view), strict=True)):
        shape = tuple(seen.sizes[column] for column in clique)
        needed = all(names[column] in columns.split() for column in clique)
        for cell in list(np.ndindex(shape))[: None if needed else 1]:
            unit = np.zeros(shape, np.int64)
            unit[cell] = one
            moved = answered({residual_name(view, place): differences(unit).reshape(-1)}).value - base.value
            assert needed or moved == 0
            variance += (moved / one) ** 2 * (std**2 + 1 / 12)  # rounded when it is drawn
    assert base.interval is not None
    assert base.interval.high == pytest.approx(Z * np.sqrt(variance), rel=1e-6)


def test_a_name_that_several_tables_have_is_asked_back_and_one_may_not_be_written_twice() -> None:
    with pytest.raises(SpecError, match=r"visits\.number or drugs\.number"):
        exact().answer("count by number")
    with pytest.raises(SpecError, match="are one column"):
        exact().answer("count by ward where visits.ward = a")


def test_beyond_what_was_measured_joined_rows_answer_and_say_why() -> None:
    made, domains = codes(), domains_of(SPEC)
    assert SPEC.tree is not None
    rows = {
        name: synthetic.table
        for name, synthetic in decode_tree(made, SPEC.tree, domains, np.random.default_rng(0)).tables.items()
    }
    ask = asked(released_from(made, SPEC), rows=rows).answer
    drugs = frames()["drugs"]
    found = ask("count by ward, drug where sex = f")
    expected = ((drugs.ward == "a") & (drugs.drug == "x") & (drugs.sex == "f")).sum()
    assert values(found)[("a", "x")] == expected
    assert found.answers[0].interval is None
    assert "ward and sex were not measured together" in found.answers[0].reason
    assert "counting rows of drugs" in found.notes[0]
    visits = frames()["visits"]
    assert (
        values(ask("count where visits.number >= 2 and drug = x"))[()]
        == ((visits["visits.number"] >= 2).to_numpy()[made.parent["drugs"]] & (drugs.drug == "x")).sum()
    )
    with pytest.raises(SpecError, match="rows are not looked at in order"):
        ask("share(previous.ward = a) by sex")
    with pytest.raises(SpecError, match="has no column 'hospital'"):
        ask("count by hospital")


def test_tables_that_hang_side_by_side_have_no_row_in_common() -> None:
    beside = {
        "source": {"table": "bills"},
        "parent": {"table": "patients", "by": "patient_id"},
        "max_rows": 2,
        "columns": {"paid": {"type": "boolean"}},
    }
    spec = clinic()
    tables = {**{name: table.model_dump(exclude_none=True) for name, table in spec.tables.items()}, "bills": beside}
    spec = ReleaseSpec.model_validate({**spec.model_dump(mode="json", exclude={"tables"}), "tables": tables})
    told = asked(released_from(made_tree(spec, 50, np.random.default_rng(1)), spec), spec)
    with pytest.raises(SpecError, match="no row of the release has them all"):
        told.answer("share(paid) by ward")
    assert len(told.answer("share(bills.number = 2) by visits.number")) == 4  # both are of patients


def test_a_flat_table_with_entities_is_asked_by_its_own_names() -> None:
    spec = flat()
    made = made_tree(spec, 80, np.random.default_rng(2))
    found = asked(released_from(made, spec), spec).answer("share(ward = a) by sex")
    assert "entities were counted" in found.notes[0]
    root = made.parent["rows"]
    of_women = made.codes["entities"][root, 0] == 0
    weight = 1 / np.bincount(root)[root]
    share = (weight * (made.codes["rows"][:, 0] == 0))[of_women].sum() / weight[of_women].sum()
    assert values(found)[("f",)] == pytest.approx(share)


def test_a_column_that_is_called_as_a_made_one_is_not_taken_for_it() -> None:
    named = {"number": {"type": "category", "values": ["i", "ii"]}, "gap": {"type": "boolean"}}
    spec = clinic(visits={"columns": {**CLINIC["tables"]["visits"]["columns"], **named}})
    made = made_tree(spec, 60, np.random.default_rng(3))
    told = asked(released_from(made, spec), spec)
    assert {answer.group["visits.number"] for answer in told.answer("count by visits.number")} == {"i", "ii"}
    assert len(told.answer("count by sex, 'visits.the number'")) == 8
    assert len(told.answer("share(gap) by visits.number")) == 2
    assert told.answer("mean('visits.the gap') by ward").notes


def test_the_verdict_judges_each_table_by_its_own_columns_and_in_roots() -> None:
    verdict = tree_verdict(exact().told)
    named = [table.name for table in verdict.columns]
    assert sorted(named) == sorted({*named})
    assert {"patients.sex", "visits.number", "visits.ward", "visits.gap", "drugs.number", "drugs.drug"} <= {*named}
    assert verdict.grade == "good"
    assert verdict.of == "patients"
    assert verdict.pair("visits.ward", "patients.sex").grade == "good"
    planned = planned_tree_verdict(design_tree(SPEC, domains_of(SPEC)), domains_of(SPEC), 300)
    assert {table.columns for table in planned.tables} == {table.columns for table in verdict.tables}
    assert "patients" in planned.sentence
    noisy = tree_verdict(asked(released_from(codes(), SPEC, 1000.0, np.random.default_rng(1))).told)
    assert noisy.grade == "noise"
