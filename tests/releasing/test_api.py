"""`synthesize`: the same ledger and the same single draw, without an orchestrator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import understudy
from understudy.pipelines.errors import BudgetRefused, SpecError
from understudy.pipelines.privacy.ledger.ledger import Ledger

COLUMNS = {
    "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
    "sex": {"type": "category", "values": ["F", "M", "X"]},
    "seen": {"type": "date", "min": "2026-01-01", "max": "2026-12-31", "bins": "month", "nullable": True},
}
SPEC: dict[str, Any] = {
    "name": "visits",
    "snapshot": "2026-10",
    "privacy": {"account": "clinic", "epsilon": 1.0, "delta": 1e-6},
    "columns": COLUMNS,
    "generate": {"epochs": 2, "particles": 300, "device": "cpu"},
}


def people(rows: int = 2000) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    days = pd.Timestamp("2026-01-01") + pd.to_timedelta(rng.integers(0, 364, rows), unit="D")
    return pd.DataFrame({"age": rng.integers(0, 110, rows), "sex": rng.choice(["F", "M", "X"], rows), "seen": days,
                         "name": [f"person {i}" for i in range(rows)]})  # fmt: skip


def ledger(home: Path) -> Ledger:
    return Ledger(f"sqlite:///{home}/ledger.db")


def test_a_table_in_a_release_out(tmp_path: Path) -> None:
    release = understudy.synthesize(people(), SPEC, cap=(3, 1e-6), home=tmp_path)
    assert release.table.column_names == ["age", "sex", "seen"]
    assert 0.99 < release.manifest.guarantee.epsilon <= 1.0
    assert "<html" in release.card
    assert release.sample(17).num_rows == 17
    assert len(release.to_pandas()) == release.table.num_rows
    place = Path(release.save("releases", base=tmp_path))
    stated = json.loads((place / "manifest.json").read_text())
    [charge] = ledger(tmp_path).charges("clinic")
    assert [event["mid"] for event in stated["guarantee"]["events"]] == [charge.mid]


def test_fit_and_sample_spend_once(tmp_path: Path) -> None:
    table = pa.Table.from_pandas(people(), preserve_index=False)
    first = understudy.Synthesizer(SPEC, cap=("1.2", "1e-6"), home=tmp_path).fit(table)
    assert not first.reused
    assert first.sample().num_rows > 0
    again = understudy.Synthesizer(SPEC, home=tmp_path).fit(table.slice(0, 0))
    assert again.reused
    assert again.release(1500).table.num_rows == 1500
    assert len(ledger(tmp_path).charges("clinic")) == 1
    with pytest.raises(BudgetRefused):
        understudy.Synthesizer({**SPEC, "snapshot": "2026-11"}, home=tmp_path).fit(table)


def test_entities_are_bounded(tmp_path: Path) -> None:
    frame = people(400).assign(who="ann")
    unit = {**SPEC["privacy"], "unit": {"entity": "who", "max_rows": 3}, "epsilon": 100}
    release = understudy.synthesize(frame, {**SPEC, "privacy": unit}, cap=(100, 1e-6), home=tmp_path)
    assert release.table.num_rows < 30  # three of 400 rows, and noise


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="not a table"):
        understudy.synthesize([1, 2], SPEC, cap=(3, 1e-6), home=tmp_path)
    with pytest.raises(SpecError, match="nearest"):
        understudy.synthesize(people().rename(columns={"age": "Age"}), SPEC, cap=(3, 1e-6), home=tmp_path)
    with pytest.raises(SpecError, match="fit"):
        understudy.Synthesizer(SPEC, home=tmp_path).sample()
    with pytest.raises(SpecError, match="ledger open"):
        understudy.Synthesizer({**SPEC, "name": "other", "privacy": {**SPEC["privacy"], "account": "nobody"}},
                               home=tmp_path).fit(people())  # fmt: skip
    assert ledger(tmp_path).charges("clinic") == []
    with pytest.raises(AttributeError):
        understudy.nothing  # noqa: B018


def test_a_generator_is_kept_in_the_home_that_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setenv("UNDERSTUDY_HOME", str(tmp_path / "another"))
    spec = {**SPEC, "columns": {"age": COLUMNS["age"]}, "method": {"name": "kernel", "rows": 2000, "frequencies": 20},
            "generate": {"training_steps": 2, "device": "cpu"}}  # fmt: skip
    fitted = understudy.Synthesizer(spec, cap=(3, 1e-6), home=tmp_path / "home").fit(people())
    assert fitted.sample(10).num_rows == 10
    assert len(list((tmp_path / "home" / "generators").iterdir())) == 1
    assert not (tmp_path / "another").exists()


def test_no_orchestrator_is_imported(tmp_path: Path) -> None:
    code = f"""
import sys
import pandas as pd
from understudy import synthesize
release = synthesize(pd.DataFrame({{"sex": ["F", "M"] * 50}}), {{
    "name": "t", "snapshot": "s", "privacy": {{"account": "a", "epsilon": 1, "delta": 1e-6}},
    "columns": {{"sex": {{"type": "category", "values": ["F", "M"]}}}},
    "generate": {{"epochs": 1, "particles": 50, "device": "cpu"}}}}, cap=(1, 1e-6), home={str(tmp_path)!r})
assert release.table.num_rows > 0
assert not {{"prefect", "dask", "distributed", "great_expectations"}} & set(sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
