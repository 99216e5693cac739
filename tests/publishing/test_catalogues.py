"""Iceberg tables of other catalogues than SQL: of Glue with rows in S3, for both of which moto speaks, and of REST."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.iceberg_rest import rest_catalogue
from tests.lakehouse import catalogue
from tests.object_stores import bucket, s3_server
from tests.publishing.test_lakehouse_targets import COPIES, make
from understudy.pipelines.publishing.targets.base import Target, open_target
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.spec.source import SourceSpec
from understudy.testing.tables import COLUMNS, spec_of_columns

__all__ = ["bucket", "s3_server"]


@pytest.fixture(params=[pytest.param("glue", marks=pytest.mark.slow), "rest"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a catalogue, configured for PyIceberg as a worker would, by its environment."""
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    if request.param == "rest":
        with rest_catalogue(tmp_path) as address:
            monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__TYPE", "rest")
            monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", address)
            yield "iceberg://lake"
        return
    bucket, s3_server = request.getfixturevalue("bucket"), request.getfixturevalue("s3_server")
    settings = {
        "TYPE": "glue",
        "WAREHOUSE": f"s3://{bucket}/warehouse",
        "GLUE__ENDPOINT": s3_server,
        "GLUE__REGION": "us-east-1",
        "S3__ENDPOINT": s3_server,
        "S3__ACCESS_KEY_ID": "canary-access",
        "S3__SECRET_ACCESS_KEY": "canary-secret",
        "S3__REGION": "us-east-1",
    }
    for name, value in settings.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__LAKE__{name}", value)
    yield "iceberg://lake"
    for table in (COPIES, "copies.understudy_releases"):  # the server outlives the test
        catalogue().drop_table(table)
    catalogue().drop_namespace("copies")


def target_at(address: str, place: Path) -> Target:
    publish = PublishSpec(to=address, table=COPIES)
    return open_target(spec_of_columns(COLUMNS).model_copy(update={"publish": publish}), place)


def test_a_release_is_published_replaced_found_again_and_read(lake: str, tmp_path: Path) -> None:
    target, first, second = target_at(lake, tmp_path), make(1), make(2)
    target.publish(first)
    spec = SourceSpec(uri=lake, table=COPIES, snapshot="s")
    with closing(open_source(spec, tmp_path)) as source:
        before = source.snapshot_id()
        assert sum(batch.num_rows for batch in source.read(["age"])) == first.table.num_rows
        published = target_at(lake, tmp_path).publish(second)
        assert sum(batch.num_rows for batch in source.read(["age"])) == first.table.num_rows  # its own version still
    with closing(open_source(spec, tmp_path)) as source:
        assert source.snapshot_id() != before
        assert sum(batch.num_rows for batch in source.read(["age"])) == second.table.num_rows
    found = target_at(lake, tmp_path).recover("contract", second.manifest.release_id)
    assert found is not None
    assert found.manifest_sha256 == published.manifest_sha256
