"""Releases in Delta and Iceberg tables: one commit each, readable by others, expired when they are old."""

from __future__ import annotations

import datetime as dt
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable

from tests.lakehouse import catalogue, catalogue_in
from tests.publishing.test_contract import TestDelta as DeltaContract
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.publishing.manifest import ReleaseFile
from understudy.pipelines.publishing.targets.base import PreparedRelease, Target, open_target
from understudy.pipelines.publishing.verifying import verify_release
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.table.in_parts import Parts
from understudy.testing.tables import COLUMNS, spec_of_columns
from understudy.testing.targets import _new_key

COPIES = "copies.visits"
make = DeltaContract().release


@dataclass(frozen=True)
class Lake:
    publish: PublishSpec
    place: Path
    commits: Callable[[], list[dict[str, str]]]
    """What the commits of the table say of themselves, oldest first."""
    frame: Callable[[], pd.DataFrame]
    query: Callable[[str], list[Any]]
    """By DuckDB, of the table `copies`."""
    version: Callable[[int], pa.Table]
    """As it was after so many releases."""

    @property
    def target(self) -> Target:
        return open_target(spec_of_columns(COLUMNS).model_copy(update={"publish": self.publish}), self.place)


@pytest.fixture(params=["delta", "iceberg"])
def lake(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    if request.param == "delta":
        path = tmp_path / "copies"

        def by_duckdb(sql: str) -> list[Any]:
            with duckdb.connect() as connection:
                connection.register("copies", DeltaTable(path).to_pyarrow_dataset())
                return connection.sql(sql).fetchall()

        return Lake(
            PublishSpec(to="delta:///copies"),
            tmp_path,
            lambda: [commit for commit in DeltaTable(path).history()[::-1] if commit["operation"] == "WRITE"],
            lambda: DeltaTable(path).to_pandas(),
            by_duckdb,
            lambda number: pa.table(DeltaTable(path, version=number - 1).to_pyarrow_table()),
        )
    catalogue_in(tmp_path, monkeypatch)

    def table() -> Any:
        return catalogue().load_table(COPIES)

    def old(number: int) -> pa.Table:
        named = [s for s in table().snapshots() if s.summary["understudy.release-id"] == f"2026-{number:02d}-abc"]
        return table().scan(snapshot_id=named[0].snapshot_id).to_arrow()

    return Lake(
        PublishSpec(to="iceberg://lake", table=COPIES),
        tmp_path,
        lambda: [dict(s.summary.additional_properties) for s in table().snapshots()],
        lambda: table().scan().to_pandas(),
        lambda sql: table().scan().to_duckdb("copies").sql(sql).fetchall(),
        old,
    )


def test_a_release_is_one_commit_that_says_what_it_is(lake: Lake) -> None:
    first, second = make(1), make(2)
    lake.target.publish(first)
    published = lake.target.publish(second)
    commits = lake.commits()
    assert [commit["understudy.release-id"] for commit in commits] == ["2026-01-abc", "2026-02-abc"]
    assert commits[1]["understudy.guarantee"] == second.manifest.guarantee.sentence
    assert float(commits[1]["understudy.epsilon"]) == second.manifest.guarantee.epsilon
    assert commits[1]["understudy.manifest-sha256"] == published.manifest_sha256
    assert commits[1]["understudy.snapshot"] == "2026-02"


def test_duckdb_and_pandas_read_it_back(lake: Lake) -> None:
    lake.target.publish(make(1))
    release = make(2)
    lake.target.publish(release)
    frame = lake.frame()
    assert len(frame) == release.table.num_rows
    assert sorted(frame["score"].dropna()) == sorted(release.table["score"].drop_null().to_pylist())
    ages = [age for age in release.table["age"].to_pylist() if age is not None]
    assert lake.query("SELECT count(*), sum(age), max(seen) FROM copies") == [
        (release.table.num_rows, sum(ages), pc.max(release.table["seen"]).as_py())
    ]


def test_old_rows_are_expired_and_kept_ones_stay(lake: Lake) -> None:
    releases = [make(number) for number in (1, 2, 3)]
    for release in releases:
        lake.target.publish(release)
    assert lake.version(1).num_rows == releases[0].table.num_rows
    assert lake.target.retire_old("contract", 2) == ["2026-01-abc"]
    assert lake.version(2).num_rows == releases[1].table.num_rows
    assert len(lake.frame()) == releases[2].table.num_rows
    with pytest.raises(Exception):  # noqa: B017  whatever the library says of files or snapshots that are gone
        lake.version(1)
    retired = lake.target.retired_release("contract", "2026-01-abc")
    assert retired is not None
    assert retired.manifest.guarantee == releases[0].manifest.guarantee
    assert {manifest.release_id for manifest in lake.target.newest("contract")} == {f"2026-0{i}-abc" for i in (1, 2, 3)}


def test_other_columns_and_types_take_the_place_of_the_old_ones(lake: Lake) -> None:
    key = _new_key()
    lake.target.publish(make(1))
    zoned = pa.array([dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC), None], pa.timestamp("ns", "Europe/Berlin"))
    table = pa.table(
        {
            "ward": pa.array(["A", None]).dictionary_encode(),
            "age": pa.array([200, None], pa.uint8()),
            "seen": zoned,
            "at": pa.array([dt.datetime(2026, 7, 1, 12), None], pa.timestamp("s")),
            "large": pa.array([2**64 - 1, 0], pa.uint64()),
            "cost": pa.array([None, 1], pa.decimal128(12, 2)),
        }
    )
    old = make(2, key)
    manifest = old.manifest.model_copy(update={"rows": 2, "columns": tuple(table.column_names)})
    published = lake.target.publish(PreparedRelease(manifest, Parts.of(table), "<html>card</html>", key))
    assert verify_release(published.location, [key.public]).holds
    assert lake.target.recover("contract", manifest.release_id) is not None
    frame = lake.frame()
    assert set(frame.columns) == set(table.column_names)
    row = frame[frame["ward"] == "A"].iloc[0]
    assert (int(row["age"]), int(row["large"])) == (200, 2**64 - 1)
    assert pd.Timestamp(row["seen"]) == pd.Timestamp("2026-07-01T12:00Z")


def test_what_was_measured_travels_with_the_rows(lake: Lake) -> None:
    key = _new_key()
    files = (
        ReleaseFile("measured/description.json", b"{}"),
        ReleaseFile("measured/numbers.parquet", bytes(range(256))),
    )
    lake.target.publish(replace(make(1, key), measured=files))
    published = lake.target.publish(replace(make(2, key), measured=files))
    assert [file.path for file in published.manifest.files][1:] == [*(file.path for file in files), "card.html"]
    certificate = verify_release(published.location, [key.public])
    assert certificate.holds, certificate.findings
    papers = lake.target.papers()
    assert [one.current for one in papers] == [False, True]
    assert papers[1].manifest == published.manifest
    assert (papers[1].card, papers[1].envelope is None) == ("<html>card</html>", False)


def test_a_log_that_was_cleaned_does_not_make_it_a_strangers(tmp_path: Path) -> None:
    publish = PublishSpec(to="delta:///copies")
    target = open_target(spec_of_columns(COLUMNS).model_copy(update={"publish": publish}), tmp_path)
    target.publish(make(1))
    table = DeltaTable(tmp_path / "copies")
    for _ in range(3):
        table.alter.set_table_properties({"delta.logRetentionDuration": "interval 30 days"})
    table.create_checkpoint()
    for old in sorted((tmp_path / "copies" / "_delta_log").glob("*.json"))[:-1]:
        old.unlink()
    assert DeltaTable(tmp_path / "copies").history()[-1].get("understudy.release-id") is None
    assert target.recover("contract", "2026-01-abc") is not None
    target.publish(make(2))
    assert DeltaTable(tmp_path / "copies").to_pyarrow_table().num_rows == make(2).table.num_rows


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "copies").mkdir()
    (tmp_path / "copies" / "notes.txt").write_text("mine")
    publish = PublishSpec(to="delta:///copies")
    target = open_target(spec_of_columns(COLUMNS).model_copy(update={"publish": publish}), tmp_path)
    with pytest.raises(PublishError, match="no Delta table"):
        target.ready("contract")
    assert [path.name for path in (tmp_path / "copies").iterdir()] == ["notes.txt"]


def test_a_table_in_an_object_store(bucket: str, tmp_path: Path) -> None:
    key = _new_key()
    publish = PublishSpec(to=f"delta-s3://{bucket}/copies")
    target = open_target(spec_of_columns(COLUMNS).model_copy(update={"publish": publish}), tmp_path)
    target.ready("contract")
    target.publish(make(1, key))
    published = target.publish(make(2, key))
    assert published.location == f"delta-s3://{bucket}/copies"
    assert verify_release(published.location, [key.public]).holds
    options = {"aws_allow_http": "true"}
    rows = DeltaTable(f"s3://{bucket}/copies", storage_options=options).to_pyarrow_table()
    assert rows.num_rows == make(2).table.num_rows


def test_a_table_without_a_namespace_is_refused(tmp_path: Path) -> None:
    for table in ("visits", "copies.understudy_releases"):
        publish = PublishSpec(to="iceberg://lake", table=table)
        with pytest.raises(SpecError, match="namespace"):
            open_target(spec_of_columns(COLUMNS).model_copy(update={"publish": publish}), tmp_path)


@pytest.mark.parametrize("kind", ["delta", "iceberg"])
def test_killed_within_the_commit_it_shows_the_old_release_or_the_new_one(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The contract kills between lines of Python; here the process dies at any moment of the libraries' own work."""
    catalogue_in(tmp_path, monkeypatch)
    configured = {name: value for name, value in os.environ.items() if name.startswith("PYICEBERG")}
    delta, iceberg = PublishSpec(to="delta:///copies"), PublishSpec(to="iceberg://lake", table=COPIES)
    publish = delta if kind == "delta" else iceberg
    old, new = make(1), make(2)
    started = get_context("forkserver")
    started.set_forkserver_preload([__name__])
    seen = set()
    for number, share in enumerate((0.0, 0.02, 0.05, 0.1, 0.2, 0.4)):
        place = tmp_path / f"{number}"
        where = publish if kind == "delta" else publish.model_copy(update={"table": f"{COPIES}{number}"})
        spec = spec_of_columns(COLUMNS).model_copy(update={"publish": where})
        target = open_target(spec, place)
        began = time.monotonic()
        target.publish(old)  # the commit takes a part of this
        took = time.monotonic() - began
        told, tell = started.Pipe(duplex=False)
        process = started.Process(target=publish_and_tell, args=(spec, place, new, configured, tell))
        process.start()
        tell.close()
        assert told.recv() == "committing"
        time.sleep(share * took)
        process.kill()
        process.join()
        shown = rows_shown(kind, place, where)
        assert shown in (old.table.num_rows, new.table.num_rows)
        seen.add(shown)
        assert open_target(spec, place).publish(new).manifest.release_id == new.manifest.release_id
        assert rows_shown(kind, place, where) == new.table.num_rows
    assert old.table.num_rows in seen


def publish_and_tell(spec: Any, place: Path, release: PreparedRelease, environment: dict[str, str], tell: Any) -> None:
    os.environ.update(environment)
    target = open_target(spec, place)
    replace_rows = target._replace  # type: ignore[attr-defined]

    def telling(*arguments: Any) -> Any:
        tell.send("committing")
        return replace_rows(*arguments)

    target._replace = telling  # type: ignore[attr-defined]
    target.publish(release)


def rows_shown(kind: str, place: Path, publish: PublishSpec) -> int:
    if kind == "delta":
        return int(DeltaTable(place / "copies").to_pyarrow_table().num_rows)
    return int(catalogue().load_table(str(publish.table)).scan().to_arrow().num_rows)
