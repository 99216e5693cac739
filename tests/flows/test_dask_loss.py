"""A whole release counted on a real Dask cluster that loses a worker: the same counts, one charge, one draw."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import duckdb
import pytest
from click.testing import Result

pytest.importorskip("distributed")

from tests.counting.slow_source import SlowSource
from tests.dask_cluster import dask_cluster
from tests.flows.conftest import Clinic
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.methods.registry import method_named
from understudy.pipelines.privacy.ledger.ledger import State
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.releasing.measuring import contribution_key
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.spec.reading import load_spec
from understudy.pipelines.table.domain import TableDomain

FILES = 8
pytestmark = pytest.mark.usefixtures("prefect_server")


class NothingIsBought(Exception):
    """Ends a measurement at the door."""


def export(folder: Path) -> Path:
    """The clinic's visits as a directory of Parquet files."""
    visits = folder / "visits"
    visits.mkdir()
    with duckdb.connect(folder / "clinic.duckdb", read_only=True) as connection:
        for i in range(FILES):
            query = f"SELECT * FROM visits WHERE visit_id % {FILES} = {i}"
            connection.execute(f"COPY ({query}) TO '{visits / str(i)}.parquet' (FORMAT parquet)")
    return visits


def test_a_release_whose_worker_is_killed(
    clinic: Clinic, run: Callable[..., Result], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    visits = export(clinic.folder)
    drawn: list[list[Any]] = []
    draw = ResidualNoise.draw

    def noted(noise: ResidualNoise, counts: dict[str, Any], randomness: Any) -> Any:
        drawn.append(list(counts.values()))
        return draw(noise, counts, randomness)

    monkeypatch.setattr(ResidualNoise, "draw", noted)
    monkeypatch.setattr("understudy.pipelines.releasing.measuring.open_source", lambda *_: SlowSource(visits, 0.15))
    with dask_cluster(tmp_path) as cluster:
        clinic.write(
            ('uri: "duckdb:///clinic.duckdb", table: visits', "uri: visits"),
            ("publish:", "compute: {engine: dask}\npublish:"),
        )
        monkeypatch.setenv("UNDERSTUDY_DASK_SCHEDULER", cluster.address)
        with cluster.killing_a_worker():
            released = run("release", clinic.spec)
            assert released.exit_code == 0, released.output
        again = run("release", clinic.spec)
        assert "spent      nothing" in again.output, again.output

    spec = load_spec(clinic.spec)
    [charge] = clinic.charges
    assert charge.state is State.MEASURED
    assert clinic.ledger.verify().ok
    assert len(clinic.releases) == 1

    domain = TableDomain.of(spec)
    method = method_named("privpgd")
    plan = method.plan(spec, domain)
    local = LocalTable(ParquetSource(visits), domain, spec.privacy.protected_unit, contribution_key(spec))
    expected: list[list[Any]] = []

    def bought(charge: PlannedCharge, mechanism: Mechanism[Any]) -> NoReturn:
        expected.append(list(mechanism.exact.values()))
        raise NothingIsBought

    with pytest.raises(NothingIsBought):
        method.measure(local, spec, plan, bought)
    [counts] = drawn
    assert len(counts) == len(expected[0]) > 3
    assert all((a == b).all() for a, b in zip(counts, expected[0], strict=True))
