"""`Synthesizer.draft(frame)` knows the types of columns and not one value."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from understudy import Synthesizer
from understudy.pipelines.errors import SpecError


class Untouchable:
    """A value that whoever looks at it meets."""

    def __getattribute__(self, name: str) -> object:
        raise AssertionError("a value was looked at")


def frame(ages: list[int], wards: list[str]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "age": np.array(ages, np.int64),
            "ward": pd.Categorical(wards),
            "seen": pd.to_datetime(["2026-01-01"] * len(ages)),
            "smoker": pd.array([True] * len(ages), "boolean"),
            "insurer": pd.array(["x"] * len(ages), "string"),
            "patient_id": ages,
        }
    )


def test_frames_of_the_same_types_have_the_same_draft() -> None:
    """Other values, other categories, another number of rows."""
    first = Synthesizer.draft(frame([1, 2], ["A", "B"]))
    second = Synthesizer.draft(frame([77] * 500, ["secret"] * 500))
    assert str(first) == str(second)
    assert "secret" not in str(second)
    assert first.open == ["ward", "insurer"]
    assert first.guessed == ["age", "seen", "patient_id"]
    assert first.spec["columns"]["smoker"] == {"type": "boolean", "nullable": True}
    assert "nullable" not in first.spec["columns"]["age"]


def test_objects_are_not_touched() -> None:
    values = np.empty(3, object)
    for place in range(3):
        values[place] = Untouchable()
    drafted = Synthesizer.draft(pd.DataFrame({"age": [1, 2, 3], "thing": pd.Series(values, dtype=object)}))
    assert drafted.open == ["thing"]


def test_categories_are_read_where_the_caller_says_that_they_are_public() -> None:
    table = frame([1, 2], ["A", "B"])
    drafted = Synthesizer.draft(table, public_categories=["ward"])
    assert drafted.spec["columns"]["ward"] == {
        "type": "category", "values": ["A", "B"], "other": True, "nullable": True,
    }  # fmt: skip
    arrow = pa.table({"ward": pa.array(["A", "B"]).dictionary_encode(), "age": [1, 2]})
    assert Synthesizer.draft(arrow, public_categories=["ward"]).spec["columns"]["ward"]["values"] == ["A", "B"]
    assert Synthesizer.draft(arrow).open == ["ward"]
    with pytest.raises(SpecError, match="no categories"):
        Synthesizer.draft(table, public_categories=["age"])
    with pytest.raises(SpecError, match="wards"):
        Synthesizer.draft(table, public_categories=["wards"])


def test_a_stream_is_asked_for_its_schema_and_for_no_batch() -> None:
    def batches() -> Iterator[pa.RecordBatch]:
        raise AssertionError("a batch was asked for")
        yield

    schema = pa.schema([("age", pa.int32()), ("smoker", pa.bool_())])
    drafted = Synthesizer.draft(pa.RecordBatchReader.from_batches(schema, batches()))
    assert list(drafted.spec["columns"]) == ["age", "smoker"]


def test_a_draft_can_be_fitted_as_it_is(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    table = pd.DataFrame({"age": rng.integers(0, 90, 500), "smoker": rng.random(500) < 0.3, "patient_id": range(500)})
    drafted = Synthesizer.draft(table, entity="patient_id", max_rows=1, account="people", name="people")
    spec = {**drafted.spec, "generate": {"epochs": 2, "device": "cpu"}}
    copy = Synthesizer(spec, cap=(3, 1e-6), home=tmp_path).fit(table).sample(100)
    assert copy.column_names == ["age", "smoker"]


def test_what_is_no_table_is_refused() -> None:
    with pytest.raises(SpecError, match="not a table"):
        Synthesizer.draft([1, 2, 3])
