"""Parts of a large table made by Dask: the same rows, once, also if a worker dies while it makes them."""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from distributed import Client, Future

from tests.dask_cluster import Cluster, dask_cluster
from tests.object_stores import s3_server
from tests.releasing.test_parts import fitted
from understudy.api import Synthesizer
from understudy.pipelines.errors import SourceError
from understudy.pipelines.publishing.part_files import FolderOfParts, KeptParts
from understudy.pipelines.publishing.targets.base import Published, open_target
from understudy.pipelines.publishing.targets.store_of_parts import StoreOfParts
from understudy.pipelines.publishing.verifying import stored_release
from understudy.pipelines.releasing.checking import require_sound
from understudy.pipelines.releasing.generating import generate_rows, parts_beside
from understudy.pipelines.releasing.keys import signed
from understudy.pipelines.releasing.making import PartMaker, Workers, by_threads
from understudy.pipelines.releasing.preparing import prepare_release
from understudy.pipelines.releasing.recording import publish_recorded
from understudy.pipelines.table import in_parts
from understudy.pipelines.table.synthetic import Synthetic
from understudy.tasks.engines import dask_counting, dask_making
from understudy.tasks.engines.dask_making import LATE_IMPORTS, by_dask

__all__ = ["s3_server"]
ROWS = 60_000
PARTS = 12


@pytest.fixture(scope="module")
def bucket(s3_server: str) -> Iterator[str]:
    """Before the cluster, so that its workers reach the store; they share no folder with anybody."""
    import boto3

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", s3_server)
        patch.setenv("AWS_ACCESS_KEY_ID", "canary-access")
        patch.setenv("AWS_SECRET_ACCESS_KEY", "canary-secret")
        patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
        name = f"b{uuid.uuid4().hex[:20]}"
        boto3.client("s3").create_bucket(Bucket=name)
        yield name


@pytest.fixture(scope="module")
def cluster(bucket: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with dask_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_parts, "PART_ROWS", ROWS // PARTS)


def made(one: Synthesizer, place: Path, workers: Workers) -> Synthetic:
    known = one._require_fit()
    return generate_rows(
        known.measured, known.planned, None, ROWS, place_of=lambda key: FolderOfParts(place), workers=workers
    )


def published(one: Synthesizer, workers: Workers) -> Published:
    known, books = one._require_fit(), one._open()
    planned, approval = known.planned, known.approval
    places = parts_beside(planned.spec, approval.mids, books, Path())
    synthetic = generate_rows(known.measured, planned, None, place_of=places, workers=workers)
    agreements = require_sound(synthetic, known.measured, planned)
    release = prepare_release(synthetic, known.measured, agreements, planned, approval, books.ledger)
    target = open_target(planned.spec, Path())
    found = [publish_recorded(target, signed(release, books), books.ledger, "garden", approval.mids) for _ in range(2)]
    assert found[0].manifest_sha256 == found[1].manifest_sha256
    return found[0]


def test_threads_of_dask_make_the_same_rows(tmp_path: Path) -> None:
    one = fitted("gaussian", tmp_path)
    assert made(one, tmp_path / "a", by_dask(None)).table.equals(made(one, tmp_path / "b", by_threads).table)


def test_workers_that_see_no_folder_hand_their_parts_back_and_find_what_a_killed_run_left(
    tmp_path: Path, cluster: Cluster
) -> None:
    one = fitted("gaussian", tmp_path)
    alone = made(one, tmp_path / "alone", by_threads)
    assert isinstance(alone.parts, KeptParts)
    FolderOfParts(tmp_path / "others").put(3, alone.parts.content(3))
    others = made(one, tmp_path / "others", by_dask(cluster.address))
    assert isinstance(others.parts, KeptParts)
    assert others.parts.files == alone.parts.files


def test_workers_load_what_they_will_need_before_a_part_is_asked_for(cluster: Cluster) -> None:
    method = "understudy.pipelines.methods.kernel.method"  # which nothing else here loads

    def loaded() -> list[bool]:
        with Client(cluster.address) as client:
            return list(client.run(lambda: all(name in sys.modules for name in (method, *LATE_IMPORTS))).values())

    assert not any(loaded())
    by_dask(cluster.address, method)
    until = time.monotonic() + 60
    while not all(loaded()) and time.monotonic() < until:
        time.sleep(0.1)
    assert all(loaded())


def test_a_cluster_that_is_gone_stops_no_table_that_needs_no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_counting, "CONNECT_SECONDS", 0.2)
    workers = by_dask("tcp://127.0.0.1:1", "understudy.pipelines.methods.kernel.method")
    with pytest.raises(SourceError, match="cannot reach the Dask scheduler"):
        list(workers(Numbered(), [0]))  # type: ignore[type-var]


def test_parts_go_to_whoever_is_done_first(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """No more are handed out than keep each thread busy: a worker that is slow is left with no queue of its own."""
    waiting: list[int] = []
    submitted = dask_making._submitted

    def counted(client: Client, maker: Future, numbers: Iterable[int]) -> list[Future]:
        found = submitted(client, maker, numbers)
        waiting.append(len(found))
        return found

    monkeypatch.setattr(dask_making, "_submitted", counted)
    with Client(cluster.address) as client:
        threads = sum(client.nthreads().values())
    numbers = range(4 * threads + 3)
    assert sorted(by_dask(cluster.address)(Numbered(), numbers)) == list(numbers)
    assert waiting[0] == 2 * threads
    assert max(waiting[1:]) == 1


class Numbered:
    """Makes the number of a part."""

    place = None

    def make(self, number: int) -> int:
        return number


def test_a_worker_killed_in_the_middle_costs_time_only_and_rows_are_published_once(
    tmp_path: Path, cluster: Cluster, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    to = f"s3://{bucket}/releases"
    one = fitted("privpgd", tmp_path / "home", publish={"to": to, "rows": ROWS})
    alone = made(one, tmp_path / "alone", by_threads)
    with cluster.killing_a_worker(), monkeypatch.context() as patch:
        patch.setattr(PartMaker, "draw", None)  # nothing is drawn in this process
        found = published(one, by_dask(cluster.address))
    assert found.manifest.rows == ROWS
    assert isinstance(alone.parts, KeptParts)
    rows = [file for file in found.manifest.files if "/data/" in file.path]
    assert [file.sha256 for file in rows] == [file.sha256 for file in alone.parts.files]
    release = stored_release(found.location)
    assert all(finding.holds for finding in release.findings()), release.findings()
    assert release.leftovers == 0
    assert release.table().equals(alone.table)
    folder = f"{bucket}/releases/flowers/{found.manifest.release_id}/{rows[0].path.partition('/')[0]}/data"
    assert StoreOfParts(to, folder).get(0) == alone.parts.content(0)
