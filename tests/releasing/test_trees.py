"""Trees through the release core: planned, approved, measured once, found again; from sources and from Python."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

from tests.sources.tree.test_kinds import as_csv, as_duckdb, as_parquet, clinic_of, stored
from tests.tree_oracle import arrow
from tests.trees import CLINIC, FLAT, clinic, flat
from understudy import Synthesizer
from understudy.cli.main import main
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.tree.released import TREE, released_tree
from understudy.pipelines.privacy.relation import Budget, Relation
from understudy.pipelines.publishing.manifest import public_spec
from understudy.pipelines.releasing.approving import approve, stored_measurement
from understudy.pipelines.releasing.books import Books
from understudy.pipelines.releasing.measuring import counted_tree, measure, named_tree
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.releasing.remembering import remember
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.sources.identity import data_identity
from understudy.pipelines.spec.model import ReleaseSpec

MAPPING: dict[str, Any] = {
    **{key: value for key, value in CLINIC.items() if key not in ("source", "publish")},
    "snapshot": "2026-01",
}


def books_at(place: Path, spec: ReleaseSpec) -> Books:
    books = Books.open(Workspace.from_environment({"UNDERSTUDY_HOME": str(place / "home")}))
    books.ledger.open_account("clinic", Relation.ADD_REMOVE, spec.privacy.protected_unit, Budget("3", "1e-5"), "test")
    return books


def test_a_tree_of_three_kinds_of_sources_is_paid_for_once_and_found_again(tmp_path: Path) -> None:
    rows = clinic_of(6)
    spec = stored(rows, (as_parquet, as_csv, as_duckdb), tmp_path)
    books, planned = books_at(tmp_path, spec), plan_release(spec)
    assert [charge.stage for charge in planned.plan.charges] == ["tree"]
    approval = approve(books.ledger, spec, planned.plan, source=data_identity(spec, tmp_path))
    assert stored_measurement(books.ledger, books.store, approval) is None
    with closing(named_tree(spec, tmp_path)) as source:
        measured = measure(counted_tree(source, planned), planned, approval, books)
    assert measured.kind == TREE
    assert len(books.ledger.charges("clinic")) == 1
    again = stored_measurement(books.ledger, books.store, approve(books.ledger, spec, planned.plan))
    assert again is not None
    assert {name: table.tolist() for name, table in again.arrays.items()} == {
        name: table.tolist() for name, table in measured.arrays.items()
    }
    found = remember(approval.mids[0], None, None, tmp_path / "elsewhere", {}, books).planned.spec
    assert found.tree == spec.tree
    assert [list(found.table(name).columns) for name in found.tables or ()] == [
        list(spec.table(name).columns) for name in spec.tables or ()
    ]
    assert released_tree(again).rows_view("visits").view.table == "visits"


def test_what_is_published_of_a_spec_names_no_place() -> None:
    told = str(public_spec(clinic(visits={"source": {"uri": "secret/place.csv"}})))
    assert "secret" not in told
    assert "duckdb" not in told


def test_frames_of_several_tables_are_fitted_by_name(tmp_path: Path) -> None:
    rows = clinic_of(7)
    frames = {name: pd.DataFrame(table) for name, table in rows.items()}
    fitted = Synthesizer(MAPPING, cap=(3, "1e-5"), home=tmp_path).fit(frames)
    assert len(fitted.spent) == 1
    assert Synthesizer(MAPPING, home=tmp_path).fit(frames).reused
    with pytest.raises(SpecError, match="not those of the spec"):
        Synthesizer({**MAPPING, "snapshot": "2"}, home=tmp_path).fit({"patients": frames["patients"]})
    lacking = {**frames, "visits": frames["visits"].drop(columns="patient_id")}
    with pytest.raises(SpecError, match="no key column 'patient_id'"):
        Synthesizer({**MAPPING, "snapshot": "3"}, home=tmp_path).fit(lacking)
    assert len(Synthesizer(MAPPING, home=tmp_path)._open().ledger.charges("clinic")) == 1


def test_a_flat_table_with_entities_is_read_once_as_two(tmp_path: Path) -> None:
    spec = flat()
    rng = np.random.default_rng(3)
    who = rng.integers(0, 400, 1500)
    table = pa.table(
        {
            "patient_id": who,
            "sex": np.array(["f", "m"])[who % 2],
            "ward": np.array(["a", "b"])[rng.integers(0, 2, 1500)],
            "on": pa.array(np.datetime64("2020-01-01") + rng.integers(0, 365, 1500)),
        }
    )
    mapping = {key: value for key, value in FLAT.items() if key not in ("source", "publish")}
    mapping["privacy"] = {**mapping["privacy"], "epsilon": 60}
    fitted = Synthesizer({**mapping, "snapshot": "1"}, cap=(80, "1e-5"), home=tmp_path).fit(table)
    told = released_tree(fitted._require_fit().measured)
    entities = told.rows_view("entities").residuals
    assert entities.total == pytest.approx(len(set(who.tolist())), abs=20)
    np.testing.assert_allclose(entities.marginal((0,)), [len({w for w in who.tolist() if w % 2 == i}) for i in (0, 1)],
                               atol=20)  # fmt: skip
    assert spec.tree is not None
    assert told.order_view("rows") is not None


def test_no_value_of_the_tables_is_in_an_error(tmp_path: Path) -> None:
    rows = clinic_of(8)
    rows["visits"] = [{**row, "ward": "a secret word"} for row in rows["visits"]]
    tables = {name: arrow(table, name) for name, table in rows.items()}
    tables["visits"] = tables["visits"].set_column(3, "visited_on", pa.array([["a secret list"]] * len(rows["visits"])))
    with pytest.raises(SpecError) as told:
        Synthesizer(MAPPING, cap=(3, "1e-5"), home=tmp_path).fit(tables)
    assert "secret" not in str(told.value)
    assert "visits: column 'visited_on'" in str(told.value)


def test_plan_shows_tables_bounds_shares_and_noise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "home"))
    for name, table in clinic_of(9).items():
        as_duckdb(tmp_path, name, table)
    (tmp_path / "clinic.yaml").write_text(yaml.safe_dump(CLINIC, sort_keys=False))
    books_at(tmp_path, clinic())
    runner = CliRunner()
    told = runner.invoke(main, ["plan", str(tmp_path / "clinic.yaml"), "--assume-rows", "5000"], catch_exceptions=False)
    assert told.exit_code == 0
    for text in (
        "protects    one of patients with everything attributed to it",
        "visits of patients         3            3  visited_on  52.1%",
        "share of 5,000 patients",
        "verdict for 5,000 patients",
        "visits.visited_on  bins of 91 to 92 days",
        "after this release",
    ):
        assert text in told.output
    found = json.loads(runner.invoke(main, ["plan", str(tmp_path / "clinic.yaml"), "--json"]).output)
    assert [row["share"] for row in found["details"]["tables"]] == ["20.3%", "52.1%", "27.6%"]
    checked = runner.invoke(main, ["spec", "check", str(tmp_path / "clinic.yaml")])
    assert "5 of 9 columns are copied, by privpgd of 3 tables" in checked.output
