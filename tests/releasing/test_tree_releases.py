"""Releases of several tables, and of flat tables that keep entities, from Python to a published directory."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import CliRunner

import understudy
from tests.sources.tree.test_kinds import clinic_of
from tests.trees import CLINIC, FLAT
from understudy import Synthesizer
from understudy.cli.main import main
from understudy.pipelines.errors import OnlyNoise, SpecError, ValidationFailed
from understudy.pipelines.publishing.verifying import stored_release, verify_release
from understudy.pipelines.releasing.checking import require_sound
from understudy.pipelines.releasing.keys import vouched
from understudy.pipelines.releasing.planning import plan_release
from understudy.pipelines.releasing.workspace import Workspace
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.checks import Check, Checks, breaches
from understudy.pipelines.table.synthetic import Synthetic
from understudy.pipelines.table.synthetic_tree import SyntheticTree
from understudy.tasks.engines.expectations import expectations_failed

QUICK = {"epochs": 1, "particles": 200, "device": "cpu"}


def mapping(spec: dict[str, Any], epsilon: float) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in ("source", "publish")}
    privacy = {**kept["privacy"], "epsilon": epsilon}
    return {**kept, "snapshot": "2026-01", "privacy": privacy, "generate": QUICK}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("families")


@pytest.fixture(scope="module")
def fitted(home: Path) -> Synthesizer:
    rows = clinic_of(11)
    frames = {name: pd.DataFrame(table) for name, table in rows.items()}
    return Synthesizer(mapping(CLINIC, 50), cap=(60, "1e-5"), home=home / "home").fit(frames)


@pytest.fixture(scope="module")
def release(fitted: Synthesizer) -> understudy.Release:
    return fitted.release(rows=300)


def test_every_row_leads_to_its_parent_and_keys_are_unique(release: understudy.Release) -> None:
    frames = release.to_pandas()
    assert list(frames) == ["patients", "visits", "drugs"]
    assert len(frames["patients"]) == 300
    assert frames["patients"].patient_id.is_unique
    assert frames["visits"].visit_id.is_unique
    assert set(frames["visits"].patient_id) <= set(frames["patients"].patient_id)
    assert set(frames["drugs"].visit_id) <= set(frames["visits"].visit_id)
    assert frames["visits"].groupby("patient_id").size().max() <= 3
    assert frames["drugs"].groupby("visit_id").size().max() <= 2
    assert frames["visits"].groupby("patient_id").visited_on.is_monotonic_increasing.all()


def test_the_manifest_and_the_card_tell_tables(release: understudy.Release) -> None:
    manifest = release.manifest
    assert [(fact.name, fact.parent, fact.by, fact.max_rows) for fact in manifest.tables] == [
        ("patients", None, None, None),
        ("visits", "patients", "patient_id", 3),
        ("drugs", "visits", "visit_id", 2),
    ]
    assert manifest.rows == sum(fact.rows for fact in manifest.tables)
    assert "visits.ward" in manifest.columns
    assert "one of patients with everything attributed to it" in manifest.guarantee.sentence
    assert '<ul class="tree"><li><div><b><bdi>patients</bdi></b> <span>300 rows' in release.card
    with pytest.raises(SpecError, match="several tables"):
        _ = release.table


def test_it_is_published_whole_and_can_be_checked(release: understudy.Release, home: Path) -> None:
    place = Path(release.save("releases", base=home))
    assert {path.parent.name for path in place.glob("data/*/*.parquet")} == {"patients", "visits", "drugs"}
    assert pq.read_table(place / "data" / "visits").num_rows == release.tables["visits"].num_rows
    assert stored_release(str(place)).tables()["drugs"].equals(release.tables["drugs"])
    keys = vouched(Workspace.from_environment({"UNDERSTUDY_HOME": str(home / "home")}))
    assert verify_release(str(place), keys).holds
    assert "tables" in json.loads((place / "manifest.json").read_text())


def test_evidence_knows_every_column_of_every_table(release: understudy.Release, home: Path, tmp_path: Path) -> None:
    place = Path(release.save("evident", base=home))
    told = CliRunner().invoke(main, ["--home", str(home / "home"), "evidence", str(place), str(tmp_path / "evidence")])
    assert told.exit_code == 0, told.output
    contract = yaml.safe_load((tmp_path / "evidence" / "contract.odcs.yaml").read_text())
    promised = {table["name"]: {each["name"]: each for each in table["properties"]} for table in contract["schema"]}
    assert {name: tuple(columns) for name, columns in promised.items()} == {
        table.name: table.columns for table in release.manifest.tables
    }
    keys = {f"{name}.{column}" for name, each in promised.items() for column, said in each.items() if "unique" in said}
    assert keys == {f"{table.name}.{table.key}" for table in release.manifest.tables if table.key}
    described = json.loads((tmp_path / "evidence" / "croissant.json").read_text())
    assert {each["@id"]: len(each["field"]) for each in described["recordSet"]} == {
        name: len(columns) for name, columns in promised.items()
    }


def test_what_was_measured_travels_and_answers_wherever_it_lies(release: understudy.Release, home: Path) -> None:
    place = Path(release.save("asked", base=home))
    opened = understudy.open_release(str(place))
    for question in ("count by sex", "share(ward = a) by sex", "mean(visits.number) by drugs.drug", "mean(gap)"):
        assert opened.estimate(question) == release.estimate(question)
    assert opened.estimate("mean(age) by ward").answers[0].interval is not None
    assert opened.verdict == release.verdict
    assert opened.manifest.verdict is not None
    assert opened.manifest.verdict.sentence == release.verdict.sentence
    assert "smallest to quote at 10% error" in release.card
    assert opened.manifest.measured.kind == "tree"
    described = json.loads((place / "measured" / "description.json").read_text())
    assert [table["name"] for table in described["tables"]] == ["patients", "visits", "drugs"]
    told = CliRunner().invoke(main, ["ask", str(place), "share(ward = a) by sex", "--json"])
    [first, *_] = json.loads(told.output)["answers"]
    assert first["low"] <= first["estimate"] <= first["high"]
    (place / "measured" / "description.json").write_text(json.dumps({**described, "ticks": 1}))
    with pytest.raises(ValidationFailed, match="changed after publication"):
        understudy.open_release(str(place)).estimate("count")


def test_tables_that_are_noise_are_not_published(home: Path, tmp_path: Path) -> None:
    spec = {**mapping(CLINIC, 0.05), "publish": {"to": str(tmp_path), "refuse_if": {"verdict": "noise"}}}
    frames = {name: pd.DataFrame(table) for name, table in clinic_of(11).items()}
    fitted = Synthesizer(spec, cap=(60, "1e-5"), home=tmp_path / "home").fit(frames)
    with pytest.raises(OnlyNoise, match="is not published: noise"):
        fitted.release(rows=50)


def test_the_same_measurement_gives_the_same_tables(fitted: Synthesizer) -> None:
    first, second = fitted.sample(50), fitted.sample(50)
    assert all(first[name].equals(second[name]) for name in first)


def _spoilt(made: SyntheticTree, table: str, column: str, values: Any) -> SyntheticTree:
    old = made.tables[table]
    place = old.table.column_names.index(column)
    rows = old.table.set_column(place, column, pa.array(values, old.table.schema.field(column).type))
    return replace(made, tables={**made.tables, table: Synthetic(rows, old.domain)})


def test_tables_that_do_not_belong_together_are_not_published(fitted: Synthesizer) -> None:
    made, held = fitted._generate(60), fitted._require_fit()
    assert isinstance(made, SyntheticTree)
    assert require_sound(made, held.measured, held.planned, 60)
    visits = made.tables["visits"].rows
    stray = _spoilt(made, "visits", "patient_id", [999] * visits)
    for verdict in (breaches, expectations_failed):
        with pytest.raises(ValidationFailed, match="visits: patient_id names no row of patients"):
            require_sound(stray, held.measured, held.planned, 60, verdict)
    judged: list[str] = []

    def whoever(table: pa.Table, checks: Checks) -> list[Check]:
        judged.extend(table.column_names)
        return breaches(table, checks)

    assert require_sound(made, held.measured, held.planned, 60, whoever)
    assert judged.count("patient_id") == 5  # in two contracts; unique in one, named in and counted in the other
    twice = _spoilt(made, "visits", "visit_id", [1] * visits)
    with pytest.raises(ValidationFailed, match="visit_id: has a value twice"):
        require_sound(twice, held.measured, held.planned, 60)
    other = _spoilt(made, "visits", "ward", ["z"] * visits)
    with pytest.raises(ValidationFailed, match="ward: has a value that is not listed"):
        require_sound(other, held.measured, held.planned, 60)


def test_rows_that_break_a_rule_between_tables_are_not_published(fitted: Synthesizer) -> None:
    made, held = fitted._generate(60), fitted._require_fit()
    rule = {"forbid": {"patients.sex": ["f"], "visits.ward": ["a"]}}
    spec = ReleaseSpec.model_validate({**held.planned.spec.model_dump(by_alias=True), "generate": {"rules": [rule]}})
    assert spec.hash == held.planned.spec.hash
    with pytest.raises(ValidationFailed, match=r"forbidden patients.sex and visits.ward: [1-9]\d* rows break it"):
        require_sound(made, held.measured, plan_release(spec), 60)


def test_rules_between_tables_are_kept_for_free_by_another_release_of_the_same_measurement(
    fitted: Synthesizer, home: Path
) -> None:
    rules = [{"forbid": {"patients.sex": ["f"], "visits.ward": ["a"]}}]
    spec = {**mapping(CLINIC, 50), "generate": {**QUICK, "rules": rules}}
    frames = {name: pd.DataFrame(table) for name, table in clinic_of(11).items()}
    again = Synthesizer(spec, cap=(60, "1e-5"), home=home / "home").fit(frames)
    release = again.release(rows=100)
    seen = release.to_pandas()
    both = seen["visits"].merge(seen["patients"], on="patient_id")
    assert len(both)
    assert not ((both.sex == "f") & (both.ward == "a")).any()
    assert again.spent == ()
    assert "Rule, kept by every row: forbidden patients.sex and visits.ward" in release.card


def test_tables_far_from_what_was_measured_are_not_published(fitted: Synthesizer) -> None:
    made, held = fitted._generate(None), fitted._require_fit()
    assert isinstance(made, SyntheticTree)
    one = _spoilt(made, "patients", "sex", ["f"] * made.tables["patients"].rows)
    with pytest.raises(ValidationFailed, match="too far from its measurement"):
        require_sound(one, held.measured, held.planned)


def test_a_flat_table_keeps_its_entities(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    who = np.sort(rng.integers(0, 300, 900))
    table = pa.table(
        {
            "patient_id": who,
            "sex": np.array(["f", "m"])[who % 2],
            "ward": np.array(["a", "b"])[rng.integers(0, 2, 900)],
            "on": pa.array(np.datetime64("2020-01-01") + rng.integers(0, 365, 900)),
        }
    )
    spec = mapping(FLAT, 50)
    spec["columns"] = {"patient_id": {"type": "identifier", "action": "surrogate"}, **spec["columns"]}
    release = understudy.synthesize(table, spec, cap=(60, "1e-5"), home=tmp_path)
    frame = release.to_pandas()
    assert release.estimate("share(ward = a) by sex").answers[0].interval is not None
    assert (
        "were not measured together" in release.estimate("count by sex, ward where on > 2020-06-01").answers[0].reason
    )
    assert release.manifest.tables == ()
    by_entity = frame.groupby("patient_id")
    assert by_entity.sex.nunique().max() == 1
    assert by_entity.on.is_monotonic_increasing.all()
    assert 1.5 < by_entity.size().mean() < 4.5
    assert by_entity.size().max() <= 4
