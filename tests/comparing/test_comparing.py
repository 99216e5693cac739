"""`understudy compare`: read through the spec's bounds, kept where only the owner can look, marked, and no gate."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path

import numpy as np
import pytest

from tests.cli.commands import Place

SPEC = """\
name: visits
source: {uri: visits.csv, snapshot: "2026-10"}
privacy: {account: clinic, unit: {entity: who, max_rows: 2}, epsilon: 20, delta: 1e-6}
columns:
  who: {type: identifier, action: drop}
  seen: {type: date, min: 2026-01-01, max: 2026-12-31, bins: month}
  charge: {type: number, min: 0, max: 100, bins: 10, spikes: [0], nullable: true}
  ward: {type: category, values: [a, b, c]}
  ill: {type: boolean}
generate: {epochs: 2, particles: 2000, device: cpu}
publish: {to: out}
"""
CANARY = "31.415926"


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    made = Place(tmp_path_factory.mktemp("clinic"))
    rng = np.random.default_rng(8)
    lines = ["who,seen,charge,ward,ill"]
    for row in range(3000):
        ill = rng.random() < 0.5
        charge = 0 if rng.random() < 0.3 else round(float(rng.uniform(0, 50) + 40 * ill), 2)
        day = f"2026-{rng.integers(1, 13):02d}-{rng.integers(1, 28):02d}"
        lines.append(f"p{row % 1000},{day},{CANARY if row == 7 else charge},{'abc'[int(2 * ill)]},{ill}")
    (made.folder / "visits.csv").write_text("\n".join(lines) + "\n")
    (made.folder / "spec.yaml").write_text(SPEC)
    assert made.run("ledger", "open", "clinic", "--epsilon", "50", "--delta", "1e-6", "--entity", "who",
                    "--max-rows", "2").code == 0  # fmt: skip
    released = made.run("release", "spec.yaml")
    assert released.code == 0, released.text
    return made


@pytest.fixture(scope="module")
def compared(place: Place) -> Path:
    before = place.run("ledger", "history", "clinic").out
    told = place.run("compare", "spec.yaml", "out/visits", "--label", "ill")
    assert told.code == 0, told.text
    assert "CONFIDENTIAL" in told.text
    assert place.run("ledger", "history", "clinic").out == before  # it spends nothing
    page = re.search(r"page +(\S+)", told.text)
    assert page is not None
    return Path(page.group(1))


def test_it_says_what_the_copy_gets_wrong(compared: Path) -> None:
    found = json.loads((compared.parent / "comparison.json").read_text())
    assert found["real_rows"] == 2000  # two rows of each of a thousand
    assert len(found["columns"]) == 4
    assert len(found["pairs"]) == 6
    assert len(found["triples"]) == 4
    assert all(each["distance"] < 0.1 for each in found["pairs"])
    [held] = [remark for remark in found["remarks"] if "intervals of counts held" in remark]
    assert 0.8 < float(held.split(" in ")[1].split("%")[0]) / 100 <= 1  # of some 200 cells, 95% are expected
    [charge] = [each for each in found["numbers"] if each["column"] == "charge"]
    [spike] = charge["spikes"]
    assert abs(spike["real"] - 0.3) < 0.05
    assert abs(spike["synthetic"] - spike["real"]) < 0.05
    [model] = found["downstream"]
    assert model["score"] == "AUC"
    assert model["trained_on_real"] > 0.85
    assert model["trained_on_synthetic"] > 0.8
    assert 0.4 < found["detection"]["auc"] <= 1


def test_only_its_owner_can_open_it_and_both_files_say_what_they_are(place: Place, compared: Path) -> None:
    folder = compared.parent
    assert folder.is_relative_to(place.home / "confidential")
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert sorted(path.name for path in folder.iterdir()) == ["comparison.html", "comparison.json"]
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert "CONFIDENTIAL" in path.read_text()
        assert "computed from the private rows without noise" in path.read_text()


def test_it_publishes_nothing(place: Place, compared: Path) -> None:
    assert not list((place.folder / "out").rglob(f"{compared.stem}*"))


def test_it_is_not_written_where_releases_are_published(place: Place) -> None:
    told = place.run("compare", "spec.yaml", "out/visits", "--to", "out/inner")
    assert (told.code, "confidential" in told.text) == (2, True), told.text
    assert not (place.folder / "out" / "inner").exists()


def test_a_release_of_another_spec_is_refused(place: Place) -> None:
    (place.folder / "other.yaml").write_text(SPEC.replace("bins: 10", "bins: 11"))
    told = place.run("compare", "other.yaml", "out/visits")
    assert (told.code, "another spec" in told.text) == (2, True), told.text


def test_no_private_value_is_told_when_it_fails(place: Place) -> None:
    (place.folder / "broken").mkdir()
    (place.folder / "broken" / "visits.csv").write_text(f"who,charge\np1,{CANARY}\n")
    (place.folder / "broken" / "spec.yaml").write_text(SPEC)
    told = place.run("compare", "broken/spec.yaml", "out/visits")
    assert told.code != 0
    assert CANARY not in told.text, told.text
    assert "p1" not in told.text, told.text
