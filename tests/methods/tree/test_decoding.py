"""Published tables of a tree: keys are fresh, unique and fit each other; what is constant for an entity is constant."""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc

from tests.methods.tree.released_trees import made_tree, released_from, small_clinic
from tests.trees import FLAT, domains_of, flat
from understudy.pipelines.methods.tree.generating.decoding import decode_tree
from understudy.pipelines.methods.tree.generating.tables import generate_flat, generate_tables
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.domain import TableDomain


def test_every_key_is_unique_and_every_parent_is_there() -> None:
    rng = np.random.default_rng(0)
    spec, _, made = small_clinic(150, rng)
    spec = spec.model_copy(update={"generate": spec.generate.model_copy(update={"epochs": 1, "device": "cpu"})})
    found = generate_tables(released_from(made, spec, 1.0, rng), spec, 120, np.random.SeedSequence(1))
    tables = {name: each.table for name, each in found.tables.items()}
    assert list(tables) == ["patients", "visits", "drugs"]
    assert found.tables["patients"].rows == 120
    assert tables["visits"].column_names == ["visit_id", "patient_id", "ward", "visited_on"]
    assert tables["drugs"].column_names == ["visit_id", "drug"]
    for table, key in (("patients", "patient_id"), ("visits", "visit_id")):
        assert pc.count_distinct(tables[table][key]).as_py() == tables[table].num_rows
    assert pc.all(pc.is_in(tables["visits"]["patient_id"], tables["patients"]["patient_id"].combine_chunks())).as_py()
    assert pc.all(pc.is_in(tables["drugs"]["visit_id"], tables["visits"]["visit_id"].combine_chunks())).as_py()
    days = tables["visits"]["visited_on"].to_pandas()
    same = tables["visits"]["patient_id"].to_pandas().diff() == 0
    assert (days[same.to_numpy()] >= days.shift()[same.to_numpy()]).all()


def test_published_rows_have_the_codes_that_were_generated() -> None:
    rng = np.random.default_rng(2)
    spec, domains, made = small_clinic(80, rng)
    assert spec.tree is not None
    found = decode_tree(made, spec.tree, domains, rng)
    for name, each in found.tables.items():
        assert np.array_equal(np.stack(each.codes.columns, axis=1), made.codes[name])


def test_a_flat_table_keeps_entities_and_what_is_constant_for_them() -> None:
    rng = np.random.default_rng(3)
    columns = {**FLAT["columns"], "born": {"type": "integer", "min": 1900, "max": 1999, "bins": 4}}
    columns["patient_id"] = {"type": "identifier", "action": "surrogate"}
    unit = {**FLAT["privacy"]["unit"], "columns": ["sex", "born"]}
    spec = ReleaseSpec.model_validate(
        {
            **FLAT,
            "columns": columns,
            "privacy": {**FLAT["privacy"], "unit": unit},
            "generate": {"epochs": 1, "device": "cpu"},
        }
    )
    domain = TableDomain.of(spec)
    released = released_from(made_tree(spec, 200, rng), spec, 1.0, rng)
    found = generate_flat(released, spec, domain, 150, np.random.SeedSequence(4)).table.to_pandas()
    assert list(found.columns) == ["patient_id", "sex", "ward", "on", "born"]
    by_entity = found.groupby("patient_id")
    assert by_entity.ngroups == 150
    assert by_entity[["sex", "born"]].nunique().max().max() == 1
    assert by_entity["born"].first().nunique() > 20  # a value an entity, not a code's
    assert 1 <= by_entity.size().min() <= by_entity.size().max() <= 4
    assert by_entity["on"].apply(lambda days: days.is_monotonic_increasing).all()


def test_a_flat_table_without_constant_columns_is_put_together_too() -> None:
    rng = np.random.default_rng(5)
    spec = flat(columns=[])
    assert len(domains_of(spec)["entities"].columns) == 0
    released = released_from(made_tree(spec, 60, rng), spec)
    found = generate_flat(released, spec, TableDomain.of(spec), 40, np.random.SeedSequence(6))
    assert found.table.column_names == ["sex", "ward", "on"]
    assert found.table.num_rows >= 40
