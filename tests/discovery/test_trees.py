"""Open columns of several tables: what a root gives, whoever keeps the rows, and neighbours from tables to sums."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.discovery.tallied import as_cells, same
from tests.sources.tree.test_kinds import KINDS, clinic_of, place, stored
from tests.tree_oracle import NAMES, Rows, arrow, clinics, spelled
from tests.trees import CLINIC
from understudy import Synthesizer
from understudy.pipelines.counting.tree.counting import LocalTree
from understudy.pipelines.discovery.asking import discovery_unit, first_round, open_columns
from understudy.pipelines.discovery.mechanism import Sums
from understudy.pipelines.discovery.tally import UNITS, Asked, Tally
from understudy.pipelines.discovery.thresholds import GRAIN
from understudy.pipelines.discovery.tree_tallying import (
    OpenWords,
    attribution_key,
    known_domains,
    open_words,
    tally_tree,
)  # fmt: skip
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.tree.plan import tree_domains
from understudy.pipelines.privacy.relation import Relation, Unit
from understudy.pipelines.releasing.measuring import counted_tree
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.sources.hashing import Hashes
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.tree.bounding import BoundedTree, bound_tree
from understudy.pipelines.sources.tree.opening import TreeSource, open_tree
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of

__all__ = ["place"]
OPEN: dict[str, dict[str, Any]] = {
    "patients": {"age": {"type": "integer", "min": "discover", "max": "discover", "bins": "auto"}},
    "visits": {"ward": {"type": "category", "values": "discover", "nullable": True}},
    "drugs": {"drug": {"type": "discover"}},
}


def opened(told: Mapping[str, Any] | None = None, **more: Any) -> ReleaseSpec:
    tables = {
        name: {
            **table,
            "source": (told or {}).get(name, table["source"]),
            "columns": {**table["columns"], **OPEN[name]},
        }
        for name, table in CLINIC["tables"].items()
    }
    source = CLINIC["source"] if told is None else {"snapshot": "1", "uri": "."}
    return spec_of({**CLINIC, "source": source, "tables": tables, **more})


SPEC = opened()
UNIT = discovery_unit(SPEC)


def asked_of(spec: ReleaseSpec) -> list[Asked]:
    return [one.asked for one in first_round(spec, open_columns(spec)).columns]


def in_memory(rows: Rows) -> TreeSource:
    return TreeSource({name: ArrowSource(arrow(rows[name], name)) for name in NAMES})


def sums_of(rows: Rows, threads: int = 1) -> dict[str, Sums]:
    return tally_tree(in_memory(rows), SPEC, asked_of(SPEC), UNIT, threads)


def bounded(rows: Rows) -> BoundedTree:
    """As discovery attributes and bounds them."""
    key = attribution_key(SPEC)
    tallies = {name: Tally([one for one in asked_of(SPEC) if one.table == name], UNIT) for name in NAMES}
    beside = open_words(SPEC, open_columns(SPEC), key, tallies)
    assert SPEC.tree is not None
    return bound_tree(SPEC.tree, in_memory(rows).tables, known_domains(SPEC), key, False, 1, beside=beside)


def crowded(patients: str, days: tuple[str, ...] = ("2020-01-05", "2020-01-09", "2020-07-01", "2021-05-05")) -> Rows:
    """Patients with a visit on each day, in several wards and with several drugs: more than the bounds allow."""
    visits = [(who, f"{who}{place}", "ab"[place % 2], day) for who in patients for place, day in enumerate(days)]
    return {
        "patients": [{"patient_id": who, "sex": "f", "age": 30} for who in patients],
        "visits": [dict(zip(("patient_id", "visit_id", "ward", "visited_on"), visit, strict=True)) for visit in visits],
        "drugs": [{"visit_id": visit[1], "drug": drug} for visit in visits for drug in "xyz"],
    }


def test_the_unit_is_a_root_with_as_many_rows_as_the_bounds_allow() -> None:
    assert Unit("patients", 6) == UNIT
    assert [(one.table, one.looking.name, one.about) for one in asked_of(SPEC)] == [
        ("patients", "age", ("coarse",)),
        ("visits", "ward", ("values",)),
        ("drugs", "drug", ("values", "coarse")),
    ]
    assert first_round(SPEC, open_columns(SPEC)).noise.unit == UNIT


def test_a_root_gives_each_of_its_values_a_share_whatever_table_they_stand_in() -> None:
    visits = [("1", "a", "x"), ("1", "b", "y"), ("2", "c", "x"), ("nobody", "d", "z")]
    rows: Rows = {
        "patients": [{"patient_id": key, "sex": "f", "age": 30} for key in ("1", "2", "3")],
        "visits": [
            {"patient_id": who, "visit_id": key, "ward": ward, "visited_on": "2020-01-05"} for who, key, ward in visits
        ],
        "drugs": [{"visit_id": key, "drug": drug} for key, drug in (("a", "p"), ("b", "q"), ("b", "p"), ("c", "p"))],
    }
    found = sums_of(rows)
    half = int(GRAIN / 2**0.5)
    assert as_cells(found[UNITS]) == {"0": 3 * GRAIN}
    assert as_cells(found["1/values"]) == {"x": half + GRAIN, "y": half}
    assert as_cells(found["2/values"]) == {"p": half + GRAIN, "q": half}


@settings(max_examples=40, deadline=None)
@given(clinics, st.integers(0, 2**16))
def test_sums_depend_on_the_rows_alone(rows: Rows, seed: int) -> None:
    """Not on their order nor on threads; rows that differ in an open column alone are told apart."""
    shuffled = {name: random.Random(seed).sample(table, len(table)) for name, table in rows.items()}
    assert same(sums_of(rows), sums_of(shuffled, threads=2))


def replayed(rows: Rows, less: Rows, relation: Relation, more: Rows | None = None) -> None:
    whole, rest = sums_of(rows), sums_of(less)
    other = rest if more is None else sums_of(more)
    most = GRAIN**2 * (2 if relation is Relation.REPLACE_ONE else 1)
    for name in whole:
        before, after, common = as_cells(other[name]), as_cells(whole[name]), as_cells(rest[name])
        held = set(common) if whole[name].values is not None else set(before) | set(after)
        assert sum((after.get(cell, 0) - before.get(cell, 0)) ** 2 for cell in held) <= most, name
        assert sum(1 for cell in after if whole[name].values is not None and cell not in common) <= UNIT.max_rows


@dataclass(frozen=True)
class Marked:
    """Rows told apart as in discovery, each with its place in its table."""

    words: OpenWords

    @property
    def columns(self) -> list[str]:
        return [*self.words.columns, "place"]

    @property
    def known(self) -> tuple[str, ...]:
        return self.words.known

    def look(self, batch: pa.RecordBatch, codes: np.ndarray) -> tuple[np.ndarray, Hashes]:
        return batch.column("place").to_numpy().astype(np.int32)[:, None], self.words.look(batch, codes)[1]


def without_a_root(rows: Rows) -> list[Rows]:
    """Every neighbour: without a root and all rows attributed to it, kept or not, by bounds that nothing reaches."""
    tables = CLINIC["tables"].items()
    bounds = {name: {**table, "max_rows": 90} if "parent" in table else table for name, table in tables}
    wide = spec_of({**CLINIC, "tables": bounds}).tree
    placed = {
        name: ArrowSource(arrow(table, name).append_column("place", [np.arange(len(table))]))
        for name, table in rows.items()
    }
    key, nothing = attribution_key(SPEC), {name: Tally((), UNIT) for name in NAMES}
    marked = {name: Marked(words) for name, words in open_words(SPEC, open_columns(SPEC), key, nothing).items()}
    assert wide is not None
    found = bound_tree(wide, placed, known_domains(SPEC), key, False, 1, beside=marked).tables
    neighbours = []
    places = {name: each.beside if each.beside is not None else np.zeros((0, 1), int) for name, each in found.items()}
    for root, [patient] in enumerate(places["patients"]):
        gone = {name: set(places[name][each.root == root, 0].tolist()) for name, each in found.items()}
        who = spelled(rows["patients"][patient]["patient_id"])
        gone["patients"] = {i for i, row in enumerate(rows["patients"]) if spelled(row["patient_id"]) == who}
        neighbours.append({name: [row for i, row in enumerate(rows[name]) if i not in gone[name]] for name in NAMES})
    return neighbours


@settings(max_examples=60, deadline=None)
@given(clinics)
def test_neighbour_replay_where_ids_are_shared_repeated_and_nobody_s(rows: Rows) -> None:
    neighbours = without_a_root(rows)
    for less in neighbours[:3]:
        replayed(rows, less, Relation.ADD_REMOVE)


@settings(max_examples=60, deadline=None)
@given(clinics, clinics)
@example(crowded("12"), crowded("3"))
def test_neighbour_replay(rows: Rows, theirs: Rows) -> None:
    """A root with everything attributed to it, over every bound, is added to, or put in the place of another."""
    mine = _of_one_root(theirs, "mine")
    others = _of_one_root({name: table[::-1] for name, table in theirs.items()}, "other")
    with_me = {name: rows[name] + mine[name] for name in NAMES}
    replayed(with_me, rows, Relation.ADD_REMOVE)
    replayed(with_me, rows, Relation.REPLACE_ONE, {name: rows[name] + others[name] for name in NAMES})


def _of_one_root(rows: Rows, name: str) -> Rows:
    """All rows as those of one patient, whose ids nobody else has."""
    return {
        "patients": [{**row, "patient_id": name} for row in rows["patients"]],
        "visits": [
            {**row, "patient_id": name, "visit_id": None if row["visit_id"] is None else name + row["visit_id"]}
            for row in rows["visits"]
        ],
        "drugs": [
            {**row, "visit_id": None if row["visit_id"] is None else name + row["visit_id"]} for row in rows["drugs"]
        ],
    }


@settings(max_examples=40, deadline=None)
@given(clinics)
@example(crowded("1234"))
def test_the_measurement_attributes_every_row_as_the_discovery_did(rows: Rows) -> None:
    """Also where ids collide: both charges protect the same roots with the same rows."""
    closed = spec_of({**CLINIC, "tables": {name: dict(table) for name, table in CLINIC["tables"].items()}})
    plan = plan_release(closed)
    names = tuple(open_columns(SPEC))
    planned = Planned(closed, plan.domain, plan.method, plan.plan, ("bought",), names, plan.domains)
    counted = counted_tree(in_memory(rows), planned)
    assert isinstance(counted, LocalTree)
    before = bounded(rows)
    for name, table in counted.bounded.tables.items():
        assert np.array_equal(table.root, before.tables[name].root)
        assert (table.parent is None) == (before.tables[name].parent is None)
        if table.parent is not None:
            assert np.array_equal(table.parent, before.tables[name].parent)
    same_codes = counted.bounded.tables["visits"].codes[:, 1]
    assert np.array_equal(same_codes, before.tables["visits"].codes[:, 0])
    assert tree_domains(closed)["visits"].names[1] == known_domains(SPEC)["visits"].names[0] == "visited_on"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_source_gives_the_same_sums(kind: str, place: Path) -> None:
    rows = clinic_of(5)
    told = stored(rows, KINDS[kind], place)
    spec = opened({name: table.source.model_dump(exclude_none=True) for name, table in (told.tables or {}).items()})
    source = open_tree(spec_of(told.model_dump()), place)
    found = tally_tree(source, spec, asked_of(spec), UNIT)
    source.close()
    assert same(found, tally_tree(in_memory(rows), spec, asked_of(spec), UNIT))


def test_what_was_bought_closes_the_columns_and_the_next_snapshot_pays_nothing_for_it(tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    people, visits = 3_000, 6_000
    frames = {
        "patients": pd.DataFrame(
            {"patient_id": range(people), "sex": rng.choice(["f", "m"], people), "age": rng.integers(20, 80, people)}
        ),
        "visits": pd.DataFrame(
            {
                "patient_id": rng.integers(0, people, visits),
                "visit_id": range(visits),
                "ward": rng.choice(["north", "south", "west"], visits),
                "visited_on": pd.to_datetime("2020-01-01") + pd.to_timedelta(rng.integers(0, 366, visits), unit="D"),
            }
        ),
        "drugs": pd.DataFrame({"visit_id": rng.integers(0, visits, visits), "drug": rng.choice(["x", "y"], visits)}),
    }
    frames["visits"]["visited_on"] = frames["visits"].visited_on.dt.date
    plain = {key: value for key, value in CLINIC.items() if key not in ("source", "publish")}
    tables = {
        name: {**table, "columns": {**table["columns"], **OPEN[name]}} for name, table in CLINIC["tables"].items()
    }
    spec = {**plain, "tables": tables, "privacy": {**CLINIC["privacy"], "epsilon": 2}, "snapshot": "2026-01",
            "generate": {"epochs": 1, "device": "cpu"}}  # fmt: skip
    one = Synthesizer(spec, cap=(9, "1e-5"), home=tmp_path).fit(frames)
    found = one.known_spec.tables
    assert found is not None
    assert set(found["visits"].columns["ward"].values) == {"north", "south", "west"}
    assert set(found["drugs"].columns["drug"].values) == {"x", "y"}
    assert found["patients"].columns["age"].min < 50 < found["patients"].columns["age"].max
    stages = ["discover", "discover further", "tree"]
    assert [charge.stage for charge in one._open().ledger.charges("clinic")] == stages
    release = one.release(400)
    assert set(release.tables["visits"]["ward"].to_pylist()) <= {"north", "south", "west", "other", None}
    assert release.manifest.guarantee.epsilon <= 2
    later = Synthesizer({**spec, "snapshot": "2026-02"}, home=tmp_path).fit(frames)
    assert [charge.stage for charge in later._open().ledger.charges("clinic")] == [*stages, "tree"]
    assert later.known_spec.tables == found


def test_the_column_that_orders_cannot_be_left_open() -> None:
    visits = {**CLINIC["tables"]["visits"]}
    visits["columns"] = {**visits["columns"], "visited_on": {"type": "date", "min": "discover", "max": "discover"}}
    with pytest.raises(SpecError, match="left open"):
        spec_of({**CLINIC, "tables": {**CLINIC["tables"], "visits": visits}})
