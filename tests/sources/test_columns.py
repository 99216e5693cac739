from __future__ import annotations

import pyarrow as pa
import pytest

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.opening import check_columns
from understudy.pipelines.spec.model import ReleaseSpec

SCHEMA = pa.schema(
    [
        ("patient_id", pa.int64()),
        ("Age", pa.int32()),
        ("ward", pa.dictionary(pa.int8(), pa.string())),
        ("day", pa.timestamp("us")),
        ("tags", pa.list_(pa.string())),
        ("twice", pa.int64()),
        ("twice", pa.int64()),
    ]
)


def _check(columns, entity=None):
    unit = {"unit": {"entity": entity, "max_rows": 2}} if entity else {}
    check_columns(
        SCHEMA,
        ReleaseSpec.model_validate(
            {
                "name": "t",
                "source": {"uri": "t.parquet", "snapshot": "s"},
                "privacy": {"account": "a", "epsilon": 1, "delta": 1e-6, **unit},
                "columns": columns,
                "publish": {"to": "out"},
            }
        ),
    )


AGE = {"type": "integer", "min": 0, "max": 110}
DAY = {"type": "date", "min": "2026-01-01", "max": "2026-12-31"}
WARD = {"type": "category", "values": ["A"]}


def test_what_the_table_holds_passes():
    _check({"Age": AGE, "ward": WARD, "day": DAY, "note": {"type": "text"}}, "patient_id")
    _check({"ward": AGE, "day": WARD, "Age": {"type": "boolean"}})


@pytest.mark.parametrize(
    ("columns", "entity", "message"),
    [
        ({"age": AGE}, None, r"no column 'age' \(nearest: Age"),
        ({"zzz": AGE, "sex": WARD}, None, r"no column 'zzz'; the table has no column 'sex'"),
        ({"Age": AGE}, "patient", r"no entity column 'patient' \(nearest: patient_id"),
        ({"tags": WARD}, None, "'tags' is declared category but the table holds lists"),
        ({"day": AGE}, None, "'day' is declared integer but the table holds timestamp"),
        ({"Age": DAY}, None, "'Age' is declared date but the table holds int32"),
        ({"Age": AGE}, "tags", "'tags' holds lists, which is no key"),
        ({"twice": AGE}, None, "2 columns named 'twice'"),
    ],
)
def test_what_it_does_not_hold_is_one_spec_error_with_a_fix(columns, entity, message):
    with pytest.raises(SpecError, match=message) as caught:
        _check(columns, entity)
    assert caught.value.exit_code == 2
    assert "in the spec" in caught.value.fix
