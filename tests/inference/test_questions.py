"""The language: what it reads, what it refuses, and that it never fails in another way."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.question import (
    All,
    Any_,
    Compare,
    Contrast,
    IsNull,
    Measure,
    Not,
    Question,
    Truth,
    parse_question,
)

OLD = Compare("age", ">=", "60")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("count", Question("", Measure("count"))),
        ("COUNT WHERE age >= 60", Question("", Measure("count"), where=OLD)),
        ("mean(charge) by ward where age >= 60", Question("", Measure("mean", "charge"), ("ward",), OLD)),
        ("mean(charge) where age >= 60 by ward", Question("", Measure("mean", "charge"), ("ward",), OLD)),
        ("share(readmitted) by sex", Question("", Measure("share", condition=Truth("readmitted")), ("sex",))),
        ("share by ward, sex", Question("", Measure("share"), ("ward", "sex"))),
        ("mean(x) over time", Question("", Measure("mean", "x"), over_time=True)),
        ("sum(charge)", Question("", Measure("sum", "charge"))),
        ("median(stay)", Question("", Measure("quantile", "stay", level=0.5))),
        ("quantile(stay, 0.9)", Question("", Measure("quantile", "stay", level=0.9))),
        ("quantile(stay, .9) by w", Question("", Measure("quantile", "stay", level=0.9), ("w",))),
        ("mean(x) by sex difference", Question("", Measure("mean", "x"), ("sex",), None, Contrast("difference"))),
        (
            "mean(x) by sex ratio to 'old man' where age>=60",
            Question("", Measure("mean", "x"), ("sex",), OLD, Contrast("ratio", "old man")),
        ),
        ('mean("Trip Total") by `a b`', Question("", Measure("mean", "Trip Total"), ("a b",))),
        (
            "count where not (a = x or b = y) and c is not null",
            Question(
                "",
                Measure("count"),
                where=All((Not(Any_((Compare("a", "=", "x"), Compare("b", "=", "y")))), Not(IsNull("c")))),
            ),
        ),
        (
            "count where day between 2026-03-01 and 2026-04-01",
            Question(
                "",
                Measure("count"),
                where=All((Compare("day", ">=", "2026-03-01"), Compare("day", "<=", "2026-04-01"))),
            ),
        ),
        (
            "count where ward not in (A, 'B C') or education-num <> -3.5",
            Question(
                "",
                Measure("count"),
                where=Any_(
                    (
                        Not(Any_((Compare("ward", "=", "A"), Compare("ward", "=", "B C")))),
                        Compare("education-num", "!=", "-3.5"),
                    )
                ),
            ),
        ),
    ],
)
def test_a_question_is_read_as_it_is_meant(text: str, expected: Question) -> None:
    found = parse_question(text)
    assert found.text == text
    same = Question(text, expected.measure, expected.by, expected.where, expected.contrast, expected.over_time)
    assert found == same


@pytest.mark.parametrize(
    "text",
    [
        "", "how many", "mean()", "mean(x", "count by", "count where", "count where a >", "quantile(x)",
        "quantile(x, 1.5)", "quantile(x, many)", "mean(x) difference", "count by a by b", "share",
        "count where a = b c",
        "quantile(x, 0.5) by sex difference", "count; drop table", "x" * 3000,
    ],
)  # fmt: skip
def test_what_is_no_question_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(SpecError, match=r"docs/asking\.md|as quantile|by group"):
        parse_question(text)


WORDS = [
    "count", "mean", "share", "(", ")", "by", "where", "and", "or", "not", "in", "between", "is", "null", "age", ",",
    "=", ">=", "'x'", "0.5", "difference", "from", "ratio", "to", "quantile",
]  # fmt: skip


@given(st.text(max_size=60) | st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join))
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    with suppress(SpecError):
        assert parse_question(text).text == text
