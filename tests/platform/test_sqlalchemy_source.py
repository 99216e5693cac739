"""Any database SQLAlchemy knows, by a variable that holds its address. Tested on SQLite and PostgreSQL."""

from __future__ import annotations

import sqlite3
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.platform.conftest import Warehouse
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import SourceSpec

CREATE = 'CREATE TABLE people (who varchar(9), n integer, x float, d numeric(9,2), b boolean, "odd; name" date)'
INSERT = "INSERT INTO people VALUES " + ", ".join(
    f"({who}, {n}, 1.5, 2.50, {b}, '2026-10-01')"
    for who, n, b in [
        ("'ann'", 1, "true"),
        ("'bob'", 2, "false"),
        ("'ann'", 3, "true"),
        ("NULL", 4, "NULL"),
        ("'ann'", 5, "true"),
    ]
)


@pytest.fixture(params=["sqlite", "postgresql"])
def source(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, warehouse: Warehouse
) -> Any:
    if request.param == "sqlite":
        with sqlite3.connect(tmp_path / "w.db") as connection:
            connection.execute(CREATE)
            connection.execute(INSERT)
        connection.close()
        monkeypatch.setenv("W_URL", f"sqlite:///{tmp_path}/w.db")
    else:
        warehouse.execute(CREATE, INSERT)
        monkeypatch.setenv("W_URL", warehouse.url)
    return open_source(SourceSpec(uri="sql+env://W_URL", table="people", snapshot="s"), tmp_path)


def test_rows_types_and_bounding(source: Any) -> None:
    names = ["who", "n", "x", "d", "b", "odd; name"]
    assert [str(field.type) for field in source.schema()] == ["string", "int64", "double", "string", "bool", "string"]
    [batch] = source.batches(names, Unit(), b"k")
    assert batch.to_pylist()[0] == {"who": "ann", "n": 1, "x": 1.5, "d": "2.5", "b": True, "odd; name": "2026-10-01"}
    for cap in (1, 2):
        kept = Counter(
            row["who"] for batch in source.batches(["who", "n"], Unit("who", cap), b"k") for row in batch.to_pylist()
        )
        assert kept == {"ann": cap, "bob": 1}


def test_what_is_wrong_is_said_without_the_address(
    monkeypatch: pytest.MonkeyPatch, source: Any, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match="no column"):
        list(source.batches(['n" FROM people; --'], Unit(), b"k"))

    def opened(table: str | None = "people", variable: str = "W_URL") -> Any:
        return open_source(SourceSpec(uri=f"sql+env://{variable}", table=table, snapshot="s"), tmp_path)

    with pytest.raises(SpecError, match="no table"):
        opened("people; DROP TABLE people").schema()
    with pytest.raises(SpecError, match="needs a table"):
        opened(None)
    with pytest.raises(SpecError, match="VARIABLE"):
        opened(variable="not a name")
    with pytest.raises(SourceError, match="not set"):
        opened(variable="NOTHING").schema()
    for address in ("mysql+nothing://me:hunter2@host/db", "postgresql+psycopg://me:hunter2@127.0.0.1:1/db"):
        monkeypatch.setenv("W_URL", address)
        with pytest.raises(SourceError) as caught:
            opened().schema()
        assert "hunter2" not in str(caught.value)
