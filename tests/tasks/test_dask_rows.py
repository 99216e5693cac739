"""Moments, mixtures and embeddings whose rows Dask reads: what is bought is bit for bit what one process buys."""

from __future__ import annotations

import traceback
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("distributed")

from tests.randomness import SeededWords
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import UnderstudyError
from understudy.pipelines.methods.base import PrivateTable
from understudy.pipelines.methods.over_rows import SpreadOut, gathered, summed
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.sources.files.csv_file import CsvSource
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.spec.reading import spec_of
from understudy.tasks.engines.dask_counting import Sealed
from understudy.tasks.engines.dask_rows import DaskRows, RowsJob, work_on_part

FILES, ROWS = 4, 150
MIXING = {"name": "mixing", "label": "ward", "rows": FILES * ROWS, "order": 8}
METHODS = {
    "moments": {"name": "gaussian", "centre": "fixed"},
    "learned centre": {"name": "gaussian", "label": "ward"},
    "copula": {"name": "gaussian", "mode": "copula"},
    "sampling noise": {"name": "gaussian", "mode": "sampling-noise", "rows": 50},
    "mixtures": MIXING,
    "embedding": {"name": "kernel", "label": "ward", "rows": FILES * ROWS, "frequencies": 200},
    "embeddings of samples": {
        "name": "kernel", "label": "ward", "rows": FILES * ROWS, "frequencies": 64, "release": "steps", "steps": 3,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, rng = tmp_path_factory.mktemp("stays"), np.random.default_rng(0)
    for file in range(FILES):
        table = pa.table(
            {
                "who": pa.array(rng.integers(0, 60, ROWS), mask=rng.random(ROWS) < 0.05),
                "age": rng.integers(-5, 130, ROWS),
                "cost": pa.array(np.where(rng.random(ROWS) < 0.05, np.nan, rng.lognormal(3, 2, ROWS))),
                "ward": rng.choice(["A", "B", "C"], ROWS),
            }
        )
        pq.write_table(table, place / f"{file}.parquet", row_group_size=60)
    return place


def planned_for(method: dict[str, object], unit: dict[str, object] | None = None) -> Planned:
    numeric = method.get("mode") == "sampling-noise"
    columns = {
        "age": {"type": "integer", "min": 0, "max": 110, "bins": 11},
        "cost": {"type": "number", "min": 0, "max": 1000, "bins": 5},
        **({} if numeric else {"ward": {"type": "category", "values": ["A", "B"], "other": True}}),
    }
    privacy = {"account": "a", "epsilon": 2.0, "delta": 1e-5, **({"unit": unit} if unit else {})}
    source = {"uri": "stays", "snapshot": "s"}
    return plan_release(
        spec_of(
            {"name": "stays", "source": source, "privacy": privacy, "columns": columns, "method": method,
             "publish": {"to": "out", **({"rows": 50} if numeric else {})}}
        )
    )  # fmt: skip


def bought(table: PrivateTable, planned: Planned) -> list[Measurement]:
    """All that is bought, the same words drawn each time."""
    words, drawn = SeededWords(3), []

    def purchase(charge: PlannedCharge, mechanism: Mechanism[object]) -> Measurement:
        drawn.append(mechanism.draw(words))
        return drawn[-1]

    planned.method.measure(table, planned.spec, planned.plan, purchase)
    return drawn


def tables(directory: Path, planned: Planned, scheduler: str | None = None) -> tuple[LocalTable, DaskRows]:
    source, unit = ParquetSource(directory), planned.spec.privacy.protected_unit
    return (
        LocalTable(source, planned.domain, unit, b"key", batch_rows=70),
        DaskRows(source, planned.domain, unit, b"key", scheduler, batch_rows=70),
    )


@pytest.mark.parametrize("method", METHODS)
def test_what_is_bought_is_what_one_process_buys(method: str, directory: Path) -> None:
    planned = planned_for(METHODS[method])
    here, spread = (bought(table, planned) for table in tables(directory, planned))
    assert len(here) == len(spread) > 0
    for one, other in zip(here, spread, strict=True):
        assert one.arrays.keys() == other.arrays.keys()
        assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)


@pytest.mark.parametrize("method", ["learned centre", "embedding"])
def test_with_a_cap_on_rows_the_same_rows_are_kept(method: str, directory: Path) -> None:
    planned = planned_for(METHODS[method], {"entity": "who", "max_rows": 3})
    here, spread = (bought(table, planned) for table in tables(directory, planned))
    for one, other in zip(here, spread, strict=True):
        assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)


def test_gathered_rows_come_in_the_order_of_one_process(directory: Path) -> None:
    for unit in (None, {"entity": "who", "max_rows": 2}):
        planned = planned_for(METHODS["moments"], unit)
        here, spread = ([row for rows in gathered(table, ages) for row in rows] for table in tables(directory, planned))
        assert here == spread
        assert len(here) == FILES * ROWS if unit is None else 0 < len(here) <= 120


def ages(batches: object) -> list[int | None]:
    return [age for batch in batches for age in batch.column("age").to_pylist()]  # type: ignore[attr-defined]


def test_a_source_that_is_one_stream_is_read_here(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("who,age,cost,ward\n1,5,2.5,A\n2,50,3,B\n")
    planned = planned_for(METHODS["moments"])
    table = DaskRows(CsvSource(tmp_path / "t.csv"), planned.domain, Unit(), b"key", scheduler="tcp://127.0.0.1:1")
    assert isinstance(table, SpreadOut)
    assert summed(table, how_many).tolist() == [2]
    assert gathered(table, ages) == [["5", "50"]]


def how_many(batches: object) -> np.ndarray:
    return np.array([sum(batch.num_rows for batch in batches)])  # type: ignore[attr-defined]


class QuotingPart:
    def read(self, columns: object, batch_rows: int) -> object:
        raise ValueError("secret")


def test_an_error_on_a_worker_quotes_nothing_and_no_task_shows_a_bought_number() -> None:
    domain = planned_for(METHODS["moments"]).domain
    job = RowsJob(domain, Unit(), 100, Sealed(b"key"), Sealed("secret"))
    assert "secret" not in repr(job)
    with pytest.raises(UnderstudyError, match="ValueError") as caught:
        work_on_part(QuotingPart(), job=RowsJob(domain, Unit(), 100, Sealed(b"key"), Sealed(list)))  # type: ignore[arg-type]
    assert "secret" not in "".join(traceback.format_exception(caught.value))
