"""Several tables of a release: all of them are shown, or all of the release before, wherever it is killed."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from tests.mariadb import MariaDB
from tests.trees import clinic
from tests.warehouse import Warehouse
from understudy.pipelines.errors import PublishError, SpecError
from understudy.pipelines.publishing.manifest import TableFact
from understudy.pipelines.publishing.part_files import FolderOfParts, KeptParts, PartFile, PartPlace, packed
from understudy.pipelines.publishing.signing import SigningKey
from understudy.pipelines.publishing.targets import mysql_table
from understudy.pipelines.publishing.targets.base import PreparedRelease, check_target, open_target
from understudy.pipelines.publishing.targets.mysql_loading import renames_all_or_none
from understudy.pipelines.publishing.verifying import stored_release, verify_release
from understudy.pipelines.spec.handling import PublishSpec
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.table.in_parts import Parts
from understudy.testing.tables import COLUMNS, spec_of_columns
from understudy.testing.targets import TargetContract, _file_of, _lines_in_a_fork, _new_key, _rows

KILLS = 8


def family(
    number: int, key: SigningKey | None = None, tables: tuple[str, ...] = ("homes", "people")
) -> PreparedRelease:
    """The number-th release of two tables; each has rows that no other release has."""
    alone = TargetContract.release(None, number, key)  # type: ignore[arg-type]  # it looks at nothing of the contract
    rows = {
        "homes": pa.table({"home": [1, 2, 3], "rooms": [number] * 3}),
        "people": pa.table({"home": [1, 1, 3], "person": [1, 2, 3], "age": [number] * 3}),
        "pets": pa.table({"person": [1], "name": [f"pet {number}"]}),
    }
    facts = [TableFact(name=name, rows=len(rows[name]), columns=tuple(rows[name].column_names)) for name in tables]
    first, *more = (Parts.of(rows[name]) for name in tables)
    manifest = alone.manifest.model_copy(update={"tables": tuple(facts)})
    return replace(alone, manifest=manifest, rows=first, more=tuple(more))


def in_parts(release: PreparedRelease, place: PartPlace) -> PreparedRelease:
    """The same release, whose tables lie in two parts each where they wait for publication."""

    def kept(name: str, rows: pa.Table) -> KeptParts:
        parts = [rows.slice(0, 1), rows.slice(1)]
        files = []
        for number, part in enumerate(parts):
            place.of(name).put(number, packed(part))
            files.append(PartFile.of(packed(part)))
        return KeptParts.at(place.of(name), rows.schema, tuple(part.num_rows for part in parts), tuple(files))

    first, *more = (kept(name, rows.table()) for name, rows in release.tables.items())
    return replace(release, rows=first, more=tuple(more))


def held(release: PreparedRelease) -> dict[str, Any]:
    return {name: _rows(rows.table()) for name, rows in release.tables.items()}


class _Trees(ABC):
    @abstractmethod
    def describe(self, place: Path) -> PublishSpec: ...

    @abstractmethod
    def where(self, place: Path) -> str:
        """Where readers look for the newest release."""

    @pytest.fixture
    def place(self, tmp_path: Path) -> Path:
        (tmp_path / "place").mkdir()
        return tmp_path / "place"

    def open(self, place: Path) -> Any:
        spec = spec_of_columns(COLUMNS).model_copy(update={"publish": self.describe(place)})
        return open_target(spec, place)

    def shown(self, place: Path) -> dict[str, Any]:
        return {name: _rows(table) for name, table in stored_release(self.where(place)).tables().items()}

    def test_all_tables_are_read_back_and_checked(self, place: Path) -> None:
        key = _new_key()
        release = family(1, key)
        self.open(place).ready_for("contract", ("homes", "people"))
        self.open(place).publish(release)
        assert self.shown(place) == held(release)
        certificate = verify_release(self.where(place), [key.public])
        assert certificate.holds, certificate.findings
        with pytest.raises(SpecError, match="several tables"):
            stored_release(self.where(place)).table()

    def test_the_next_release_replaces_all_of_them(self, place: Path) -> None:
        self.open(place).publish(family(1, tables=("homes", "people", "pets")))
        self.open(place).publish(family(2))
        assert self.shown(place) == held(family(2))
        again = self.open(place).publish(family(1, tables=("homes", "people", "pets")))
        assert again.manifest.release_id == "2026-01-abc"
        assert self.shown(place) == held(family(2))

    def test_killed_anywhere_all_tables_are_old_or_all_are_new(self, tmp_path: Path) -> None:
        first = tmp_path / "whole"
        first.mkdir()
        self.open(first).publish(family(1))
        file = _file_of(type(self.open(first)))
        lines = _lines_in_a_fork(partial(self._publish, first), file, None)
        assert lines
        assert self.shown(first) == held(family(2))
        for line in sorted({1 + number * (lines - 1) // (KILLS - 1) for number in range(KILLS)}):
            place = tmp_path / f"killed-{line}"
            place.mkdir()
            self.open(place).publish(family(1))
            assert _lines_in_a_fork(partial(self._publish, place), file, line) is None
            assert self.shown(place) in (held(family(1)), held(family(2))), f"killed at line {line} of {lines}"
            self._publish(place)
            assert self.shown(place) == held(family(2)), f"not mended after a kill at line {line} of {lines}"

    def _publish(self, place: Path) -> None:
        self.open(place).publish(self.second(place))

    def second(self, place: Path) -> PreparedRelease:
        return family(2)


class TestDirectory(_Trees):
    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="releases")

    def where(self, place: Path) -> str:
        return str(place / "releases" / "contract")


class TestDirectoryInParts(TestDirectory):
    def second(self, place: Path) -> PreparedRelease:
        release = family(2)
        waiting = self.open(place).part_place(release.manifest.name, release.manifest.release_id, "k" * 64)
        return in_parts(release, waiting)


class TestDuckDB(_Trees):
    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="duckdb:///out.duckdb", table="copies")

    def where(self, place: Path) -> str:
        return f"duckdb:///{place / 'out.duckdb'}#copies"

    def test_another_s_table_of_such_a_name_is_refused_before_and_never_replaced(self, place: Path) -> None:
        with duckdb.connect(place / "out.duckdb") as connection:
            connection.execute("CREATE TABLE copies_people AS SELECT 42 AS theirs")
        with pytest.raises(PublishError, match="copies_people"):
            self.open(place).ready_for("contract", ("homes", "people"))
        with pytest.raises(PublishError, match="copies_people"):
            self.open(place).publish(family(1))
        with duckdb.connect(place / "out.duckdb") as connection:
            assert connection.execute("SELECT theirs FROM copies_people").fetchall() == [(42,)]


class TestDuckDBInParts(TestDuckDB):
    def second(self, place: Path) -> PreparedRelease:
        return in_parts(family(2), FolderOfParts(place / "waiting"))


class TestSQLite(_Trees):
    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to="sqlite:///out.db", table="copies")

    def where(self, place: Path) -> str:
        return f"sqlite:///{place / 'out.db'}#copies"

    def test_another_s_view_of_such_a_name_is_refused_before_and_never_replaced(self, place: Path) -> None:
        with closing(sqlite3.connect(place / "out.db")) as connection:
            connection.execute("CREATE VIEW copies_people AS SELECT 42 AS theirs")
        with pytest.raises(PublishError, match="copies_people"):
            self.open(place).ready_for("contract", ("homes", "people"))
        with pytest.raises(PublishError, match="copies_people"):
            self.open(place).publish(family(1))


class TestMariaDB(_Trees):
    @pytest.fixture(autouse=True)
    def _server(self, mariadb: MariaDB) -> None:
        self.server = mariadb

    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to=self.server.uri, table=place.name.replace("-", "_"))

    def where(self, place: Path) -> str:
        return f"{self.server.uri}#{place.name.replace('-', '_')}"

    def test_what_an_interrupted_publication_left_beside_the_tables_goes_with_the_next(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.open(place).publish(family(1, tables=("homes", "people", "pets")))
        tables = "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()"
        monkeypatch.setenv("UNDERSTUDY_FAULT", "publish_staged:raise")
        with pytest.raises(PublishError, match="FaultInjected"):
            self._publish(place)
        monkeypatch.delenv("UNDERSTUDY_FAULT")
        assert len([name for (name,) in self.server.rows(tables) if name.endswith("__staged")]) == 2
        self._publish(place)
        assert not [name for (name,) in self.server.rows(tables) if name.endswith(("__staged", "__away", "_pets"))]

    def test_a_server_that_may_crash_in_the_midst_is_refused_before_anything_is_paid(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(mysql_table, "version_of", lambda connection: "10.5.9-MariaDB-log")
        with pytest.raises(PublishError, match="may crash when some tables are renamed"):
            self.open(place).ready_for("contract", ("homes", "people"))
        self.open(place).ready("contract")

    def test_names_that_the_database_refuses_are_refused_before_anything_is_paid(self, place: Path) -> None:
        with pytest.raises(PublishError, match="too long"):
            self.open(place).ready_for("contract", ("homes", "p" * 60))


class TestPostgreSQL(_Trees):
    @pytest.fixture(autouse=True)
    def _server(self, warehouse: Warehouse) -> None:
        self.warehouse = warehouse

    def describe(self, place: Path) -> PublishSpec:
        return PublishSpec(to=self.warehouse.uri, table=f"{self.warehouse.schema}.{place.name.replace('-', '_')}")

    def where(self, place: Path) -> str:
        return f"{self.warehouse.uri}#{self.warehouse.schema}.{place.name.replace('-', '_')}"

    def test_names_that_the_database_would_cut_are_refused_before_anything_is_paid(self, place: Path) -> None:
        with pytest.raises(PublishError, match="too long"):
            self.open(place).ready_for("contract", ("homes", "p" * 60))


class TestPostgreSQLInParts(TestPostgreSQL):
    def second(self, place: Path) -> PreparedRelease:
        return in_parts(family(2), FolderOfParts(place / "waiting"))


def test_versions_whose_renames_are_all_or_none() -> None:
    sound = [
        "10.6.1-MariaDB",
        "10.11.6-MariaDB-0+deb12u1",
        "11.4.2-MariaDB",
        "5.5.5-10.6.18-MariaDB",
        "8.0.36",
        "9.1.0",
    ]
    assert all(renames_all_or_none(version) for version in sound)
    assert not any(renames_all_or_none(version) for version in ("10.5.25-MariaDB", "10.6.0-MariaDB", "5.7.44-log"))


@pytest.mark.parametrize("publish", [{"to": "delta:///somewhere"}, {"to": "iceberg://lake", "table": "a.b"}])
def test_a_target_that_commits_one_table_at_a_time_is_refused_by_the_plan(publish: dict[str, str]) -> None:
    spec: ReleaseSpec = clinic(publish=publish)
    with pytest.raises(SpecError, match=r"all at once or not at all: every table has a log of its own"):
        check_target(spec)
