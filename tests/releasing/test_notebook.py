"""What people see who work in a notebook: tables that are text whatever they hold, bars, and what was spent."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import understudy
from tests.pages import read_page
from understudy.api import Synthesizer
from understudy.notebook import Measured, OtherDataWarning
from understudy.pipelines.errors import UnderstudyError

HOSTILE = "<script>alert(1)</script>"
SPEC: dict[str, Any] = {
    "name": "visits",
    "snapshot": "2026-10",
    "privacy": {"account": "a", "epsilon": 2.0, "delta": 1e-6},
    "columns": {
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
        "ward": {"type": "category", "values": [HOSTILE, "B"]},
    },
    "generate": {"epochs": 2, "particles": 300, "device": "cpu"},
}


def people(rows: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame({"age": rng.integers(0, 110, rows), "ward": rng.choice([HOSTILE, "B"], rows)})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module")
def fitted(home: Path) -> Synthesizer:
    return Synthesizer(SPEC, cap=(3, 1e-6), home=home).fit(people())


def displayed(thing: Any) -> str:
    """As IPython asks for it; every tag closed, nothing that runs."""
    text = str(thing._repr_html_())
    page = read_page(text)
    assert not {each.tag for each in page.elements} & {"script", "iframe", "img", "object", "link", "form"}
    return text


def test_release_answers_plan_and_ledger_are_shown_as_tables(fitted: Synthesizer, home: Path) -> None:
    release = fitted.release()
    told = displayed(release)
    assert f"{release.manifest.rows:,}" in told
    assert "charged to a" in told
    assert HOSTILE.replace("<", "&lt;").replace(">", "&gt;") in told
    answers = displayed(release.estimate("mean(age) by ward"))
    assert "95% for this table" in answers
    assert "coefficient" in displayed(release.ols("age ~ ward"))
    plan = fitted.plan(rows=5000)
    assert "would spend epsilon 2.0000" in str(plan)
    assert "this release is paid for already" in displayed(plan)
    assert read_page(plan.page).all("main")
    ledger = understudy.open_ledger(home)
    assert "2.0000" in displayed(ledger)
    assert "2.0000" in str(ledger)
    assert read_page(ledger.page).all("main")


def test_a_plan_whose_account_is_not_open_says_so(tmp_path: Path) -> None:
    assert "a" in displayed(Synthesizer(SPEC, home=tmp_path).plan())
    assert "No account is open yet" in displayed(understudy.open_ledger(tmp_path))


def test_rows_go_to_pandas_polars_and_duckdb(fitted: Synthesizer, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    release = fitted.release()
    assert len(release.to_pandas()) == release.manifest.rows
    with release.duckdb() as connection:
        assert connection.sql("SELECT count(*) FROM visits").fetchall() == [(release.manifest.rows,)]
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(UnderstudyError, match="understudy\\[polars\\]"):
        release.to_polars()


def test_polars_has_the_same_rows(fitted: Synthesizer) -> None:
    pytest.importorskip("polars", reason="polars is not installed: the extra `polars`")
    release = fitted.release()
    assert release.to_polars().to_arrow().column("age").to_pylist() == release.table.column("age").to_pylist()


def test_what_another_home_measured_under_the_same_names_is_no_other_table(tmp_path: Path) -> None:
    tables = {home: people() for home in ("one", "two")}
    fits = {home: Synthesizer(SPEC, cap=("5", "1e-5"), home=tmp_path / home) for home in tables}
    for home in ("one", "two", "one"):  # warnings are errors
        fits[home].fit(tables[home])


def test_a_paid_snapshot_says_that_nothing_was_spent_and_warns_of_another_table(
    home: Path, fitted: Synthesizer, caplog: pytest.LogCaptureFixture
) -> None:
    table = people()
    first = Synthesizer({**SPEC, "snapshot": "2026-11", "privacy": {**SPEC["privacy"], "epsilon": 0.5}}, home=home)
    with caplog.at_level("INFO", "understudy"):
        first.fit(table)
        first.fit(table)  # the same one: nothing to warn of
    assert "spent nothing: this snapshot was measured and paid for before, by a" in caplog.text
    with pytest.warns(OtherDataWarning, match="give changed data a new snapshot"):
        first.fit(table.head(10))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.release()  # of what is fitted already


def test_tables_are_told_apart_as_objects() -> None:
    known, one, other = Measured(), pd.DataFrame({"a": [1]}), pd.DataFrame({"a": [1]})
    assert not known.is_another(("m",), one)  # measured by another process, if at all
    known.remember(("m",), {"t": one})
    assert not known.is_another(("m",), {"t": one})
    assert known.is_another(("m",), {"t": other})
    known.remember(("m",), [1])
    assert not known.is_another(("m",), [2])


def test_a_real_kernel_shows_tables_and_says_what_was_spent(tmp_path: Path) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed: the extra `dev`")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed: the extra `dev`")
    import nbformat

    cells = [
        "import numpy as np, pandas as pd, understudy\n"
        "frame = pd.DataFrame({'age': np.arange(2000) % 110})\n"
        "spec = {'name': 'visits', 'snapshot': '1', 'privacy': {'account': 'a', 'epsilon': 1, 'delta': 1e-6},\n"
        "        'columns': {'age': {'type': 'integer', 'min': 0, 'max': 110, 'bins': 11}},\n"
        "        'generate': {'epochs': 2, 'particles': 300, 'device': 'cpu'}}\n"
        "def release(): return understudy.synthesize(frame, spec, cap=(3, 1e-6), home='home')",
        "release()",
        "release()",
    ]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the client's own event loop
        client = nbclient.NotebookClient(book, timeout=300, resources={"metadata": {"path": str(tmp_path)}})
        client.execute()
    first, again = book.cells[1:]
    shown = [each["data"]["text/html"] for each in first.outputs if "text/html" in each.get("data", {})]
    assert "synthetic rows" in shown[-1]
    said = "".join(each.get("text", "") for each in again.outputs)
    assert "spent nothing: this snapshot was measured and paid for before, by a" in said
