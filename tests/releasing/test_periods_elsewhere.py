"""Periods where no command releases them: the Python interface, and a deployment before its first night."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.examples import SPEC
from understudy import Synthesizer
from understudy.cli.deploying import read
from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.ledger.ledger import Ledger

IN_PYTHON: dict[str, Any] = {
    "name": "visits",
    "snapshot": "2026-10",
    "privacy": {"account": "clinic", "epsilon": 1.0, "delta": 1e-6},
    "columns": {"sex": {"type": "category", "values": ["F", "M"]}},
    "rolling": {"entities": "disjoint", "column": "seen"},
    "generate": {"epochs": 2, "particles": 300, "device": "cpu"},
}
SEPTEMBER, OCTOBER = 3000, 1000


def visits() -> pa.Table:
    days = np.repeat(np.array(["2026-09-30", "2026-10-01"], "datetime64[D]"), [SEPTEMBER, OCTOBER])
    return pa.table({"sex": ["F"] * SEPTEMBER + ["M"] * OCTOBER, "seen": days})


def test_python_measures_the_rows_of_the_period_and_says_what_was_spent(tmp_path: Path) -> None:
    ledger = Ledger(f"sqlite:///{tmp_path}/ledger.db")
    october = Synthesizer(IN_PYTHON, cap=(1, 1e-6), home=tmp_path).fit(visits())
    drawn, series = october.spent
    assert (drawn.drawn, series.drawn, series.account) == (("marginals",), (), "clinic")
    assert drawn.account.startswith("clinic@")
    assert drawn.cost.epsilon == pytest.approx(ledger.balance(drawn.account).spent.epsilon)
    release = october.release()
    assert release.manifest.account.name == drawn.account
    assert abs(release.table.num_rows - OCTOBER) < 200  # the noise has a deviation of about 5
    assert "only rows whose seen lies in 2026-10 are read" in release.manifest.steps
    again = Synthesizer(IN_PYTHON, home=tmp_path).fit(visits())
    assert (again.spent, again.reused) == ((), True)
    september = Synthesizer({**IN_PYTHON, "snapshot": "2026-09"}, home=tmp_path).fit(visits())
    assert [payment.drawn for payment in september.spent] == [("marginals",)]
    assert abs(september.release().table.num_rows - SEPTEMBER) < 200
    assert len(ledger.charges("clinic")) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"snapshot": "2026-10-01"}, "names no month"),
        ({"rolling": {"entities": "disjoint"}}, r"rolling\.column"),
    ],
)
def test_python_refuses_before_it_looks_at_the_table(tmp_path: Path, change: dict[str, Any], problem: str) -> None:
    with pytest.raises(SpecError, match=problem):
        Synthesizer({**IN_PYTHON, **change}, cap=(1, 1e-6), home=tmp_path).fit("no table at all")
    assert all(not charge for charge in Ledger(f"sqlite:///{tmp_path}/ledger.db").export()["charges"])


ROWS = SPEC.replace("unit: {entity: patient_id, max_rows: 4}, ", "").replace('"2026-10"', '"{{ month }}"')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (ROWS.replace("month }}", "day }}") + "rolling: {period: month}\n", "names no month"),
        (ROWS + "rolling: {entities: disjoint}\n", r"rolling\.column"),
        (ROWS.replace("add_remove", "replace_one") + "rolling: {entities: disjoint, column: a}\n", "add_remove"),
    ],
)
def test_a_deployment_is_refused_by_day_not_by_night(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "s.yaml").write_text(text + 'schedule: {cron: "0 6 1 * *"}\n')
    with pytest.raises(SpecError, match=problem):
        read(tmp_path / "s.yaml")


def test_a_deployment_of_months_is_taken(tmp_path: Path) -> None:
    text = ROWS + 'rolling: {entities: disjoint, column: visited_on}\nschedule: {cron: "0 6 1 * *"}\n'
    (tmp_path / "s.yaml").write_text(text)
    assert read(tmp_path / "s.yaml").spec.rolling is not None
