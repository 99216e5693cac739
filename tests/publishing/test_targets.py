"""Publishing is atomic, verified, contained, and twice is once."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.examples import SPEC
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.privacy.accounting import Loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.publishing.manifest import (
    AccountState,
    Manifest,
    charged_event,
    guarantee_of,
    public_spec,
    software_versions,
)
from understudy.pipelines.publishing.targets.base import PreparedRelease, open_target, release_id
from understudy.pipelines.publishing.targets.directory import DirectoryTarget, read_release
from understudy.pipelines.publishing.targets.duckdb_table import DuckDBTarget
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.in_parts import Parts


def prepared(
    release: str = "2026-10-abc", rows: int = 5, created: str = "2026-11-01T00:00:00+00:00"
) -> PreparedRelease:
    spec = parse_spec(SPEC)
    manifest = Manifest(
        name=spec.name,
        release_id=release,
        snapshot=spec.source.snapshot,
        created_at=created,
        guarantee=guarantee_of(
            Loss(1.0, 1e-6, "analytic"), spec, [charged_event("marginals", "m" * 64, Gaussian(4.0), "s" * 64)]
        ),
        account=AccountState(name="clinic", cap_epsilon="3", cap_delta="1e-6", spent_epsilon=1.0, releases_charged=1),
        method="privpgd",
        steps=("count", "noise"),
        noise=(),
        rows=rows,
        columns=("age",),
        spec_hash=spec.hash,
        spec=public_spec(spec),
        versions=software_versions(),
    )
    return PreparedRelease(manifest, Parts.of(pa.table({"age": list(range(rows))})), "<html>card</html>")


def test_a_release_is_complete_hashed_and_pointed_at(tmp_path: Path) -> None:
    published = DirectoryTarget(tmp_path).publish(prepared())
    place = tmp_path / "clinic-visits" / "latest"
    assert place.is_symlink()
    assert read_release(place) == published.manifest
    assert {file.path for file in published.manifest.files} == {"card.html", "data/part-00000.parquet"}
    assert pq.read_table(place / "data").num_rows == 5
    assert [p for p in place.parent.iterdir() if p.name.startswith(".")] == []


def test_publishing_twice_is_publishing_once(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path)
    first = target.publish(prepared(rows=5))
    again = target.publish(prepared(rows=7))
    assert again == first
    assert target.recover("clinic-visits", "nothing") is None


@pytest.mark.parametrize("damage", ["flip", "truncate", "delete", "manifest"])
def test_a_damaged_release_is_an_error_never_served(tmp_path: Path, damage: str) -> None:
    target = DirectoryTarget(tmp_path)
    place = Path(target.publish(prepared()).location)
    data = place / "data" / "part-00000.parquet"
    content = bytearray(data.read_bytes())
    if damage == "flip":
        content[40] ^= 1
        data.write_bytes(content)
    elif damage == "truncate":
        data.write_bytes(content[:-3])
    elif damage == "delete":
        data.unlink()
    else:
        (place / "manifest.json").write_text("{")
    with pytest.raises(PublishError):
        target.recover("clinic-visits", "2026-10-abc")


@pytest.mark.parametrize("point", ["publish_staged", "publish_mid_rename", "publish_before_pointer"])
def test_an_interrupted_publication_is_invisible_or_finished_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    target = DirectoryTarget(tmp_path)
    target.publish(prepared("2026-09-old", created="2026-10-01T00:00:00+00:00"))
    pointer = tmp_path / "clinic-visits" / "latest"
    monkeypatch.setenv("UNDERSTUDY_FAULT", f"{point}:raise")
    with pytest.raises(RuntimeError):
        target.publish(prepared())
    monkeypatch.delenv("UNDERSTUDY_FAULT")
    assert os.readlink(pointer) == "2026-09-old"
    assert read_release(pointer).release_id == "2026-09-old"
    target.publish(prepared())
    assert os.readlink(pointer) == "2026-10-abc"
    assert not [p for p in pointer.parent.iterdir() if p.name.startswith(".staging")]


def test_duplicates_that_publish_at_once_agree_on_one_release(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        published = list(pool.map(lambda rows: DirectoryTarget(tmp_path).publish(prepared(rows=rows)), range(5, 13)))
    assert len({found.manifest.rows for found in published}) == 1
    assert read_release(tmp_path / "clinic-visits" / "latest") == published[0].manifest
    assert not list((tmp_path / "clinic-visits").glob(".staging*"))


def test_repeating_an_old_snapshot_does_not_turn_latest_back(tmp_path: Path) -> None:
    target = DirectoryTarget(tmp_path)
    target.publish(prepared("2026-09-old", created="2026-10-01T00:00:00+00:00"))
    target.publish(prepared())
    target.recover("clinic-visits", "2026-09-old")
    assert os.readlink(tmp_path / "clinic-visits" / "latest") == "2026-10-abc"


def test_names_cannot_leave_the_root(tmp_path: Path) -> None:
    for name, release in (("..", "x"), ("a/../..", "x"), ("clinic", "../../x"), ("clinic", "/etc/x")):
        with pytest.raises(PublishError, match="leave"):
            DirectoryTarget(tmp_path / "root").recover(name, release)


def test_release_ids_are_plain_whatever_the_snapshot_is_called() -> None:
    hostile = parse_spec(SPEC.replace('"2026-10"', '"../../etc/passwd; DROP TABLE x"'))
    assert release_id(hostile, ("m",)).replace("-", "").isalnum()
    assert release_id(hostile, ("m",)) != release_id(hostile, ("n",))


def test_an_unwritable_place_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.raises(PublishError, match="cannot write"):
        DirectoryTarget(tmp_path / "file").publish(prepared())


def test_duckdb_table_is_swapped_with_its_manifest(tmp_path: Path) -> None:
    target = DuckDBTarget(tmp_path / "out.duckdb", 'odd "name"')
    target.publish(prepared("2026-09-old", rows=3))
    target.publish(prepared(rows=5))
    assert target.publish(prepared(rows=9)).manifest.rows == 5
    with duckdb.connect(str(tmp_path / "out.duckdb")) as connection:
        assert connection.execute('SELECT count(*) FROM "odd ""name"""').fetchone() == (5,)
        current = connection.execute("SELECT release_id FROM understudy_releases WHERE current").fetchall()
    assert current == [("2026-10-abc",)]


def test_duckdb_swap_interrupted_before_commit_leaves_the_old_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = DuckDBTarget(tmp_path / "out.duckdb", "visits")
    target.publish(prepared("2026-09-old", rows=3))
    monkeypatch.setenv("UNDERSTUDY_FAULT", "publish_before_pointer:raise")
    with pytest.raises(RuntimeError):
        target.publish(prepared(rows=5))
    monkeypatch.delenv("UNDERSTUDY_FAULT")
    assert target.recover("clinic-visits", "2026-10-abc") is None
    with duckdb.connect(str(tmp_path / "out.duckdb")) as connection:
        assert connection.execute("SELECT count(*) FROM visits").fetchone() == (3,)


def test_duckdb_never_replaces_a_table_it_did_not_publish(tmp_path: Path) -> None:
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TABLE visits AS SELECT 1 AS private")
    with pytest.raises(PublishError, match="not published by Understudy"):
        DuckDBTarget(path, "visits").publish(prepared())
    DuckDBTarget(path, "visits_synthetic").publish(prepared())
    with pytest.raises(PublishError, match="not published by Understudy"):  # not even once another one is
        DuckDBTarget(path, "visits").publish(prepared())
    with duckdb.connect(str(path)) as connection:
        assert connection.execute("SELECT private FROM visits").fetchall() == [(1,)]


def test_duckdb_repeating_an_old_release_does_not_turn_the_table_back(tmp_path: Path) -> None:
    target = DuckDBTarget(tmp_path / "out.duckdb", "visits")
    target.publish(prepared("2026-09-old", rows=3))
    target.publish(prepared(rows=5))
    assert "since replaced" in target.publish(prepared("2026-09-old", rows=3)).location
    with duckdb.connect(str(tmp_path / "out.duckdb")) as connection:
        assert connection.execute("SELECT count(*) FROM visits").fetchone() == (5,)


@pytest.mark.parametrize("damage", ["DELETE FROM visits WHERE rowid = 0", "DROP TABLE visits"])
def test_duckdb_notices_a_table_that_was_changed(tmp_path: Path, damage: str) -> None:
    target = DuckDBTarget(tmp_path / "out.duckdb", "visits")
    assert target.held() is None
    published = target.publish(prepared(rows=3))
    held = target.held()
    assert held is not None
    assert (held.manifest, held.intact) == (published.manifest, True)
    with duckdb.connect(str(tmp_path / "out.duckdb")) as connection:
        connection.execute(damage)
    held = target.held()
    assert held is not None
    assert not held.intact
    with pytest.raises(PublishError, match="changed after publication"):
        target.recover("clinic-visits", "2026-10-abc")


def test_targets_by_spec(tmp_path: Path) -> None:
    assert isinstance(open_target(parse_spec(SPEC), tmp_path), DirectoryTarget)
    with pytest.raises(SpecError, match=r"publish\.table"):
        open_target(parse_spec(SPEC.replace("releases/", '"duckdb:///out.duckdb"')), tmp_path)
    with pytest.raises(SpecError, match="ftp"):
        open_target(parse_spec(SPEC.replace("releases/", '"ftp://x/y"')), tmp_path)


def test_a_duckdb_table_with_zones_is_the_same_on_a_machine_in_another_zone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are hashed as text, which DuckDB writes on the session's clock."""
    made = prepared()
    moments = pa.array([1_767_225_600_000_000, None], pa.timestamp("us", tz="UTC"))
    target = DuckDBTarget(tmp_path / "out.duckdb", "visits")
    published = target.publish(PreparedRelease(made.manifest, Parts.of(pa.table({"seen": moments})), made.card))
    told = (
        "import duckdb, sys; from pathlib import Path;"
        "from understudy.pipelines.publishing.targets.duckdb_table import DuckDBTarget;"
        "print(duckdb.sql(\"SELECT current_setting('TimeZone')\").fetchall()[0][0]);"
        "print(DuckDBTarget(Path(sys.argv[1]), 'visits').held().intact)"
    )
    monkeypatch.setenv("TZ", "America/New_York")
    seen = subprocess.run([sys.executable, "-c", told, tmp_path / "out.duckdb"], check=False, capture_output=True)
    assert seen.returncode == 0, seen.stderr.decode()
    assert seen.stdout.decode().split() == ["America/New_York", "True"]
    assert target.recover(made.manifest.name, made.manifest.release_id) == published
