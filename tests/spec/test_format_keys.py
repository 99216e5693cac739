"""Format keys in specs: read from YAML, told by `plan`, and nothing to specs that do not have them."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

from understudy.cli.planning import cautions
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.advice import format_advice
from understudy.pipelines.spec.dates import DatetimeColumn
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import load_spec, parse_spec
from understudy.pipelines.table.domain import TableDomain

SPEC = """
name: trips
source: {{uri: trips.{kind}, snapshot: "1"}}
privacy: {{account: a, epsilon: 1, delta: 1e-6}}
columns:
  day: {{type: date, min: 2014-01-01, max: 2014-12-31{day}}}
  fare: {{type: number, min: 0, max: 100{fare}}}
  kept: {{type: boolean, nullable: true{kept}}}
  zone: {{type: category, values: {values}}}
publish: {{to: releases}}
"""
LOOKED_UP = "zone: {type: category, values: [harbour]}\n  region: {from: zone, table: FILE}"
OLD_HASH = "90f410757d5ba41bdf357547c57d0d64e18ecbb0ac55ade2a617be5584938ac7"
"""Of the plain spec below at commit 7b5a274, where no format could be declared."""


def spec(kind: str = "csv", day: str = "", fare: str = "", kept: str = "", values: str = "[1, 2, 3]") -> ReleaseSpec:
    return parse_spec(SPEC.format(kind=kind, day=day, fare=fare, kept=kept, values=values))


def test_a_spec_without_formats_keeps_its_hash() -> None:
    assert spec().hash == OLD_HASH
    assert spec(day=", format: []", fare=", decimal: '.', units: []", kept=', "true": []').hash == OLD_HASH


def test_formats_are_part_of_what_is_measured() -> None:
    others = [spec(day=", day_first: true"), spec(day=", day_first: false"), spec(fare=", thousands: ','"),
              spec(kept=", true: [ja]"), spec(kept=", false: [ja]"), spec(values="[1, 2]")]  # fmt: skip
    assert len({one.hash for one in others} | {OLD_HASH}) == len(others) + 1


def test_true_and_false_are_keys_in_yaml_too() -> None:
    quoted, plain = spec(kept=', "true": [J], "false": [N]'), spec(kept=", true: [J], false: [N]")
    assert quoted.hash == plain.hash
    assert plain.columns["kept"].form.true == ("j",)  # type: ignore[union-attr]


def test_plan_tells_which_formats_of_a_text_source_are_open() -> None:
    open_, closed = spec(), spec(day=", format: '%d.%m.%Y'", fare=", decimal: ','")
    dates, numbers = format_advice(open_)
    assert dates.startswith("day:")
    assert "01/04/2014" in dates
    assert numbers.startswith("fare:")
    assert set(format_advice(open_)) <= set(cautions(open_))
    assert format_advice(closed) == []
    assert format_advice(spec(kind="parquet")) == []


def test_a_range_is_the_list_of_its_numbers() -> None:
    assert spec(values="{from: 1, to: 3}").hash == spec().hash
    assert TableDomain.of(spec(values="{from: -2, to: 265}")).sizes[3] == 268


@pytest.mark.parametrize(
    "wrong", ["{from: 3, to: 1}", "{from: 1}", "{from: 1, to: 20000}", "{from: a, to: b}", "{file: x}"]
)
def test_a_range_that_is_none_is_refused(wrong: str) -> None:
    with pytest.raises(SpecError, match=r"columns\.zone"):
        spec(values=wrong)


def written(place: Path, values: str, **files: str) -> ReleaseSpec:
    for name, text in files.items():
        (place / name.replace("_", ".")).write_text(text, encoding="utf-8")
    path = place / "spec.yaml"
    path.write_text(SPEC.format(kind="csv", day="", fare="", kept="", values=values))
    return load_spec(path)


def test_a_file_of_values_is_part_of_the_spec_by_what_it_holds(tmp_path: Path) -> None:
    first = written(tmp_path, "{file: zones.csv, column: id}", zones_csv="name,id\nA,1\nB,2\nC,3\n")
    renamed = written(tmp_path, "{file: other.txt}", other_txt="1\n2\n\n3\n")
    changed = written(tmp_path, "{file: zones.csv, column: id}", zones_csv="name,id\nA,1\nB,2\nC,4\n")
    assert first.hash == renamed.hash == OLD_HASH
    assert changed.hash != first.hash
    words = written(tmp_path, "{file: zones.csv, column: name}")
    assert words.columns["zone"].values == ("A", "B", "C")  # type: ignore[union-attr]
    padded: Any = written(tmp_path, "{file: zip.txt}", zip_txt="01\n02\n").columns["zone"]
    assert padded.values == ("01", "02")


def test_a_file_of_values_that_is_not_there_is_told_by_its_column(tmp_path: Path) -> None:
    for wrong in ("{file: none.csv, column: id}", "{file: spec.yaml, column: id}", "{file: 7}", "{file: a, col: b}"):
        with pytest.raises(SpecError, match=r"columns\.zone\.values"):
            written(tmp_path, wrong)


@pytest.mark.parametrize("uri", ["trips.csv", "data", "file://{here}/data/trips.csv", "data/"])
@pytest.mark.parametrize("column", ["zone: {type: category, values: {file: FILE, column: zone}}", LOOKED_UP])
def test_the_private_table_is_no_public_file(uri: str, column: str, tmp_path: Path) -> None:
    """Its values would be categories that nobody paid for."""
    (tmp_path / "data").mkdir()
    for place in ("trips.csv", "data/trips.csv"):
        (tmp_path / place).write_text("zone,region\nharbour,north\n")
    (tmp_path / "linked.csv").symlink_to(tmp_path / "data" / "trips.csv")
    inside = "trips.csv" if uri == "trips.csv" else "linked.csv"
    spec = tmp_path / "spec.yaml"
    spec.write_text(
        f"name: t\nsource: {{uri: '{uri.format(here=tmp_path)}', snapshot: s}}\n"
        "privacy: {account: a, epsilon: 1, delta: 1e-6}\npublish: {to: out}\n"
        f"columns:\n  {column.replace('FILE', inside)}\n"
    )
    with pytest.raises(SpecError, match="is the private table, or lies in it") as caught:
        load_spec(spec)
    assert "harbour" not in str(caught.value)


def test_bounds_and_spikes_with_an_offset_are_turned_to_the_clock_of_the_column() -> None:
    column = DatetimeColumn.model_validate(
        {"type": "datetime", "zone": "Europe/Berlin", "min": "2026-01-01T00:00:00Z", "max": "2026-12-31",
         "spikes": ["2026-07-01T00:00:00+00:00"]}
    )  # fmt: skip
    assert (column.min, column.spikes) == (dt.datetime(2026, 1, 1, 1), (dt.datetime(2026, 7, 1, 2),))
