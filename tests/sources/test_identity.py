"""Which data an address names: stable where the data is the same, different where it is not, and without secrets."""

from __future__ import annotations

from pathlib import Path

import pytest

from understudy.pipelines.sources.identity import source_identity
from understudy.pipelines.spec.address import provide
from understudy.pipelines.spec.source import SourceSpec


def identity(uri: str, base: Path = Path("/srv/specs"), **more: str) -> str:
    return source_identity(SourceSpec(uri=uri, snapshot="1", **more), base)


def test_a_relative_path_is_another_file_in_another_directory() -> None:
    assert identity("t.csv") == "file /srv/specs/t.csv"
    assert identity("t.csv", Path("/srv/other")) != identity("t.csv")
    assert identity("/data/t.csv", Path("/srv/other")) == identity("file:///data/t.csv")
    assert identity("duckdb:///t.duckdb") == "database /srv/specs/t.duckdb"


def test_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "t.csv").touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "t.csv")
    assert identity("link.csv", tmp_path) == identity("t.csv", tmp_path)


def test_an_id_stands_for_the_data_wherever_it_lies() -> None:
    assert identity("t.csv", id="visits") == identity("s3://b/t.csv", Path("/x"), id="visits") == "id visits"


def test_a_variable_or_block_that_names_another_server_names_other_data(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for address in (
        "postgresql://me:hunter2@one.example/clinic",
        "postgresql://you:other@ONE.example:5432/clinic",
        "postgresql://me:hunter2@two.example/clinic",
        "postgresql://me:hunter2@one.example/other",
    ):
        monkeypatch.setenv("WAREHOUSE", address)
        provide("warehouse", address)
        told.append(identity("postgresql+env://WAREHOUSE", table="visits"))
        assert identity("postgresql+block://warehouse", table="visits") == told[-1]
        assert not any(word in told[-1] for word in ("hunter2", "example", "me"))
    assert told[0] == told[1]
    assert len(set(told)) == 3
    monkeypatch.delenv("WAREHOUSE")
    assert identity("postgresql+env://WAREHOUSE", table="visits") == ""


def test_libpq_defaults_are_part_of_a_database(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PGHOST", "PGPORT", "PGDATABASE", "PGUSER", "PGSERVICE"):
        monkeypatch.delenv(name, raising=False)
    assert identity("postgresql://me@one.example/clinic", table="t") == "database postgresql one.example:5432/clinic"
    bare = identity("postgresql:///clinic", table="t")
    monkeypatch.setenv("PGHOST", "two.example")
    assert identity("postgresql:///clinic", table="t") != bare


def test_any_database_of_sqlalchemy(monkeypatch: pytest.MonkeyPatch) -> None:
    told = []
    for address in ("mysql+pymysql://a:hunter2@h/db", "mysql://b@H/db", "mysql://b@h/other", "sqlite:////x/t.db", "?"):
        monkeypatch.setenv("WAREHOUSE", address)
        told.append(identity("sql+env://WAREHOUSE", table="t"))
    assert told[0] == told[1]
    assert len(set(told)) == 4
    assert told[-1] == ""
    assert "hunter2" not in "".join(told)


def test_object_stores_by_bucket_path_and_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    assert identity("s3://lake/visits/") == identity("s3://lake/visits") == "object store s3://lake/visits"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store.example:9000")
    assert identity("s3://lake/visits").startswith("object store s3://lake/visits at ")
    assert identity("gs://lake/visits") == "object store gs://lake/visits"
