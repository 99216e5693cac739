"""Parts of a large table made by Dask: the same rows, once, also if a worker dies while it makes them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dask_cluster import Cluster, dask_cluster
from tests.releasing.test_parts import fitted
from understudy.api import Synthesizer
from understudy.pipelines.publishing.part_files import FolderOfParts
from understudy.pipelines.publishing.targets.base import open_target
from understudy.pipelines.releasing.checking import require_sound
from understudy.pipelines.releasing.generating import generate_rows, parts_beside
from understudy.pipelines.releasing.keys import signed
from understudy.pipelines.releasing.making import Workers, by_threads
from understudy.pipelines.releasing.preparing import prepare_release
from understudy.pipelines.releasing.recording import publish_recorded
from understudy.pipelines.table import in_parts
from understudy.pipelines.table.synthetic import Synthetic
from understudy.tasks.engines.dask_making import by_dask

ROWS = 60_000
PARTS = 12


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
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


def test_threads_of_dask_make_the_same_rows(tmp_path: Path) -> None:
    one = fitted("gaussian", tmp_path)
    assert made(one, tmp_path / "a", by_dask(None)).table.equals(made(one, tmp_path / "b", by_threads).table)


def test_a_worker_killed_in_the_middle_costs_time_only_and_rows_are_published_once(
    tmp_path: Path, cluster: Cluster
) -> None:
    one = fitted("privpgd", tmp_path / "home", publish={"to": str(tmp_path / "releases"), "rows": ROWS})
    known, books = one._require_fit(), one._open()
    spec, approval = known.planned.spec, known.approval
    alone = made(one, tmp_path / "alone", by_threads)
    with cluster.killing_a_worker():
        synthetic = generate_rows(
            known.measured,
            known.planned,
            None,
            place_of=parts_beside(spec, approval.mids, books, tmp_path),
            workers=by_dask(cluster.address),
        )
    assert synthetic.parts.sizes == alone.parts.sizes == (ROWS // PARTS,) * PARTS
    agreements = require_sound(synthetic, known.measured, known.planned)
    release = prepare_release(synthetic, known.measured, agreements, known.planned, approval, books.ledger)
    target = open_target(spec, tmp_path)
    published = publish_recorded(target, signed(release, books), books.ledger, "garden", approval.mids)
    again = publish_recorded(target, signed(release, books), books.ledger, "garden", approval.mids)
    assert again.manifest_sha256 == published.manifest_sha256
    files = sorted((Path(published.location) / "data").iterdir())
    assert [file.read_bytes() for file in files] == [
        FolderOfParts(tmp_path / "alone").get(number) for number in range(PARTS)
    ]
    assert published.manifest.rows == ROWS
    assert not list((tmp_path / "releases" / "flowers").glob(".parts*"))
