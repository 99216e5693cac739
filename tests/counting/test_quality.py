"""How much was understood: six cells a column, the same whatever counts them, inside the one event that is charged."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.counting.test_mechanism import SameWords
from tests.table.coding.strategies import DOMAIN, arrays, columns, odd_arrays
from tests.warehouse import Warehouse
from understudy import synthesize
from understudy.pipelines.counting.adaptive import AdaptivePlan
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.pushdown import is_cheaper
from understudy.pipelines.counting.quality import ColumnQuality, quality_cliques
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.relation import Relation, Unit
from understudy.pipelines.sources.databases.duckdb_table import DuckDBSource
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.sources.modelled import as_modelled
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.coding.encode import encode_column, encode_views
from understudy.pipelines.table.columns import CELLS, QualityColumn
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.reading.values import NULL, UNDERSTOOD, UNLISTED, UNREADABLE, read

COLUMNS: dict[str, dict[str, Any]] = {
    "n": {"type": "number", "min": 0, "max": 10, "bins": 4, "nullable": True},
    "d": {"type": "date", "min": "2014-01-01", "max": "2014-12-31", "bins": "month", "nullable": True},
    "b": {"type": "boolean"},
    "w": {"type": "category", "values": ["a", "b"], "other": True},
}
TEXTS = {
    "n": ["5", "-1", "11", "10", "x", None, "", "NaN", "$3", "5,5"],
    "d": ["2014-05-01", "2013-12-31", "2015-01-01", "2014-12-31 23:59", "01/04/2014", None, " ", "x", "20140401", "2"],
    "b": ["yes", "0", "on", "maybe", "", None, "1.0", "x", "f", "2"],
    "w": ["a", "b", "A", " a", "", None, "c", "a", "b", "x"],
}
EXPECTED = {"n": [3, 2, 3, 1, 1, 0], "d": [3, 2, 3, 1, 1, 0], "b": [5, 2, 3, 0, 0, 0], "w": [4, 1, 0, 0, 0, 5]}


def spec(quality: float | None = 0.02, relation: str = "add_remove", method: Any = None, **more: Any) -> ReleaseSpec:
    privacy = {"account": "a", "epsilon": 1, "delta": 1e-6, "relation": relation, **more}
    return spec_of({
        "name": "t", "source": {"uri": "t.parquet", "snapshot": "s"}, "publish": {"to": "out"}, "columns": COLUMNS,
        "privacy": privacy | ({} if quality is None else {"quality": quality}), "method": method or {"name": "privpgd"},
    })  # fmt: skip


D = TableDomain.of(spec())


def counted(table: Any, unit: Unit = Unit()) -> dict[str, list[int]]:
    found = LocalTable(table, D, unit, b"k").counts([(0,), *quality_cliques(D), (0, 3)])
    assert found[0].sum() == found[-1].sum()
    return dict(zip(D.names, [cells.tolist() for cells in found[1:-1]], strict=True))


def test_the_cells_of_each_column_are_told_apart() -> None:
    assert counted(ArrowSource(pa.table(TEXTS))) == EXPECTED
    coded = pa.table({name: pa.array(values).dictionary_encode() for name, values in TEXTS.items()})
    assert counted(ArrowSource(coded)) == EXPECTED


def test_where_an_engine_could_count_cells_are_streamed(tmp_path: Path, warehouse: Warehouse) -> None:
    """An engine that bins values itself does not tell how they were understood."""
    with duckdb.connect(str(tmp_path / "t.duckdb")) as connection:
        connection.register("given", pa.table(TEXTS))
        connection.execute("CREATE TABLE t AS SELECT * FROM given")
    words = TableDomain(D.columns[2:])
    with closing(DuckDBSource(tmp_path / "t.duckdb", "t")) as source:
        counter = source.counter()
        assert counter is not None
        assert is_cheaper(counter, words, [(0,), (1,)])
        assert not is_cheaper(counter, words, [(0,), (1,), *quality_cliques(words)])
        found = LocalTable(source, words, Unit(), b"k").counts([(0, 1), *quality_cliques(words)])
    assert [cells.tolist() for cells in found[1:]] == [EXPECTED["b"], EXPECTED["w"]]

    warehouse.execute("CREATE TABLE t (n double precision, d timestamp, b text, w text)")
    warehouse.execute(
        "INSERT INTO t VALUES (5, '2014-05-01', 'on', 'a'), (-1, '2013-12-31 23:59:59.999999', 'x', null),"
        " (11, '2015-01-01', '1.0', 'z'), (10, '2014-12-31 23:59', null, 'b'), ('NaN', null, '0', ''),"
        " ('Infinity', 'infinity', 'f', 'a'), (null, '0044-03-15 BC', '2', 'a')"
    )
    declared = SourceSpec(uri=warehouse.uri, table=f"{warehouse.schema}.t", snapshot="s")
    with closing(open_source(declared, tmp_path)) as table:
        cells = LocalTable(table, D, Unit(), b"k").counts([(1, 3), *quality_cliques(D)])
    assert cells[1].tolist() == [2, 2, 1, 1, 1, 0]
    assert cells[2].tolist() == [2, 1, 2, 1, 1, 0]


@settings(max_examples=200, deadline=None)
@given(st.one_of(arrays, odd_arrays), columns)
def test_a_cell_is_the_kind_of_the_value_and_its_side_of_the_range(array: pa.Array, column: Any) -> None:
    view = QualityColumn.of(column)
    cells, codes = encode_column(array, view), encode_column(array, column)
    both = encode_views(array, {0: column, 1: view})
    assert both[0].tolist() == codes.tolist()
    assert both[1].tolist() == cells.tolist()
    assert cells.tolist() == [int(encode_column(array.slice(row, 1), view)[0]) for row in range(len(array))]
    kinds = read(array, column).kinds(column)
    named = np.array(CELLS)[cells]
    assert set(named[kinds == NULL]) <= {"null"}
    assert set(named[kinds == UNREADABLE]) <= {"unreadable"}
    assert set(named[kinds == UNLISTED]) <= {"other"}
    assert set(named[kinds == UNDERSTOOD]) <= {"fine", "below", "above"}
    if column.kind not in ("category", "boolean"):
        assert set(codes[named == "below"]) <= {0}
        assert set(codes[named == "above"]) <= {column.value_codes - 1}


values = st.fixed_dictionaries({name: st.sampled_from(texts) for name, texts in TEXTS.items()})


@settings(max_examples=40, deadline=None)
@given(
    st.lists(values, max_size=8),
    st.lists(values, min_size=1, max_size=5),
    st.lists(values, max_size=5),
    st.sampled_from(Relation),
    st.integers(0, 2**32),
)
def test_neighbour_replay(rest: list, mine: list, other: list, relation: Relation, seed: int) -> None:
    """An entity of at most three counted rows moves everything that is drawn together by at most what is charged."""
    release = spec(relation=relation.value, unit={"entity": "who", "max_rows": 3})
    method = method_named("privpgd")
    plan = method.plan(release, D)
    neighbour = other if relation is Relation.REPLACE_ONE else []
    offered: list[Mechanism[Any]] = []

    def door(charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        offered.append(mechanism)
        return mechanism.draw(words[len(offered) - 1])

    words = SameWords(seed), SameWords(seed)
    for changed in (mine, neighbour):
        rows = [{**row, "who": f"r{i}"} for i, row in enumerate(rest)] + [{**row, "who": "me"} for row in changed]
        schema = pa.schema([(name, pa.string()) for name in (*COLUMNS, "who")])
        table = LocalTable(ArrowSource(pa.Table.from_pylist(rows, schema)), D, release.privacy.protected_unit, b"k")
        method.measure(table, release, plan, door)
    assert words[0].sizes == words[1].sizes  # control flow does not depend on the data
    noise: ResidualNoise = plan.design.noise
    assert noise.beside is not None
    moved = [a.astype(float) - b for a, b in zip(*(list(each.exact.values()) for each in offered), strict=True)]
    residuals = zip(moved, noise.shapes, noise.stds, strict=False)
    square = sum(float((_centred(part.reshape(shape)) ** 2).sum()) / std**2 for part, shape, std in residuals)
    cells = list(zip(moved[len(noise.shapes) :], noise.beside.stds, strict=True))
    assert [part.size for part, _ in cells] == [len(CELLS)] * len(D.columns)
    square += sum(float((part**2).sum()) / std**2 for part, std in cells)
    assert math.sqrt(square) <= 1 / _multiplier(plan) + 1e-9


def _centred(table: np.ndarray) -> np.ndarray:
    """G times a table without what is constant along an axis: what a release of residuals sees of it."""
    table = table * math.prod(table.shape)
    for axis in range(table.ndim):
        table = table - table.mean(axis=axis, keepdims=True)
    return table


def _multiplier(plan: Any) -> float:
    event = plan.charges[0].event
    assert isinstance(event, Gaussian)
    return event.noise_multiplier


def test_it_is_the_same_event_and_a_fiftieth_of_it() -> None:
    with_cells, without = (method_named("privpgd").plan(spec(quality), D) for quality in (0.02, None))
    assert [charge.stage for charge in with_cells.charges] == [charge.stage for charge in without.charges]
    assert _multiplier(with_cells) == pytest.approx(_multiplier(without), rel=1e-9)
    bought, plain = with_cells.design.noise, without.design.noise
    assert np.array(bought.stds) / np.array(plain.stds) == pytest.approx(1 / math.sqrt(0.98))
    assert plain.beside is None
    cells = bought.beside.stds
    assert len(cells) == len(D.columns)
    assert sum(1 / std**2 for std in cells) == pytest.approx(0.02 / _multiplier(with_cells) ** 2)
    assert cells[0] == pytest.approx(GOLDEN_STD, rel=1e-6)
    assert "how each column was understood" in [line.query for line in with_cells.noise]


GOLDEN_STD = 59.746024
"""Of a cell at epsilon 1, delta 1e-6, four columns and a fiftieth of the budget: z sqrt(4 / 0.02) with z = 4.224682."""


def test_adaptive_marginals_stay_within_the_budget_and_buy_it_first() -> None:
    release = spec(method={"name": "privpgd", "marginals": "adaptive", "rounds": 3})
    plan = method_named("privpgd").plan(release, D)
    design: AdaptivePlan = plan.design
    assert len(design.one_way.stds) == 2 * len(D.columns)
    loss = composed_loss([charge.event for charge in plan.charges], 1e-6, Relation.ADD_REMOVE)
    assert 0.98 < loss.epsilon <= 1
    shares = [1 / std**2 for std in design.one_way.stds]
    rounds = 3 / design.round_std**2 / (1 - 0.15)
    assert sum(shares[4:]) / (sum(shares) + rounds) == pytest.approx(0.02, rel=0.1)


def test_specs_without_the_key_are_as_they_were() -> None:
    assert spec(None).hash != spec(0.02).hash
    assert "quality" not in spec(None).model_dump(mode="json")["privacy"]


@pytest.mark.parametrize("method", [{"name": "gaussian"}, {"name": "mixing", "label": "w"}, {"name": "kernel"}])
def test_methods_that_cannot_tell_refuse_the_key(method: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="privpgd only"):
        spec(method=method)


@pytest.mark.parametrize(("share", "std", "limit", "above"), [(0.05, 0.01, 0.02, True), (0.05, 0.02, 0.02, False)])
def test_a_limit_is_passed_beyond_what_noise_explains(share: float, std: float, limit: float, above: bool) -> None:
    shares: Sequence[float] = (1 - share, 0, share, 0, 0, 0)
    assert ColumnQuality("x", tuple(shares), std).exceeds("unreadable", limit) is above


def test_every_column_kind_has_a_quality_view() -> None:
    for column in DOMAIN.columns:
        assert QualityColumn.of(column).size == len(CELLS)


TIMED: dict[str, Any] = {
    "pickup": {"type": "datetime", "min": "2026-01-05T06:00", "max": "2026-02-01", "bins": "week", "nullable": True,
               "parts": ["date", "weekday", "hour"]},
    "dropoff": {"type": "datetime", "after": "pickup", "up_to": "6h", "nullable": True},
    "score": {"type": "integer", "min": 0, "max": 10, "spikes": [-1, 99]},
    "left": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "spikes": ["9999-12-31"]},
    "rate": {"type": "number", "min": 0, "max": 1, "bins": 4, "spikes": [-9, 1.5, 99.9]},
}  # fmt: skip
MOMENTS = [  # pickup and its cell, dropoff and its cell
    ("2026-01-06 10:00", "fine", "2026-01-06 10:30", "fine"),
    ("2026-01-05 05:59", "below", "2026-01-05 06:30", "fine"),
    ("2026-02-01 00:00:01", "above", "2026-02-01 00:30", "fine"),
    ("01/06/2026 10:00", "unreadable", "2026-01-06 10:30", "unreadable"),
    (None, "null", "2026-01-06 10:30", "null"),
    (" ", "null", None, "null"),
    ("2026-01-06 10:00", "fine", "2026-01-06 09:00", "below"),
    ("2026-01-06 10:00", "fine", "2026-01-06 16:00:01", "above"),
    ("2026-01-06 10:00", "fine", "soon", "unreadable"),
]
SCORES = [("5", "fine"), ("-1", "fine"), ("99", "fine"), ("-2", "below"), ("100", "above"), ("x", "unreadable"),
          (None, "null"), ("11", "above"), ("98", "above")]  # fmt: skip
LEFT = [("2026-05-01", "fine"), ("9999-12-31", "fine"), ("2025-12-31", "below"), ("2027-01-01", "above"),
        ("9999-12-30", "above"), ("x", "unreadable"), (None, "null"), ("", "null"), ("2026-12-31", "fine")]  # fmt: skip

RATES = [("0.5", "fine"), ("1", "fine"), ("1.0000001", "above"), ("1.5", "fine"), ("99.9", "fine"), ("-9", "fine"),
         ("99.90000153", "fine"), ("-8.9", "below"), ("2", "above")]  # fmt: skip


@pytest.mark.parametrize("unit", [Unit(), Unit("who", 1)], ids=["rows", "entities"])
def test_moments_by_parts_and_spikes_outside_the_range_are_told_apart_too(unit: Unit) -> None:
    """What a part or a distance could not be made of was null, and what lay outside was fine."""
    domain = TableDomain.of(spec_of({
        "name": "t", "source": {"uri": "t.parquet", "snapshot": "s"}, "publish": {"to": "out"}, "columns": TIMED,
        "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6},
    }))  # fmt: skip
    columns = {"pickup": [(a, b) for a, b, _, _ in MOMENTS], "dropoff": [(c, d) for _, _, c, d in MOMENTS],
               "score": SCORES, "left": LEFT, "rate": RATES}  # fmt: skip
    table = pa.table({name: pa.array([value for value, _ in rows]) for name, rows in columns.items()})
    source = as_modelled(ArrowSource(table.append_column("who", pa.array(range(len(MOMENTS))))), domain)
    cliques = quality_cliques(domain)
    assert len(cliques) == len(TIMED)  # the parts of a datetime are asked about once
    found = LocalTable(source, domain, unit, b"k").counts([(0, 1), *cliques])
    for (name, rows), cells in zip(columns.items(), found[1:], strict=True):
        expected = [sum(cell == each for _, cell in rows) for each in CELLS]
        assert dict(zip(CELLS, cells.tolist(), strict=True)) == dict(zip(CELLS, expected, strict=True)), name


def test_a_release_of_moments_by_parts_names_the_column_that_was_not_understood(tmp_path: Path) -> None:
    text = [f"0{row % 9 + 1}/06/2026 10:00" if row % 2 else "2026-01-06 10:00" for row in range(4000)]
    release = synthesize(
        pa.table({"pickup": text, "dropoff": text, "score": ["5"] * 4000, "left": ["2026-05-01"] * 4000,
                  "rate": ["0.5"] * 4000}),
        {"name": "t", "snapshot": "s", "columns": TIMED, "generate": {"epochs": 1, "particles": 200},
         "privacy": {"account": "a", "epsilon": 4, "delta": 1e-6, "quality": 0.05}},
        cap=(9, 1e-5), home=tmp_path,
    )  # fmt: skip
    facts = {fact.column: fact for fact in release.manifest.quality}
    assert list(facts) == list(TIMED)
    assert facts["pickup"].shares["unreadable"] == pytest.approx(0.5, abs=0.05)
    assert facts["pickup"].alarming
    assert not facts["score"].alarming
