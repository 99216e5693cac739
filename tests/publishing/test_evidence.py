"""Evidence of a release: from its manifest alone, for every standard, and none for a release that was changed."""

from __future__ import annotations

import csv
import json
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import yaml
from click.testing import CliRunner

import understudy
from tests.pages import faults, read_page
from understudy.cli.main import main
from understudy.pipelines.drafting.contracts import odcs

HOSTILE = "<script>alert(1)</script>"
SPEC: dict[str, Any] = {
    "name": "visits",
    "privacy": {
        "account": "clinic",
        "epsilon": 1.0,
        "delta": 1e-6,
        "unit": {"entity": "who", "max_rows": 2},
        "quality": 0.02,
    },
    "columns": {
        "who": {"type": "identifier", "action": "drop"},
        "visit": {"type": "identifier", "action": "surrogate"},
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
        "=1+1": {"type": "category", "values": ["a", "b"], "other": True},
        HOSTILE: {"type": "boolean", "nullable": True},
    },
    "generate": {"epochs": 1, "particles": 200, "device": "cpu"},
}
ROWS = 400
PRIVATE = pa.table(
    {
        "who": np.arange(ROWS) // 2,
        "visit": np.arange(ROWS),
        "age": np.arange(ROWS) % 100,
        "=1+1": ["a", "b"] * (ROWS // 2),
        HOSTILE: [True, None] * (ROWS // 2),
    }
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A home, and a release of it."""
    base = tmp_path_factory.mktemp("evidence")
    release = understudy.synthesize(PRIVATE, {**SPEC, "snapshot": "2026-10"}, cap=(5, 1e-6), home=base / "home")
    return base / "home", Path(release.save("releases", base=base))


@pytest.fixture(scope="module")
def written(place: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    to = tmp_path_factory.mktemp("written") / "evidence"
    code, output = _run(place[0], place[1], to, "--curator", "St. Example", "--license", "https://example.org/terms")
    assert code == 0, output
    return to


def _run(home: Path, release: Path, to: Path, *more: str) -> tuple[int, str]:
    words = ["--home", str(home), "evidence", str(release), str(to), *more]
    result = CliRunner().invoke(main, words)
    assert "Traceback" not in result.output
    return result.exit_code, result.output


def test_every_question_has_evidence_or_says_that_it_is_not_covered(written: Path) -> None:
    rows = list(csv.DictReader(StringIO((written / "nist-sp-800-226.csv").read_text())))
    assert {row["topic"] for row in rows} == {
        "Guarantee", "Algorithms", "Utility and bias", "Trust model", "Implementation", "Security", "Collection",
    }  # fmt: skip
    assert all(len(row["evidence"]) > 10 for row in rows)
    assert [row["topic"] for row in rows if row["evidence"].startswith("not covered")] == [
        "Utility and bias",
        "Security",
        "Collection",
    ]


def test_numbers_are_those_of_the_manifest(written: Path, place: tuple[Path, Path]) -> None:
    manifest = json.loads((place[1] / "manifest.json").read_text())
    loss = yaml.safe_load((written / "registry.yaml").read_text())["deployment"]["privacy_loss"]
    assert loss["privacy_parameters"] == {key: manifest["guarantee"][key] for key in ("epsilon", "delta")}
    assert loss["privacy_unit"] == "User-level"
    errors = list(csv.DictReader(StringIO((written / "group-errors.csv").read_text())))
    noise = {fact["query"]: fact["std"] for fact in manifest["noise"]}
    assert errors
    for error in errors:
        query = error["counts_by"].removeprefix("'")
        assert float(error["std_entities"]) == pytest.approx(noise[query], rel=1e-3)
        assert float(error["part_of_500"]) == pytest.approx(noise[query] / 500, rel=1e-3)
    assert [float(error["std_entities"]) for error in errors] == sorted(
        (float(error["std_entities"]) for error in errors), reverse=True
    )


def test_the_contract_is_read_back_as_what_the_table_is(written: Path) -> None:
    """By the reader of contracts that `understudy init` has."""
    contract = yaml.safe_load((written / "contract.odcs.yaml").read_text())
    assert odcs.is_one(contract)
    [table] = odcs.tables(contract).values()
    found = {column.name: column for column in table.columns}
    assert list(found) == ["visit", "age", "=1+1", HOSTILE]
    assert found["visit"].primary
    assert (found["age"].kind, found["age"].low, found["age"].high) == ("integer", 0, 110)
    assert tuple(found["=1+1"].values or ()) == ("a", "b", "other")
    assert found[HOSTILE].kind == "boolean"


def test_croissant_describes_every_column_and_the_hash_of_every_file(written: Path, place: tuple[Path, Path]) -> None:
    document = json.loads((written / "croissant.json").read_text())
    manifest = json.loads((place[1] / "manifest.json").read_text())
    hashes = {file["path"]: file["sha256"] for file in manifest["files"] if file["path"].startswith("data/")}
    assert {file["@id"]: file["sha256"] for file in document["distribution"]} == hashes
    for file in document["distribution"]:
        assert (written / file["contentUrl"]).resolve().is_file()
    [records] = document["recordSet"]
    assert [field["name"] for field in records["field"]] == manifest["columns"]
    assert document["license"] == "https://example.org/terms"


def test_croissant_is_accepted_by_its_own_library(written: Path) -> None:
    mlcroissant = pytest.importorskip("mlcroissant", reason="mlcroissant is not installed: `make evidence-check` is")
    dataset = mlcroissant.Dataset(str(written / "croissant.json"))
    assert not dataset.metadata.ctx.issues.errors


def test_the_page_runs_nothing_and_links_to_its_neighbours_alone(written: Path) -> None:
    page = read_page((written / "evidence.html").read_text())
    assert faults(page) == []
    files = [each.attributes["href"] for each in page.all("a") if not each.attributes["href"].startswith("#")]
    assert files
    assert all((written / file).is_file() for file in files)


def test_a_spreadsheet_computes_nothing_of_a_column_name(written: Path) -> None:
    cells = [cell for row in csv.reader(StringIO((written / "group-errors.csv").read_text())) for cell in row]
    assert "'=1+1" in cells
    assert not any(cell.startswith(("=", "@", "+")) for cell in cells)


def test_a_changed_release_has_no_evidence(place: tuple[Path, Path], tmp_path: Path) -> None:
    home, release = place
    copy = tmp_path / release.name
    copy.mkdir()
    for file in release.rglob("*"):
        if file.is_file():
            (copy / file.relative_to(release)).parent.mkdir(parents=True, exist_ok=True)
            (copy / file.relative_to(release)).write_bytes(file.read_bytes())
    (copy / "card.html").write_text("another card")
    code, output = _run(home, copy, tmp_path / "evidence")
    assert code == 5
    assert "does not hold: card.html" in output
    assert not (tmp_path / "evidence").exists()


def test_a_release_whose_signer_is_unknown_says_so(place: tuple[Path, Path], tmp_path: Path) -> None:
    code, output = _run(tmp_path / "other-home", place[1], tmp_path / "evidence")
    assert code == 0
    assert "not signed by a key that is believed here" in output
    rows = csv.DictReader(StringIO((tmp_path / "evidence" / "nist-sp-800-226.csv").read_text()))
    assert any("no signature by a key" in row["evidence"] for row in rows)
