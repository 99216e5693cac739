"""Counting on Dask gives the counts of the local table: in threads, on a cluster, and after a worker dies."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("distributed")

from tests.counting.slow_source import SlowSource
from tests.counting.test_local_table import CLIQUES, DOMAIN, same, visits
from tests.dask_cluster import Cluster, dask_cluster
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SourceError, UnderstudyError
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.moments import exact_products
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources import bounding
from understudy.pipelines.sources.files.csv_file import CsvSource
from understudy.pipelines.sources.files.parquet import ParquetSource
from understudy.pipelines.sources.rows import CodeView
from understudy.tasks.engines.dask_counting import DaskTable, Job, Sealed, count_part, find_candidates
from understudy.tasks.engines.dask_rows import DaskRows

FILES = 12


@pytest.fixture(scope="module")
def directory(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("visits")
    for i in range(FILES):
        pq.write_table(visits(300, seed=i), place / f"{i:02d}.parquet", row_group_size=100)
    return place


@pytest.mark.parametrize("unit", [Unit(), Unit("who", 3)])
def test_threads_give_the_local_counts(directory, unit):
    source = ParquetSource(directory)
    expected = LocalTable(source, DOMAIN, unit, b"key").counts(CLIQUES)
    assert same(DaskTable(source, DOMAIN, unit, b"key").counts(CLIQUES), expected)


def test_a_source_that_is_one_stream_is_counted_here(tmp_path):
    (tmp_path / "t.csv").write_text("age,ward,cost\n5,A,1\n50,B,\n")
    table = DaskTable(CsvSource(tmp_path / "t.csv"), DOMAIN, Unit(), b"key", scheduler="tcp://127.0.0.1:1")
    assert table.counts([(1,)])[0].tolist() == [1, 1, 0, 0]
    assert sum(batch.num_rows for batch in table.record_batches()) == 2


def test_an_unreachable_scheduler_is_a_source_error(directory, monkeypatch):
    monkeypatch.setattr("understudy.tasks.engines.dask_counting.CONNECT_SECONDS", 0.5)
    with pytest.raises(SourceError, match="cannot reach the Dask scheduler at tcp://127"):
        DaskTable(ParquetSource(directory), DOMAIN, Unit(), b"key", scheduler="tcp://127.0.0.1:1").counts(CLIQUES)


def test_a_file_lost_after_the_check_is_a_source_error(tmp_path):
    for i in range(2):
        pq.write_table(visits(50, seed=i), tmp_path / f"{i}.parquet")
    source = ParquetSource(tmp_path)
    source.schema()
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(SourceError, match=r"1\.parquet"):
        DaskTable(source, DOMAIN, Unit(), b"key").counts(CLIQUES)


def test_sealed_values_show_nothing():
    assert "secret" not in repr(Sealed("secret"))


class QuotingPart:
    def read(self, columns, batch_rows):
        raise ValueError("secret")


def test_an_error_on_a_worker_quotes_nothing_since_workers_log_their_errors():
    job = Job(DOMAIN, Unit("who", 2), tuple(CLIQUES), 100, Sealed(b"key"))
    for call in (lambda: count_part(QuotingPart(), job),
                 lambda: find_candidates(QuotingPart(), job, 0, 1 << 64)):  # fmt: skip
        with pytest.raises(UnderstudyError, match="ValueError") as caught:
            call()
        assert "secret" not in "".join(traceback.format_exception(caught.value))


@pytest.fixture(scope="module")
def cluster(tmp_path_factory) -> Iterator[Cluster]:
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made


@pytest.mark.parametrize("slices_", [1, 3])
def test_bounding_on_a_cluster_keeps_the_rows_that_local_bounding_keeps(cluster, directory, slices_, monkeypatch):
    """Also when a table is so large that entities are bounded one slice after the other."""
    source, unit = ParquetSource(directory), Unit("who", 2)
    expected = LocalTable(source, DOMAIN, unit, b"key").counts(CLIQUES)
    row_bytes = CodeView(DOMAIN, range(3)).row_bytes
    bytes_ = int(FILES * 300 * (bounding.HASH_BYTES + row_bytes) * bounding.OVERHEAD) + 1
    monkeypatch.setattr(bounding, "BOUNDING_BYTES", bytes_ // slices_)
    assert len(bounding.slices(source.row_estimate(), row_bytes)) in (slices_, slices_ + 1)
    assert same(DaskTable(source, DOMAIN, unit, b"key", cluster.address).counts(CLIQUES), expected)
    assert expected[0].sum() < FILES * 300


def test_a_real_cluster_counts_alike_and_survives_the_loss_of_a_worker(cluster, directory):
    """So do rows that are summed or gathered: all three are under way when the worker dies."""
    unit = Unit("who", 3)
    here = LocalTable(ParquetSource(directory), DOMAIN, unit, b"key")
    expected, rows = here.counts(CLIQUES), list(here.record_batches())
    assert same(DaskTable(ParquetSource(directory), DOMAIN, unit, b"key", cluster.address).counts(CLIQUES), expected)
    work = partial(exact_products, layout=Layout.of(DOMAIN, "ward", 64))
    with cluster.killing_a_worker(), ThreadPoolExecutor(3) as pool:
        slow = DaskRows(SlowSource(directory, 0.15), DOMAIN, unit, b"key", cluster.address)
        counts, sums = pool.submit(slow.counts, CLIQUES), pool.submit(slow.summed, work)
        gathered = pool.submit(slow.gathered, list)
        assert same(counts.result(), expected)
        assert (sums.result() == work(rows)).all()
        assert _texts([batch for part in gathered.result() for batch in part]) == _texts(rows)


def _texts(batches: list[pa.RecordBatch]) -> str:
    """In order, and NaN is NaN."""
    return str(pa.Table.from_batches(batches).to_pylist())
