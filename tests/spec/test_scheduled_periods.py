"""A period follows from the scheduled time and the zone, and from nothing else."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import SPEC
from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.periods import KINDS, bounds, fill, has_placeholders, label, values_at
from understudy.pipelines.spec.reading import parse_spec

OCTOBER = dt.datetime(2026, 10, 31, 23, 30, tzinfo=dt.UTC)
TEMPLATE = SPEC.replace('"2026-10"', '"{{ month }}"')


def test_every_kind_of_period() -> None:
    values = values_at(dt.date(2026, 1, 1))
    assert values["day"] == "2026-01-01"
    assert values["week"] == "2026-W01"
    assert (values["month"], values["month_start"], values["month_end"]) == ("2026-01", "2026-01-01", "2026-01-31")
    assert (values["quarter"], values["quarter_end"]) == ("2026-Q1", "2026-03-31")
    assert (values["last_month"], values["last_quarter"], values["last_year"]) == ("2025-12", "2025-Q4", "2025")
    assert (values["last_month_start"], values["last_month_end"]) == ("2025-12-01", "2025-12-31")
    assert values_at(dt.date(2028, 3, 1))["last_month_end"] == "2028-02-29"


@given(st.sampled_from(KINDS), st.dates(dt.date(1990, 1, 1), dt.date(2090, 12, 31)))
def test_periods_tile_the_calendar(kind: str, day: dt.date) -> None:
    first, last = bounds(kind, day)
    assert first <= day <= last
    assert bounds(kind, first) == bounds(kind, last) == (first, last)
    before = bounds(kind, first - dt.timedelta(days=1))
    assert before[1] == first - dt.timedelta(days=1)
    assert label(kind, before[0]) != label(kind, first)
    assert label(kind, day) == label(kind, first)


def test_the_zone_decides_where_a_period_ends() -> None:
    assert fill("{{ month }}", OCTOBER) == "2026-10"
    assert fill("{{month}}", OCTOBER, "Europe/Berlin") == "2026-11"
    assert fill({"a": ["{{ last_day }}/{{ year }}", 3, None]}, OCTOBER) == {"a": ["2026-10-30/2026", 3, None]}


def test_a_spec_is_filled_in_before_it_is_checked() -> None:
    text = TEMPLATE.replace("min: 2026-01-01, max: 2026-12-31, bins: month", 'min: "{{ month_start }}", '
                            'max: "{{ month_end }}", bins: day')  # fmt: skip
    spec = parse_spec(text, at=OCTOBER)
    assert spec.source.snapshot == "2026-10"
    assert spec.columns["visited_on"].max == dt.date(2026, 10, 31)  # type: ignore[union-attr]
    assert parse_spec(
        TEMPLATE + 'schedule: {cron: "0 6 1 * *", timezone: Asia/Tokyo}\n', at=OCTOBER
    ).source.snapshot == ("2026-11")


def test_the_same_period_is_the_same_spec_and_another_is_another() -> None:
    early, late = OCTOBER.replace(day=1), OCTOBER
    assert parse_spec(TEMPLATE, at=early).hash == parse_spec(TEMPLATE, at=late).hash == parse_spec(SPEC).hash
    assert parse_spec(TEMPLATE, at=late + dt.timedelta(hours=1)).hash != parse_spec(TEMPLATE, at=late).hash


@pytest.mark.parametrize("name", ["fortnight", "month.__class__", "0", "", "month | upper", "config"])
def test_nothing_but_periods_can_be_filled_in(name: str) -> None:
    with pytest.raises(SpecError, match="is not a period"):
        fill(f"{{{{ {name} }}}}", OCTOBER)


def test_placeholders_are_found_wherever_they_are() -> None:
    assert has_placeholders({"a": [{"b": "x {{ day }}"}]})
    assert not has_placeholders({"a": ["{ day }", 1, None]})
    deep: object = "x"
    for _ in range(100):
        deep = [deep]
    with pytest.raises(SpecError, match="nested"):
        has_placeholders(deep)


def test_unknown_zones_are_refused() -> None:
    for name in ("Mars/Olympus", "../../etc/passwd", "/etc/passwd", ""):
        with pytest.raises(SpecError, match="time zone"):
            parse_spec(TEMPLATE + f'schedule: {{cron: "0 6 1 * *", timezone: "{name}"}}\n')
