"""Further tables from a paid measurement: free, and of the domain that was measured."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable

import pyarrow.parquet as pq
import pytest
from click.testing import Result

from tests.flows.conftest import Clinic

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")


def test_a_stored_measurement_makes_more_tables_for_free(clinic: Clinic, run: Run) -> None:
    assert run("release", clinic.spec).exit_code == 0
    [charge] = clinic.charges
    (clinic.folder / "clinic.duckdb").unlink()
    clinic.spec.unlink()  # the measurement knows what it is of
    more = clinic.folder / "more"
    for name in (charge.mid[:12], clinic.home / "measurements" / charge.mid):
        result = run("generate", "--from", name, "--to", more, "--rows", 77, "--epochs", 1)
        assert result.exit_code == 0, result.output
        assert "spent      nothing" in result.output
    place = more / "clinic-visits" / "latest"
    assert pq.read_table(place / "data").num_rows == 77
    manifest = json.loads((place / "manifest.json").read_text())
    assert manifest["guarantee"]["events"][0]["mid"] == charge.mid
    assert manifest["spec_hash"] == charge.spec_hash
    assert clinic.charges == [charge]


RULES = """
generate:
  epochs: 2
  particles: 400
  device: cpu
  rules:
    - {if: {age: {max: 30}}, then: {smoker: [false]}}
    - {forbid: {visited_on: {min: 2026-06-01}, ward: [C]}}
"""


def test_rules_are_kept_by_tables_that_are_made_later(clinic: Clinic, run: Run) -> None:
    """The stored spec says `if_`, which nobody could read back: a measurement with a rule was lost to `generate`."""
    clinic.spec.write_text(clinic.write().read_text().partition("generate:")[0] + RULES)
    released = run("release", clinic.spec)
    assert released.exit_code == 0, released.output
    [charge] = clinic.charges
    more = clinic.folder / "more"
    result = run("generate", "--from", charge.mid, "--to", more, "--rows", 500, "--epochs", 1)
    assert result.exit_code == 0, result.output
    rows = pq.read_table(more / "clinic-visits" / "latest" / "data").to_pylist()
    assert len(rows) == 500
    young = [row for row in rows if row["age"] <= 30]
    assert young
    assert all(row["smoker"] is False for row in young)
    assert not [row for row in rows if row["visited_on"] >= dt.date(2026, 6, 1) and row["ward"] == "C"]


def test_what_is_no_measurement_is_refused(clinic: Clinic, run: Run) -> None:
    for name in ("ffff", "", str(clinic.folder)):
        assert run("generate", "--from", name).exit_code == 2
    assert run("release", clinic.spec).exit_code == 0
    mid = clinic.charges[0].mid
    assert run("generate", "--from", mid, "--method", "gaussian").exit_code == 2


def test_a_damaged_measurement_is_refused_not_redrawn(clinic: Clinic, run: Run) -> None:
    assert run("release", clinic.spec).exit_code == 0
    mid = clinic.charges[0].mid
    arrays = clinic.home / "measurements" / mid / "arrays.parquet"
    arrays.write_bytes(arrays.read_bytes()[:-10])
    result = run("generate", "--from", mid)
    assert result.exit_code == 1, result.output
    assert len(clinic.charges) == 1


def test_a_measurement_of_more_calendar_bins_than_a_plan_may_have_now_still_makes_tables(
    clinic: Clinic, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was paid for by a version that had no limit."""
    long = ("min: 2026-01-01, max: 2026-12-31, bins: month", "min: 1990-01-01, max: 2026-12-31, bins: day")
    spec = clinic.write(long, ("marginals: all-2way", "marginals: [[visited_on], [age, sex]]"))
    with monkeypatch.context() as older:
        older.setattr("understudy.pipelines.spec.dates.MAX_BINS", 10**6)
        assert run("release", spec).exit_code == 0
    [charge] = clinic.charges
    refused = run("plan", spec)
    assert (refused.exit_code, "13,514 bins of one day" in refused.output) == (2, True), refused.output
    result = run("generate", "--from", charge.mid, "--to", clinic.folder / "more", "--rows", 50, "--epochs", 1)
    assert result.exit_code == 0, result.output
    assert pq.read_table(clinic.folder / "more" / "clinic-visits" / "latest" / "data").num_rows == 50
    assert clinic.charges == [charge]
