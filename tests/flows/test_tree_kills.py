"""Several tables in parts, killed with SIGKILL at any stage boundary: finished by the next run, all tables at once, one
charge."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow.csv
import pyarrow.parquet as pq
import pytest
import yaml
from click.testing import Result

from tests.flows.processes import run_command
from tests.sources.tree.test_kinds import clinic_of
from tests.tree_oracle import NAMES, arrow
from tests.trees import CLINIC
from understudy.pipelines.methods.tree.generating import family_parts
from understudy.pipelines.privacy.ledger.fault_points import STAGE_POINTS
from understudy.pipelines.privacy.ledger.ledger import Ledger, State
from understudy.pipelines.publishing.verifying import stored_release

Run = Callable[..., Result]
pytestmark = pytest.mark.usefixtures("prefect_server")
FAST = ("part_kept",)
SLOW = tuple(point for point in (*STAGE_POINTS, "published_unrecorded") if point not in FAST)
BEFORE_THE_CHARGE = ("after_select", "after_ingest", "after_normalize", "before_privatize")
IN_PARTS = "from understudy.pipelines.methods.tree.generating import family_parts\nfamily_parts.MOST_ROOTS = 20"


@pytest.fixture
def spec(tmp_path: Path, home: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(family_parts, "MOST_ROOTS", 20)
    tables = {name: {**table, "source": {"uri": f"{name}.csv"}} for name, table in CLINIC["tables"].items()}
    for name, rows in clinic_of(7).items():
        pyarrow.csv.write_csv(arrow(rows, name), tmp_path / f"{name}.csv")
    told = {
        **CLINIC,
        "source": {"uri": "patients.csv", "snapshot": "2026-01"},
        "tables": tables,
        "generate": {"epochs": 1, "device": "cpu"},
        "publish": {"to": "published", "rows": 50},
    }
    (tmp_path / "tree.yaml").write_text(yaml.safe_dump(told, sort_keys=False))
    opened = run("ledger", "open", "clinic", "--epsilon", "1", "--delta", "1e-6", "--entity", "patients")
    assert opened.exit_code == 0, opened.output
    return tmp_path / "tree.yaml"


def kill_and_finish(spec: Path, home: Path, run: Run, point: str) -> None:
    ledger, place = Ledger(f"sqlite:///{home / 'ledger.db'}"), spec.parent / "published" / "clinic"
    assert run_command(spec.parent, home, "release", spec, fault=point, first=IN_PARTS) == -signal.SIGKILL
    charged = ledger.charges("clinic")
    assert len(charged) == (0 if point in BEFORE_THE_CHARGE else 1)
    shown = [path for path in place.glob("*/manifest.json") if path.parent.name != "latest"]
    assert all(set(stored_release(str(path.parent)).tables()) == set(NAMES) for path in shown)
    again = run("release", spec)
    assert again.exit_code == 0, again.output
    assert ("spent      nothing" in again.output) == bool(charged)
    [charge] = ledger.charges("clinic")
    assert charge.state is State.MEASURED
    assert charged in ([], [charge])
    [release] = [path for path in place.glob("*/manifest.json") if path.parent.name != "latest"]
    assert release.parent == (place / "latest").resolve()
    for name in NAMES:
        assert len(list((release.parent / "data" / name).iterdir())) == 3
    assert pq.read_table(release.parent / "data" / "patients").num_rows == 50
    assert ledger.verify().ok


@pytest.mark.parametrize("point", FAST)
def test_killed_and_finished(spec: Path, home: Path, run: Run, point: str) -> None:
    kill_and_finish(spec, home, run, point)


@pytest.mark.slow
@pytest.mark.parametrize("point", SLOW)
def test_killed_and_finished_at_every_other_stage(spec: Path, home: Path, run: Run, point: str) -> None:
    kill_and_finish(spec, home, run, point)
