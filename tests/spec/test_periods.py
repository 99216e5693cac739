"""Only a period's own label names it, and a spec says so when it is read."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import SPEC
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.periods import KINDS, bounds, is_label, label, period_named
from understudy.pipelines.spec.reading import parse_spec

ROLLING = SPEC + "rolling: {period: month, entities: disjoint}\n"
LABELS = {"day": "2026-10-05", "week": "2026-W41", "month": "2026-10", "quarter": "2026-Q4", "year": "2026"}


def rolling(period: str, snapshot: str, more: str = "") -> ReleaseSpec:
    return parse_spec(SPEC.replace('"2026-10"', f'"{snapshot}"') + f"rolling: {{period: {period}{more}}}\n")


@given(st.sampled_from(KINDS), st.dates(dt.date(1, 1, 1), dt.date(9999, 12, 26)))
@example("week", dt.date(1, 1, 1))
@example("year", dt.date(9999, 1, 1))
@example("month", dt.date(9999, 12, 1))
def test_a_label_is_read_back(kind: str, day: dt.date) -> None:
    period = period_named(kind, label(kind, day))
    assert (period.first, period.last) == bounds(kind, day)
    assert period.label == label(kind, day)


@given(st.sampled_from(KINDS), st.text("0123456789-WQ+ T:Zé٣\n", max_size=12))
def test_what_is_read_is_the_label_letter_by_letter(kind: str, text: str) -> None:
    if is_label(kind, text):
        assert period_named(kind, text).label == text


@pytest.mark.parametrize("period", KINDS)
def test_one_kind_of_period_does_not_take_the_labels_of_another(period: str) -> None:
    for kind, text in LABELS.items():
        if kind == period:
            assert rolling(period, text).period == period_named(kind, text)
        else:
            with pytest.raises(SpecError, match=f"names no {period}") as refused:
                rolling(period, text)
            assert LABELS[period] in refused.value.fix


@pytest.mark.parametrize(
    ("period", "snapshot"),
    [
        ("month", "2026-1"),
        ("month", "2026-13"),
        ("month", "2026-00"),
        ("month", "0000-10"),
        ("month", "2026-10-corrected"),
        ("month", "2026-10@2026-11"),
        ("month", "2026/10"),
        ("month", "\\uff12026-10"),
        ("week", "2026-W53x"),
        ("week", "2025-W53"),
        ("week", "2026-W00"),
        ("week", "9999-W52"),
        ("week", "2026-41"),
        ("quarter", "2026-Q5"),
        ("quarter", "2026-Q04"),
        ("day", "2026-02-29"),
        ("day", "20261005"),
        ("year", "26"),
        ("year", "+2026"),
    ],
)
@pytest.mark.parametrize("entities", ["recurring", "disjoint"])
def test_every_other_text_is_refused_when_the_spec_is_read(period: str, snapshot: str, entities: str) -> None:
    with pytest.raises(SpecError, match=f"names no {period}"):
        rolling(period, snapshot, f", entities: {entities}")


def test_blanks_around_a_label_are_no_other_spec() -> None:
    assert rolling("month", " 2026-10 ").hash == rolling("month", "2026-10").hash


def test_a_release_that_is_not_rolling_names_its_snapshots_freely() -> None:
    assert parse_spec(SPEC.replace('"2026-10"', '"after the merger"')).period is None


def test_a_placeholder_is_filled_in_before_it_is_judged() -> None:
    at = dt.datetime(2026, 10, 5, tzinfo=dt.UTC)
    text = SPEC.replace('"2026-10"', '"{{ last_month }}"') + "rolling: {period: month}\n"
    assert parse_spec(text, at=at).source.snapshot == "2026-09"
    with pytest.raises(SpecError, match="names no month"):
        parse_spec(text.replace("last_month", "day"), at=at)


def test_what_older_specs_are_called_does_not_change() -> None:
    """Hashes of 7b5a274: charges and measurements in ledgers are found by them."""
    assert parse_spec(SPEC).hash == "a3502e052633d91ad97b0ca07b5c1706ed65f4ea03ca05a5e0987eb4c39284cb"
    assert parse_spec(ROLLING).hash == parse_spec(SPEC).hash


def test_the_column_that_selects_the_rows_is_part_of_what_is_measured() -> None:
    plain = rolling("month", "2026-10").hash
    by_visit = rolling("month", "2026-10", ", column: visited_on").hash
    by_bill = rolling("month", "2026-10", ", column: billed_on").hash
    assert len({plain, by_visit, by_bill}) == 3
    assert rolling("month", "2026-10", ", column: visited_on, warn_below: 9").hash == by_visit
    quarter = parse_spec(
        SPEC.replace('"2026-10"', '"2026"') + "rolling: {period: year, column: visited_on}\n"
    ).model_copy(update={"source": rolling("month", "2026-10").source})
    assert quarter.hash != by_visit  # the same snapshot text would select other rows


def test_a_spec_of_an_older_version_still_loads() -> None:
    """As a manifest or a stored measurement remembers it: no column, and a snapshot that is no label."""
    tree = parse_spec(SPEC.replace('"2026-10"', '"october"')).model_dump(mode="json")
    tree["rolling"] = {"period": "month", "entities": "disjoint", "warn_below": 3}
    spec = ReleaseSpec.model_validate(tree)
    assert spec.rolling is not None
    assert spec.rolling.column is None
    with pytest.raises(SpecError):
        _ = spec.period
