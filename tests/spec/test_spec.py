"""What a spec accepts, what it refuses and how it says so."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.examples import SPEC
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import load_spec, parse_spec
from understudy.pipelines.table.domain import TableDomain


def refused(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        parse_spec(text, "clinic.yaml")
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_the_example_is_accepted_and_its_schema_is_valid_json() -> None:
    spec = parse_spec(SPEC)
    assert spec.privacy.unit.max_rows == 4
    assert "columns" in ReleaseSpec.model_json_schema()["properties"]


def test_the_hash_is_stable_and_ignores_what_cannot_change_a_measurement() -> None:
    base = parse_spec(SPEC)
    assert (
        base.hash == "a3502e052633d91ad97b0ca07b5c1706ed65f4ea03ca05a5e0987eb4c39284cb"
    )  # a change here would charge every user again
    same = [
        SPEC.replace("epsilon: 1.0", "epsilon: 1"),
        SPEC.replace("delta: 1e-6", "delta: 0.000001"),
        SPEC.replace("releases/", "elsewhere/"),
        SPEC + "compute: {engine: dask}\n",
        SPEC + "generate: {epochs: 3}\n",
        yaml.safe_dump(yaml.safe_load(SPEC), sort_keys=False),
    ]
    assert {parse_spec(text).hash for text in same} == {base.hash}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("epsilon: 1.0", "epsilon: 1.1"),
        ('snapshot: "2026-10"', 'snapshot: "2026-11"'),
        ("max_rows: 4", "max_rows: 5"),
        ("bins: 32, nullable", "bins: 31, nullable"),
        ("all-2way", "all-1way"),
        ("add_remove", "replace_one"),
        ("  smoker: {type: boolean, nullable: true}\n", ""),
    ],
)
def test_the_hash_changes_with_anything_that_changes_the_measurement(old: str, new: str) -> None:
    assert old in SPEC
    assert parse_spec(SPEC.replace(old, new)).hash != parse_spec(SPEC).hash


def test_the_order_of_columns_is_part_of_the_measurement() -> None:
    """Stored counts refer to columns by position: a spec with another order must not find them."""
    lines = SPEC.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("  age:"))
    lines[first], lines[first + 1] = lines[first + 1], lines[first]
    assert parse_spec("\n".join(lines)).hash != parse_spec(SPEC).hash


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("nullable: true", "nulable: true", ["line 8", "columns.charge.nulable", "unknown key", "decimals"]),
        ("type: integer", "type: intger", ["line 6", "columns.age", "unknown column type", "boolean"]),
        ("min: 0, max: 110", "min: 110, max: 0", ["columns.age", "swap"]),
        ("min: 0, max: 20000", "min: 5, max: 5", ["columns.charge", "below max"]),
        ("min: 0, max: 20000", "min: -1.7e308, max: 1.7e308", ["columns.charge", "wider than any number"]),
        ("values: [F, M, X]", "values: [F, M, F]", ["columns.sex.values", "more than once", "F"]),
        ("values: [F, M, X]", "values: []", ["columns.sex.values"]),
        ("epsilon: 1.0", "epsilon: -1", ["privacy.epsilon"]),
        ("delta: 1e-6", "delta: 2", ["privacy.delta"]),
        ("account: clinic, ", "", ["line 4", "privacy.account", "missing"]),
        ("name: clinic-visits", "name: ../../etc", ["name", "lower-case"]),
        ("bins: 32}", "bins: 0}", ["columns.age.bins"]),
        ("bins: month", "bins: fortnight", ["columns.visited_on.bins"]),
        ("{entity: patient_id, max_rows: 4}", "{max_rows: 4}", ["privacy.unit", "entity"]),
        ("entity: patient_id", "entity: age", ["entity column 'age'", "identifier"]),
        ("name: privpgd", "name: gan", ["method.name"]),
    ],
)
def test_mistakes_are_named_with_their_line_and_fix(old: str, new: str, told: list[str]) -> None:
    assert old in SPEC
    message = refused(SPEC.replace(old, new, 1))
    assert all(part in message for part in told), message
    assert "Traceback" not in message


def test_valid_keys_are_named_of_parts_that_may_be_left_out_too() -> None:
    assert "warn_below" in refused(SPEC + "rolling: {period: month, every: 2}\n")
    trees = "name: t\nsource: {uri: x.csv, snapshot: a}\nprivacy: {account: a, unit: p, epsilon: 1, delta: 1e-6}\n"
    told = refused(trees + "tables: {p: {source: {snapshot: b}, columns: {}}, q: {columns: {}}}\n")
    assert "tables.p.source.snapshot: unknown key; valid ones: uri, table" in told


def with_country(values: str) -> str:
    return SPEC.replace("  smoker:", f"  country: {{type: category, values: {values}}}\n  smoker:")


@pytest.mark.parametrize("words", [["DK", "NO", "SE"], ["no", "yes"], ["on", "off"], ["010", "20"], ["12:30", "0x1F"]])
def test_words_stay_words(words: list[str]) -> None:
    """YAML 1.1 reads Norway as false and 010 as eight: no row would match, and every one would be counted elsewhere."""
    spec = parse_spec(with_country(f"[{', '.join(words)}], nullable: yes"))
    column = spec.columns["country"]
    assert column.type == "category"
    assert [str(value) for value in column.values] == words
    assert column.nullable


@pytest.mark.parametrize("value", ["true", "FALSE", "1.0"])
def test_values_that_look_like_words_but_are_none_are_refused(value: str) -> None:
    assert "quotes" in refused(with_country(f"[a, {value}]"))
    assert parse_spec(with_country(f"[a, '{value}']"))


def test_duplicate_columns_are_refused_not_merged() -> None:
    repeated = SPEC.replace("  sex:", "  age: {type: boolean}\n  sex:")
    message = refused(repeated)
    assert "'age' is given twice" in message
    assert "line 7" in message


@pytest.mark.parametrize(
    "text",
    ["", "just text", "[1, 2]", "a: [", "!!python/object/apply:os.system ['true']", "name: &a [*a]", "\0"],
)
def test_what_is_no_spec_is_refused(text: str) -> None:
    refused(text)


def test_files_that_cannot_be_specs(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cannot read"):
        load_spec(tmp_path / "missing.yaml")
    with pytest.raises(SpecError, match="cannot read"):
        load_spec(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SpecError, match="UTF-8"):
        load_spec(tmp_path / "binary.yaml")
    (tmp_path / "huge.yaml").write_bytes(b"#" * 1_000_001)
    with pytest.raises(SpecError, match="at most"):
        load_spec(tmp_path / "huge.yaml")


def test_domain_lays_out_bins_other_and_null() -> None:
    domain = TableDomain.of(parse_spec(SPEC))
    age, sex, charge, day, ward, smoker = domain.columns
    assert (age.size, age.edges[0], age.edges[-1]) == (32, 0, 111)
    assert (sex.size, sex.null_code, sex.fallback_code) == (3, None, 0)
    assert (charge.size, charge.null_code, charge.log_scale) == (33, 32, True)
    assert day.code_labels()[:2] == ["2026-01-01", "2026-02-01"]
    assert day.size == 12
    assert (ward.other_code, ward.null_code, ward.fallback_code) == (3, None, 3)
    assert (smoker.size, smoker.missing_code) == (3, 2)
    assert domain.surrogates == ("visit_id",)
    assert "patient_id" not in domain.names


def test_bins_cover_the_bounds_exactly_and_none_is_empty() -> None:
    for column in TableDomain.of(parse_spec(SPEC)).columns:
        steps = [high - low for low, high in zip(column.edges[:-1], column.edges[1:], strict=True)]
        assert all(step > 0 for step in steps), column.name
