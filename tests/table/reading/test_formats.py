"""Formats: each is read right, refused, or known to be unreadable. None is lost without a word."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from tests.table.coding.strategies import domain_of
from understudy.pipelines.table.coding.decode import decode_column
from understudy.pipelines.table.coding.encode import encode_column
from understudy.pipelines.table.columns import DomainColumn
from understudy.pipelines.table.reading.arrow import readable
from understudy.pipelines.table.reading.values import NULL, UNDERSTOOD, UNLISTED, UNREADABLE, read

BOUNDS: dict[str, dict[str, Any]] = {
    "number": {"min": -2000, "max": 2e9, "bins": 50, "nullable": True},
    "boolean": {"nullable": True},
    "date": {"min": "2005-01-01", "max": "2030-12-31", "bins": "day", "nullable": True},
    "datetime": {"min": "2005-01-01", "max": "2030-12-31", "bins": "day", "nullable": True},
    "category": {"values": ["yes", "NYC", "20140401", "7"], "other": True, "nullable": True},
}
DAY, EVENING = dt.datetime(2014, 4, 1), dt.datetime(2014, 4, 1, 18, 6)


def column_of(type_: str, **declared: Any) -> DomainColumn:
    [column] = domain_of({"x": {"type": type_, **BOUNDS.get(type_, {}), **declared}}).columns
    return column


def reading(values: pa.Array, column: DomainColumn) -> list[Any]:
    """What each value is: a number, a truth, a moment or a word; or its kind."""
    found = read(values, column)
    return [
        _value(number, column) if kind == UNDERSTOOD else ("", "null", "unreadable", "unlisted")[kind]
        for kind, number in zip(found.kinds(column).tolist(), found.numbers.tolist(), strict=True)
    ]


def _value(number: float | int, column: DomainColumn) -> Any:
    match column.kind:
        case "category":
            return column.values[int(number)]
        case "boolean":
            return bool(number)
        case "date":
            return dt.datetime(1970, 1, 1) + dt.timedelta(days=int(number))
        case "datetime":
            return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=int(number))
    return number


def at(hour: int, minute: int = 0, second: int = 0, microsecond: int = 0) -> dict[str, Any]:
    return {"date": DAY, "datetime": dt.datetime(2014, 4, 1, hour, minute, second, microsecond)}


MIDNIGHT = at(0)
UNTOLD: dict[str, dict[str, Any]] = {
    # What each text is in a column of each type that declares nothing; where a type is not named, it is flagged.
    "2014-04-01": MIDNIGHT,
    "2014-4-1": MIDNIGHT,
    "2014/04/01": MIDNIGHT,
    "2014.04.01": MIDNIGHT,
    "20140401": {**MIDNIGHT, "number": 20140401.0, "category": "20140401"},
    "20140401180600": at(18, 6) | {"number": 20140401180600.0},
    "20140401T1806": at(18, 6),
    "20140401T180630Z": at(18, 6, 30),
    "1 Apr 2014": MIDNIGHT,
    "01-Apr-2014": MIDNIGHT,
    "1st April 2014": MIDNIGHT,
    "April 1, 2014": MIDNIGHT,
    "Apr. 1, 2014 6:06 PM": at(18, 6),
    "Tuesday, 1 April 2014": MIDNIGHT,
    "Tue, 01 Apr 2014 18:06:30 GMT": at(18, 6, 30),
    "2014-04-01T18:06": at(18, 6),
    "2014-04-01 18:06:30": at(18, 6, 30),
    "2014-04-01 18:06:30.123456789": at(18, 6, 30, 123456),
    "2014-04-01T18:06:30,5": at(18, 6, 30, 500000),
    "2014-04-01 06:06 PM": at(18, 6),
    "2014-04-01 12:06 a.m.": at(0, 6),
    "2014-04-01T18:06Z": at(18, 6),
    "2014-04-01T18:06+02:00": at(16, 6),
    "2014-04-01T18:06-0530": at(23, 36),
    "2014-04-01 18:06 UTC": at(18, 6),
    # ambiguous or incomplete: the spec has to say
    "01/04/2014": {},
    "04/13/2014": {},
    "01.04.2014": {},
    "04/01/2014 06:06 PM": {},
    "14-04-01": {},
    "2014-04": {},
    "1396375560": {"number": 1396375560.0},
    "1396375560123": {"number": 1396375560123.0},
    "2014-02-30": {},
    "2014-04-01 24:00": {},
    "2014-04-01 18:06 CEST": {},
    # numbers
    "550.29": {"number": 550.29},
    "+550.29": {"number": 550.29},
    "5.5029e2": {"number": 550.29},
    ".5": {"number": 0.5},
    " 7 ": {"number": 7.0},
    "7": {"number": 7.0, "category": "7"},
    "$550.29": {"number": 550.29},
    "-$550.29": {"number": -550.29},
    "550.29 €": {"number": 550.29},
    "£550": {"number": 550.0},
    "(550.29)": {"number": -550.29},
    "($550.29)": {"number": -550.29},
    "550.29-": {"number": -550.29},
    "\N{MINUS SIGN}7": {"number": -7.0},
    "550,29": {},
    "1,109.25": {},
    "1.109,25": {},
    "1 109": {},
    "12%": {},
    "CHF 7": {},
    "NaN": {},
    "inf": {},
    "n/a": {},
    # truths
    "true": {"boolean": True},
    "FALSE": {"boolean": False},
    "yes": {"boolean": True, "category": "yes"},
    "No": {"boolean": False},
    "on": {"boolean": True},
    "OFF": {"boolean": False},
    "t": {"boolean": True},
    "N": {"boolean": False},
    "1": {"number": 1.0, "boolean": True},
    "0": {"number": 0.0, "boolean": False},
    "1.0": {"number": 1.0, "boolean": True},
    "0.00": {"number": 0.0, "boolean": False},
    "ja": {},
    # words
    "NYC": {"category": "NYC"},
    " NYC": {},
    "nyc": {},
    "Ny\N{COMBINING ACUTE ACCENT}": {},
}


@pytest.mark.parametrize("type_", BOUNDS)
def test_every_format_is_read_right_or_flagged_in_every_type(type_: str) -> None:
    column = column_of(type_)
    found = dict(zip(UNTOLD, reading(pa.array(list(UNTOLD)), column), strict=True))
    flag = "unlisted" if type_ == "category" else "unreadable"
    assert found == {text: readings.get(type_, flag) for text, readings in UNTOLD.items()}
    assert len(UNTOLD) >= 40


@pytest.mark.parametrize("blank", ["", "  ", "\t"])
def test_blank_text_is_null_where_no_word_is_asked_for(blank: str) -> None:
    for type_ in ("number", "boolean", "date", "datetime"):
        assert reading(pa.array([blank, "x"]), column_of(type_)) == ["null", "unreadable"]


TOLD: list[tuple[str, dict[str, Any], dict[Any, Any]]] = [
    ("date", {"day_first": True}, {"01/04/2014": DAY, "1.4.2014": DAY, "01-04-2014": DAY, "04/13/2014": "unreadable"}),
    ("date", {"day_first": False}, {"04/01/2014": DAY, "4/1/2014": DAY, "13/04/2014": "unreadable"}),
    ("datetime", {"day_first": False}, {"04/01/2014 06:06 PM": EVENING, "04/01/2014 18:06": EVENING}),
    ("datetime", {"format": "%m/%d/%Y %I:%M %p"}, {"04/01/2014 06:06 PM": EVENING, "2014-04-01T18:06": EVENING}),
    ("date", {"format": "%d.%m.%y"}, {"01.04.14": DAY, "01.04.2014": "unreadable"}),
    ("date", {"format": ["%d.%m.%Y", "%B %d, %Y"]}, {"1.4.2014": DAY, "april 1, 2014": DAY, "4/1/2014": "unreadable"}),
    ("date", {"format": "%Y-%d-%m"}, {"2014-01-04": DAY, "2014-04-13": "unreadable"}),
    ("date", {"format": "%Y %j"}, {"2014 091": DAY, "2014 366": "unreadable"}),
    ("datetime", {"format": "%d%b%Y:%H:%M:%S"}, {"01APR2014:18:06:00": EVENING}),
    ("datetime", {"format": "%a %d %b %Y %H:%M:%S %z"}, {"Tue 1 Apr 2014 20:06:00 +0200": EVENING}),
    ("datetime", {"format": "epoch"}, {"1396375560": EVENING, "1396375560.0": EVENING, "x": "unreadable"}),
    ("datetime", {"format": "epoch_ms"}, {"1396375560000": EVENING, "9" * 19: "unreadable"}),
    ("datetime", {"format": "epoch_us"}, {"1396375560000000": EVENING}),
    ("datetime", {"format": "epoch_ns"}, {"1396375560000000999": EVENING}),
    ("datetime", {"zone": "Europe/Berlin"}, {"2014-04-01T16:06Z": EVENING, "2014-04-01 18:06": EVENING}),
    ("datetime", {"zone": "Europe/Berlin", "format": "epoch"}, {"1396368360": EVENING}),
    ("date", {"zone": "Asia/Tokyo"}, {"2014-03-31T20:00Z": DAY}),
    ("number", {"decimal": ","}, {"550,29": 550.29, "550.29": "unreadable"}),
    ("number", {"thousands": ","}, {"1,109.25": 1109.25, "1,5": "unreadable", "10,0000": "unreadable", "1109": 1109.0}),
    ("number", {"thousands": ","}, {"12,34,567.5": 1234567.5, "(1,109)": -1109.0, "$1,109": 1109.0}),
    ("number", {"decimal": ",", "thousands": "."}, {"1.109,25": 1109.25, "1.5": "unreadable", "1.109": 1109.0}),
    ("number", {"decimal": ",", "thousands": " "}, {"1 109,25": 1109.25, "1\N{NO-BREAK SPACE}109": 1109.0}),
    ("number", {"thousands": "'"}, {"1'109.25": 1109.25, "1\N{RIGHT SINGLE QUOTATION MARK}109": 1109.0}),
    ("number", {"percent": "number"}, {"12%": 12.0, "12.5 %": 12.5}),
    ("number", {"percent": "fraction"}, {"12%": 0.12, "110%": 1.1, "0.3": 0.3}),
    ("number", {"units": ["CHF", "kg"]}, {"CHF 7": 7.0, "7kg": 7.0, "-7 kg": -7.0, "7 lb": "unreadable"}),
    ("boolean", {"true": ["ja"], "false": ["nein"]}, {"Ja": True, " NEIN": False, "yes": True, "x": "unreadable"}),
    ("boolean", {"true": ["N"], "false": ["0"]}, {"n": True, "0": False, "no": False}),
    ("category", {"trim": True}, {" NYC ": "NYC", "nyc": "unlisted"}),
    ("category", {"case": "ignore"}, {"nyc": "NYC", " nyc": "unlisted"}),
    ("category", {"aliases": {"New York": "NYC", "N.Y.": "NYC"}}, {"N.Y.": "NYC", "n.y.": "unlisted"}),
    ("category", {"trim": True, "case": "ignore", "aliases": {"New York": "NYC"}}, {" NEW YORK": "NYC"}),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "declared", "expected"), TOLD, ids=lambda part: str(part)[:40])
def test_what_a_spec_declares_is_read_so(type_: str, declared: dict[str, Any], expected: dict[str, Any]) -> None:
    column = column_of(type_, **declared)
    assert reading(pa.array(list(expected)), column) == list(expected.values())
    assert reading(pa.array(list(expected)).dictionary_encode(), column) == list(expected.values())


def test_numbers_are_dates_where_a_format_says_how() -> None:
    evening = [1396375560, None]
    for type_ in (pa.int64(), pa.int32(), pa.float64(), pa.decimal128(20, 1)):
        typed = pa.array(evening, pa.int64()).cast(type_)
        assert reading(typed, column_of("datetime", format="epoch")) == [EVENING, "null"]
    for type_ in (pa.int64(), pa.float64()):
        column = column_of("date", format="%Y%m%d")
        assert reading(pa.array([20140401, 7]).cast(type_), column) == [DAY, "unreadable"]
    assert reading(pa.array([float("inf"), 1e300]), column_of("datetime", format="epoch")) == ["unreadable"] * 2
    assert readable(pa.int64(), "date", column_of("date", format="epoch").form)
    assert not readable(pa.int64(), "date")


def test_a_typed_value_is_read_whatever_the_format_of_texts() -> None:
    moment = pa.array([EVENING])
    zoned = pa.array([EVENING.replace(tzinfo=dt.UTC)])
    assert reading(moment, column_of("datetime", format="epoch")) == [EVENING]
    assert reading(moment, column_of("datetime", zone="Asia/Tokyo")) == [EVENING]
    assert reading(zoned, column_of("datetime", zone="Asia/Tokyo")) == [dt.datetime(2014, 4, 2, 3, 6)]
    assert reading(pa.array([1109.25]), column_of("number", decimal=",", thousands=".")) == [1109.25]
    assert reading(pa.array([True, False]), column_of("boolean", true=["0"], false=["1"])) == [True, False]
    assert reading(pa.array([2, 1, 0]), column_of("boolean", true=[2], false=[1])) == [True, False, False]


@pytest.mark.parametrize(
    ("type_", "declared", "problem"),
    [
        ("date", {"format": "%d.%m"}, "needs a year"),
        ("date", {"format": "%Q"}, "not understood"),
        ("datetime", {"format": "%Y-%m-%d %I:%M"}, "%p"),
        ("datetime", {"format": ["epoch", "%Y-%m-%d"]}, "only format"),
        ("date", {"format": "%d/%m/%Y", "day_first": True}, "drop day_first"),
        ("number", {"thousands": "."}, "both"),
        ("number", {"decimal": ";"}, "Input should be"),
        ("number", {"units": ["5kg"]}, "no digit"),
        ("boolean", {"true": ["x"], "false": ["X "]}, "true and false"),
        ("category", {"aliases": {"a": "nobody"}}, "not listed"),
        ("category", {"aliases": {"yes": "NYC"}}, "already"),
        ("category", {"case": "ignore", "values": ["a", "A"]}, "these values are one"),
    ],
)
def test_a_format_that_cannot_be_is_refused(type_: str, declared: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        column_of(type_, **declared)


COLUMNS = [column_of(type_) for type_ in BOUNDS] + [column_of(type_, **declared) for type_, declared, _ in TOLD]
TEXTS = st.one_of(
    st.sampled_from([*UNTOLD, *(text for *_, expected in TOLD for text in expected)]),
    st.text(alphabet="0123456789 .,:-/+()%$€'_TZaApPmMeE\N{NO-BREAK SPACE}", max_size=24),
    st.text(max_size=12),
    st.datetimes().map(str),
    st.floats().map(str),
)
CELLS = st.lists(st.one_of(st.none(), TEXTS), max_size=10)


@settings(max_examples=400, deadline=None)
@given(CELLS, st.sampled_from(COLUMNS), st.sampled_from([pa.string(), pa.large_string(), pa.string_view()]))
def test_reading_is_total_and_row_by_row_in_every_format(cells: list[str | None], column: DomainColumn, type_) -> None:
    array = pa.array(cells, type_)
    together, codes = reading(array, column), encode_column(array, column).tolist()
    assert all(0 <= code < column.size for code in codes)
    assert together == [reading(array.slice(row, 1), column)[0] for row in range(len(array))]
    assert codes == [int(encode_column(array.slice(row, 1), column)[0]) for row in range(len(array))]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.one_of(st.none(), st.binary(max_size=12)), max_size=8), st.sampled_from(COLUMNS))
def test_bytes_that_are_no_text_are_read_too(cells: list[bytes | None], column: DomainColumn) -> None:
    array = pa.array(cells, pa.binary())
    kinds = read(array, column).kinds(column).tolist()
    assert set(kinds) <= {UNDERSTOOD, NULL, UNREADABLE, UNLISTED}
    assert kinds == [int(read(array.slice(row, 1), column).kinds(column)[0]) for row in range(len(array))]


WRITTEN = [
    "%Y-%m-%d %H:%M:%S.%f",
    "%d.%m.%Y %H:%M:%S.%f",
    "%m/%d/%Y %I:%M:%S.%f %p",
    "%a %d %b %Y %H:%M:%S.%f",
    "%Y%m%dT%H:%M:%S.%f",
]


@settings(max_examples=200, deadline=None)
@given(st.datetimes(dt.datetime(2005, 1, 1), dt.datetime(2030, 12, 30)), st.sampled_from(WRITTEN))
def test_a_moment_comes_back_from_its_format_and_stays_in_its_bin(moment: dt.datetime, format_: str) -> None:
    column = column_of("datetime", format=format_)
    texts = pa.array([moment.strftime(format_)])
    assert reading(texts, column) == [moment]
    within_resolution(texts, column, moment)


@settings(max_examples=200, deadline=None)
@given(
    st.integers(-200_000, 10**9),
    st.sampled_from([(".", ","), (",", "."), (",", " "), (".", "'"), (".", "_")]),
    st.sampled_from(["{}", "$ {}", "{} €", "CHF {}"]),
)
def test_a_number_comes_back_from_its_format_and_stays_in_its_bin(
    cents: int, marks: tuple[str, str], around: str
) -> None:
    decimal, thousands = marks
    plain = f"{abs(cents) // 100:,}.{abs(cents) % 100:02d}"
    spelled = plain.translate(str.maketrans({",": thousands, ".": decimal}))
    text = around.format(spelled)
    text = f"({text})" if cents < 0 else text
    column = column_of("number", decimal=decimal, thousands=thousands, units=["CHF"], decimals=2)
    assert reading(pa.array([text]), column) == [cents / 100]
    within_resolution(pa.array([text]), column, cents / 100)


def within_resolution(texts: pa.Array, column: DomainColumn, value: Any) -> None:
    """Value, code, value: what is published for the code lies in the bin that the value lies in."""
    codes = encode_column(texts, column)
    published = decode_column(codes, column, np.random.default_rng())
    assert encode_column(published, column).tolist() == codes.tolist()
    number = value if column.kind == "number" else (value - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1)
    code = int(codes[0])
    assert column.edges[code] <= number <= column.edges[code + 1]


def test_words_that_are_numbers_are_found_among_whole_numbers_of_any_width() -> None:
    truth = column_of("boolean", true=[200], false=[-7])
    alias = column_of("category", aliases={"200": "7"})
    for type_ in (pa.int16(), pa.int64()):
        assert encode_column(pa.array([200, -7, 3, None], type_), truth).tolist() == [1, 0, 2, 2]
        assert encode_column(pa.array([200, 7, 3], type_), alias).tolist() == [3, 3, 4]
