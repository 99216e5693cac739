"""Guesses are marked, open columns are to be discovered, and whatever a catalogue says reads back as it was."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.pipelines.discovery.asking import open_columns
from understudy.pipelines.drafting.catalogue import spec_name, table_facts
from understudy.pipelines.drafting.draft import NULL_WORDS, Choices, Draft, draft_table, likely_entities, rows_of
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts
from understudy.pipelines.drafting.writing import open_lines, written
from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.privpgd.options import privpgd_options
from understudy.pipelines.releasing.domains import assumed_spec
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.dialect import CsvDialect
from understudy.pipelines.spec.reading import parse_spec, spec_of
from understudy.pipelines.table.domain import TableDomain

TODAY = dt.date(2026, 11, 18)
ADULT = "age,workclass,fnlwgt,education,marital-status,gender,capital-gain,hours-per-week,native-country,income"


def drafted(columns: list[ColumnFacts], entity: str | None = None) -> Draft:
    facts = TableFacts(tuple(columns), "a test", "table.csv")
    return draft_table(facts, "table", Choices(entity, 1, Decimal(1), Decimal("1e-6"), "table"), TODAY)


def one(column: ColumnFacts) -> tuple[dict[str, object], str]:
    [found] = drafted([column]).columns
    return found.body, found.standing


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("age", {"type": "integer", "min": 0, "max": 120, "bins": 24, "nullable": True}),
        ("patientAge", {"type": "integer", "min": 0, "max": 120, "bins": 24, "nullable": True}),
        ("zip", {"type": "integer", "min": 0, "max": 99_999, "bins": 100, "nullable": True}),
        ("email", {"type": "text", "action": "drop"}),
        ("First Name", {"type": "text", "action": "drop"}),
        ("comments", {"type": "text", "action": "drop"}),
        ("order_id", {"type": "identifier", "action": "drop"}),
        ("table_id", {"type": "identifier", "action": "surrogate"}),
        ("is_smoker", {"type": "boolean", "nullable": True}),
        ("Gift?", {"type": "boolean", "nullable": True}),
        ("Discount %", {"type": "number", "min": 0, "max": 100, "bins": 20, "decimals": 2, "nullable": True}),
        ("birth_date", {"type": "date", "min": dt.date(1900, 1, 1), "max": dt.date(2026, 12, 31), "bins": "year",
                        "nullable": True}),
        ("created_at", {"type": "datetime", "min": dt.datetime(2016, 1, 1), "max": dt.datetime(2027, 1, 1),
                        "bins": "quarter", "nullable": True}),
    ],
)  # fmt: skip
def test_names_are_guessed_and_marked(name: str, told: dict[str, object]) -> None:
    assert one(ColumnFacts(name)) == (told, "guess")


@pytest.mark.parametrize("name", ["workclass", "admission_type_id", "payer_code", "diag_1", "income", "stage", "page"])
def test_names_that_suggest_nothing_stay_open(name: str) -> None:
    assert one(ColumnFacts(name)) == ({"type": "discover"}, "open")


def test_what_a_catalogue_tells_of_an_open_column_is_not_bought() -> None:
    text = ColumnFacts("workclass", "text", nullable=False)
    assert one(text) == ({"type": "category", "values": "discover"}, "open")
    number = ColumnFacts("fnlwgt", "integer", low=0)
    assert one(number) == (
        {"type": "integer", "min": 0, "max": "discover", "bins": "auto", "spikes": "discover", "nullable": True},
        "open",
    )


def test_where_something_is_bought_so_is_what_a_name_suggests_of_an_unknown_type() -> None:
    draft = drafted([ColumnFacts("age"), ColumnFacts("ward"), ColumnFacts("email"), ColumnFacts("height", "number")])
    assert draft.standing("open") == ["age", "ward"]
    assert draft.columns[0].body == {"type": "discover"}
    assert draft.columns[2].body == {"type": "text", "action": "drop"}
    assert draft.columns[3].body["type"] == "number"


def test_what_is_declared_is_believed_before_what_a_name_suggests() -> None:
    age = ColumnFacts("age", "integer", low=18, high=65, nullable=False)
    assert one(age) == ({"type": "integer", "min": 18, "max": 65}, "declared")
    assert one(ColumnFacts("age", "integer", low=18))[0]["min"] == 18
    zip_ = ColumnFacts("zip", "text", values=("A", "B"), enforced=True, nullable=False)
    assert one(zip_) == ({"type": "category", "values": ["A", "B"]}, "declared")


def test_values_that_only_a_test_promises_leave_room_for_others() -> None:
    assert one(ColumnFacts("ward", "text", values=("A",), nullable=False))[0] == {
        "type": "category", "values": ["A"], "other": True,
    }  # fmt: skip


def test_the_draft_of_a_header_can_be_planned_and_names_the_lines_to_fill(tmp_path: Path) -> None:
    (tmp_path / "adult.csv").write_text(ADULT + "\n")
    facts = table_facts(str(tmp_path / "adult.csv"), None, tmp_path)
    assert likely_entities(facts) == []
    name = spec_name(facts, str(tmp_path / "adult.csv"))
    text = written(draft_table(facts, name, Choices(None, 1, Decimal("0.5"), Decimal("1e-7"), name), TODAY))
    spec = parse_spec(text)
    assert (spec.name, spec.privacy.account, spec.source.uri) == ("adult", "adult", "adult.csv")
    assert (spec.privacy.epsilon, spec.privacy.delta) == (Decimal("0.5"), Decimal("1e-7"))
    assert spec.source.snapshot == "2026-11-18"
    lines = text.splitlines()
    assert open_lines(text) == []  # nothing waits for a person
    assert len(open_columns(spec)) == len(spec.columns) == 10
    assert spec.source.csv.nulls[0] == "?"
    assert lines[0] == "# yaml-language-server: $schema=understudy.schema.json"


def test_a_new_spec_asks_for_triples_and_one_that_says_nothing_means_what_it_did() -> None:
    draft = drafted([ColumnFacts("age"), ColumnFacts("smoker", "boolean"), ColumnFacts("ward", values=("A", "B"))])
    spec = parse_spec(written(draft))
    assert spec.method == spec_of(draft.tree()).method
    assert privpgd_options(spec, TableDomain.of(assumed_spec(spec))).marginals == "auto"
    silent = spec_of({key: said for key, said in draft.tree().items() if key != "method"})
    assert privpgd_options(silent, TableDomain.of(assumed_spec(silent))).marginals == "all-2way"


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_what_stands_between_the_names_of_a_header_is_seen_and_can_be_read(mark: str, tmp_path: Path) -> None:
    path = tmp_path / "orders.csv"
    path.write_text(mark.join(["age", '"amount, gross"', "Ordered At"]) + "\n" + mark.join(["40", "1.5", ""]) + "\n")
    facts = table_facts(str(path), None, tmp_path)
    draft = draft_table(facts, "orders", Choices(None, 1, Decimal(1), Decimal("1e-6"), "orders"), TODAY)
    spec = parse_spec(written(draft))
    assert list(spec.columns) == ["age", "amount, gross", "Ordered At"]
    assert "!!" not in written(draft)  # a moment is plain text
    assert spec.source == spec_of(draft.tree()).source
    assert spec.source.csv == CsvDialect(delimiter=mark, nulls=NULL_WORDS)
    with closing(open_source(spec.source, tmp_path)) as source:
        assert source.schema().names == list(spec.columns)


def test_an_entity_by_name_or_by_what_it_points_to() -> None:
    facts = TableFacts((ColumnFacts("patient_nbr"), ColumnFacts("owner", references="customers")), "a test", "t.csv")
    assert likely_entities(facts) == ["owner", "patient_nbr"]
    assert rows_of(facts, "owner") == 4
    assert rows_of(TableFacts((ColumnFacts("user_id", primary=True),), "a test"), "user_id") == 1


def test_the_entity_is_never_modelled_and_must_be_there() -> None:
    draft = drafted([ColumnFacts("age"), ColumnFacts("user_id", values=("a",))], entity="user_id")
    assert draft.columns[1].body == {"type": "identifier", "action": "drop"}
    with pytest.raises(SpecError, match="nearest: user_id"):
        drafted([ColumnFacts("user_id")], entity="userid")


def test_names_no_spec_can_say_are_left_out() -> None:
    draft = drafted([ColumnFacts(name) for name in ("age", "age", "", "a\nb", "x" * 201)])
    assert [column.name for column in draft.columns] == ["age"]
    parse_spec(written(draft))


KINDS = ["unknown", "text", "integer", "number", "boolean", "date", "datetime", "other"]
BOUNDS = st.none() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False) | st.dates()
FACTS = st.builds(
    ColumnFacts,
    name=st.text(max_size=12),
    kind=st.sampled_from(KINDS),
    type_name=st.text(max_size=12),
    nullable=st.none() | st.booleans(),
    comment=st.text(max_size=200),
    values=st.lists(st.text(max_size=6) | st.integers(-5, 5), max_size=4).map(tuple),
    enforced=st.booleans(),
    low=BOUNDS,
    high=BOUNDS,
    decimals=st.none() | st.integers(0, 40),
    primary=st.booleans(),
    unique=st.booleans(),
    references=st.text(max_size=6),
    declared_by=st.lists(st.text(max_size=10), max_size=2).map(tuple),
)


@settings(deadline=None)
@given(st.lists(FACTS, max_size=6), st.text(max_size=300))
def test_whatever_a_catalogue_says_the_draft_is_a_spec_and_reads_back(columns: list[ColumnFacts], said: str) -> None:
    """With one sound column beside, since a spec needs one."""
    sound = ColumnFacts("sound column", "boolean")
    facts = TableFacts((*columns, sound), said, "table.csv", comment=said)
    draft = draft_table(facts, "table", Choices(None, 1, Decimal(1), Decimal("1e-6"), "table"), TODAY)
    text = written(draft)
    assert parse_spec(text).columns == spec_of(draft.tree()).columns


@settings(deadline=None)
@given(st.text(min_size=1, max_size=200))
def test_every_table_has_a_name_that_a_spec_and_an_account_can_have(typed: str) -> None:
    columns = (ColumnFacts("age"),)
    for facts in (TableFacts(columns, "a test", "t.csv"), TableFacts(columns, "a test", "t.csv", table=typed)):
        name = spec_name(facts, typed)
        parse_spec(written(draft_table(facts, name, Choices(None, 1, Decimal(1), Decimal("1e-6"), name), TODAY)))
