"""Families in parts: whole families each, the same rows whenever they are made, checked and counted as all at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.releasing.test_tree_releases import mapping
from tests.sources.tree.test_kinds import clinic_of
from tests.trees import CLINIC, FLAT
from tests.warehouse import Warehouse
from understudy import Synthesizer
from understudy.pipelines.errors import ValidationFailed
from understudy.pipelines.methods.tree.generating import family_parts
from understudy.pipelines.methods.tree.released import released_tree
from understudy.pipelines.publishing.part_files import FolderOfParts, KeptParts
from understudy.pipelines.publishing.targets.base import open_target
from understudy.pipelines.publishing.verifying import stored_release, verify_release
from understudy.pipelines.releasing import family_making
from understudy.pipelines.releasing.checking import require_sound
from understudy.pipelines.releasing.families import family_ticks
from understudy.pipelines.releasing.generating import generate_rows
from understudy.pipelines.releasing.keys import vouched
from understudy.pipelines.releasing.making import Workers, by_threads
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.synthetic import Synthetic
from understudy.pipelines.table.synthetic_tree import Made, SyntheticTree, seen_families, tables_of
from understudy.tasks.engines.dask_making import by_dask

ROOTS = 250
FILES = [f"part-{number:05d}.parquet" for number in range(3)]


def fitted_clinic(home: Path) -> Synthesizer:
    frames = {name: pd.DataFrame(table) for name, table in clinic_of(11).items()}
    return Synthesizer(mapping(CLINIC, 50), cap=(60, "1e-5"), home=home).fit(frames)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families in parts")


@pytest.fixture(scope="module")
def fitted(home: Path) -> Synthesizer:
    return fitted_clinic(home / "home")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_parts, "MOST_ROOTS", 100)


def made(one: Synthesizer, place: Path, roots: int | None = ROOTS, workers: Workers = by_threads) -> Made:
    known = one._require_fit()
    places = FolderOfParts(place)
    return generate_rows(known.measured, known.planned, None, roots, place_of=lambda key: places, workers=workers)


def rows_of(found: Made) -> Mapping[str, pa.Table]:
    return {name: one.table for name, one in tables_of(found).items()}


def test_every_row_leads_to_its_parent_in_its_part_and_keys_are_unique(fitted: Synthesizer, tmp_path: Path) -> None:
    found = made(fitted, tmp_path / "parts")
    assert tables_of(found)["patients"].parts.sizes == (83, 83, 84)
    frames = {name: table.to_pandas() for name, table in rows_of(found).items()}
    assert frames["patients"].patient_id.tolist() == list(range(1, ROOTS + 1))
    assert frames["visits"].visit_id.is_unique
    assert frames["visits"].visit_id.is_monotonic_increasing
    assert set(frames["visits"].patient_id) <= set(frames["patients"].patient_id)
    assert set(frames["drugs"].visit_id) <= set(frames["visits"].visit_id)
    assert frames["visits"].groupby("patient_id").size().max() <= 3
    assert frames["visits"].groupby("patient_id").visited_on.is_monotonic_increasing.all()
    patients = frames["patients"][["sex", "age"]]
    assert not patients[:83].equals(patients[83:166].reset_index(drop=True))
    known = fitted._require_fit()
    assert all(line.holds for line in require_sound(found, known.measured, known.planned, ROOTS))


def test_what_is_counted_of_parts_is_what_is_counted_of_all_rows(fitted: Synthesizer, tmp_path: Path) -> None:
    found, known = made(fitted, tmp_path / "parts"), fitted._require_fit()
    assert isinstance(found, SyntheticTree)
    seen = seen_families(found)
    assert seen is not None
    assert seen.between == ()
    released, ticks = released_tree(known.measured), int(known.measured.facts["ticks"])
    whole = SyntheticTree({name: Synthetic(one.table, one.domain) for name, one in found.tables.items()})
    for there, wanted in zip(seen.ticks, family_ticks(whole, released, known.planned, ticks), strict=True):
        assert all(np.array_equal(*both) for both in zip(there, wanted, strict=True))


def test_what_is_broken_in_one_part_is_not_published(
    fitted: Synthesizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draw = family_making.FamilyMaker.draw

    def spoilt(self: Any, number: int) -> Made:
        found = draw(self, number)
        assert isinstance(found, SyntheticTree)
        if number != 1:
            return found
        drugs = found.tables["drugs"]
        stray = pa.array(np.full(drugs.rows, 1), pa.int64())  # a visit of the first part
        rows = drugs.table.set_column(drugs.table.column_names.index("visit_id"), "visit_id", stray)
        return SyntheticTree({**found.tables, "drugs": Synthetic(rows, drugs.domain)})

    known = fitted._require_fit()
    with monkeypatch.context() as patch:
        patch.setattr(family_making.FamilyMaker, "draw", spoilt)
        found = made(fitted, tmp_path / "stray")
    with pytest.raises(ValidationFailed, match="visit_id names no row of visits"):
        require_sound(found, known.measured, known.planned, ROOTS)
    with monkeypatch.context() as patch:
        patch.setattr(family_making.FamilyMaker, "draw", lambda self, number: draw(self, 0))
        twice = made(fitted, tmp_path / "twice")
    with pytest.raises(ValidationFailed, match="patient_id: has a value twice"):
        require_sound(twice, known.measured, known.planned)


def test_dask_makes_the_same_parts(fitted: Synthesizer, tmp_path: Path) -> None:
    here, there = (made(fitted, tmp_path / name, workers=by) for name, by in (("a", by_threads), ("b", by_dask(None))))
    assert all(there_.equals(rows_of(here)[name]) for name, there_ in rows_of(there).items())


KILLED = """
import sys
from pathlib import Path
from tests.releasing import test_family_parts as parts
from understudy.pipelines.methods.tree.generating import family_parts
family_parts.MOST_ROOTS = 100
parts.made(parts.fitted_clinic(Path(sys.argv[1])), Path(sys.argv[2]))
"""


def test_killed_after_a_part_it_goes_on_where_it_was_to_the_same_bytes(tmp_path: Path) -> None:
    one, place = fitted_clinic(tmp_path / "home"), tmp_path / "parts"
    run = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "home"), str(place)],
        env={**os.environ, "UNDERSTUDY_FAULT": "part_kept"},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert run.returncode == -9
    left = {path: path.stat().st_mtime_ns for path in place.glob("*/part-*")}
    numbers = [path.name for path in left]
    whole_parts = [name for name in FILES if numbers.count(name) == 3]
    assert 0 < len(whole_parts) < 3
    if len(whole_parts) > 1:  # as if killed between a part's tables
        (place / "drugs" / whole_parts.pop()).unlink()
    found, whole = made(one, place), made(one, tmp_path / "others")
    assert all(path.stat().st_mtime_ns == left[path] for path in left if path.name in whole_parts)
    for name, one_table in tables_of(found).items():
        other = tables_of(whole)[name].parts
        assert isinstance(one_table.parts, KeptParts)
        assert isinstance(other, KeptParts)
        assert one_table.parts.files == other.files


def test_a_release_in_parts_is_published_whole_and_leaves_nothing_behind(fitted: Synthesizer, home: Path) -> None:
    release = fitted.release(ROOTS)
    place = Path(release.save("releases", base=home))
    for name in ("patients", "visits", "drugs"):
        assert sorted(path.name for path in (place / "data" / name).iterdir()) == FILES
        assert pq.read_table(place / "data" / name).equals(release.tables[name])
    assert stored_release(str(place)).tables()["drugs"].equals(release.tables["drugs"])
    keys = vouched(Workspace.from_environment({"UNDERSTUDY_HOME": str(home / "home")}))
    assert verify_release(str(place), keys).holds
    assert not list((home / "releases" / "clinic").glob(".parts*"))
    assert [fact.rows for fact in release.manifest.tables] == [each.num_rows for each in release.tables.values()]


def test_parts_of_families_go_into_a_real_postgresql(fitted: Synthesizer, warehouse: Warehouse, tmp_path: Path) -> None:
    release = fitted.release(ROOTS)
    there = PublishSpec(to=warehouse.uri, table=f"{warehouse.schema}.clinic")
    open_target(fitted.spec.model_copy(update={"publish": there}), tmp_path).publish(release.prepared)
    assert len(release.prepared.rows.sizes) == 3
    stored = stored_release(f"{warehouse.uri}#{warehouse.schema}.clinic").tables()
    assert all(stored[name].equals(rows) for name, rows in release.tables.items())
    orphans = "SELECT count(*) FROM clinic_drugs WHERE visit_id NOT IN (SELECT visit_id FROM clinic_visits)"
    assert warehouse.rows(orphans) == [(0,)]
    keys = warehouse.rows("SELECT count(*), count(DISTINCT patient_id) FROM clinic_patients")
    assert keys == [(ROOTS, ROOTS)]


def test_a_flat_table_keeps_its_entities_in_parts(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    who = np.sort(rng.integers(0, 300, 900))
    days = pa.array(np.datetime64("2020-01-01") + rng.integers(0, 365, 900))
    wards = np.array(["a", "b"])[rng.integers(0, 2, 900)]
    table = pa.table({"patient_id": who, "sex": np.array(["f", "m"])[who % 2], "ward": wards, "on": days})
    spec = mapping(FLAT, 50)
    spec["columns"] = {"patient_id": {"type": "identifier", "action": "surrogate"}, **spec["columns"]}
    one = Synthesizer(spec, cap=(60, "1e-5"), home=tmp_path).fit(table)
    found, known = made(one, tmp_path / "parts"), one._require_fit()
    assert isinstance(found, Synthetic)
    assert len(found.parts) == 3
    assert all(line.holds for line in require_sound(found, known.measured, known.planned, ROOTS))
    frame = found.table.to_pandas()
    by_entity = frame.groupby("patient_id")
    assert by_entity.ngroups == ROOTS
    assert by_entity.sex.nunique().max() == 1
    assert by_entity.on.is_monotonic_increasing.all()
    assert by_entity.size().max() <= 4
