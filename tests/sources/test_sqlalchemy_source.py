"""Any database SQLAlchemy knows, by a variable that holds its address. Tested on SQLite and PostgreSQL."""

from __future__ import annotations

import math
import sqlite3
import uuid
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pyarrow as pa
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import mssql, mysql

from tests.postgres import new_database
from tests.sources.bounded import kept
from tests.warehouse import Warehouse
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.databases.sqlalchemy_values import StoredColumn
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec

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
    [batch] = source.read(names)
    assert batch.to_pylist()[0] == {"who": "ann", "n": 1, "x": 1.5, "d": "2.5", "b": True, "odd; name": "2026-10-01"}
    for cap in (1, 2):
        assert Counter(who for who, _ in kept(source, ["who", "n"], Unit("who", cap))) == {"ann": cap, "bob": 1}


def test_what_is_wrong_is_said_without_the_address(
    monkeypatch: pytest.MonkeyPatch, source: Any, tmp_path: Path
) -> None:
    with pytest.raises(SpecError, match="no column"):
        list(source.read(['n" FROM people; --']))

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
        assert caught.value.__context__ is None  # the driver's own error does not travel with ours


ODD = {
    "sqlite": ["'2026-13-45'", "20261001", "x'ff'", "CAST(x'ff' AS TEXT)"],
    "postgresql": ["'10000-01-01'", "'0044-03-15 BC'", "'infinity'", "'-infinity'"],
}


def test_no_date_a_database_holds_can_make_a_read_fail(source: Any, warehouse: Warehouse, tmp_path: Path) -> None:
    kind = "sqlite" if (tmp_path / "w.db").exists() else "postgresql"
    inserts = [f"INSERT INTO people VALUES ('odd', 7, 1, 1, true, {value})" for value in ODD[kind]]
    if kind == "sqlite":
        connection = sqlite3.connect(tmp_path / "w.db")
        connection.executescript(";".join(inserts))
        connection.close()
    else:
        warehouse.execute(*inserts)
    rows = [row for batch in source.read(["n", "odd; name"]) for row in batch.to_pylist()]
    assert len(rows) == 5 + len(inserts)
    assert {row["odd; name"] for row in rows if row["n"] != 7} == {"2026-10-01"}


def test_text_does_not_depend_on_the_styles_of_a_role(monkeypatch: pytest.MonkeyPatch, warehouse: Warehouse) -> None:
    warehouse.execute("CREATE TABLE t (d date, m timestamptz, c money, e char(3))")
    warehouse.execute("INSERT INTO t VALUES ('2026-10-01', '2026-10-01 12:00+02', 1234.5, 'a')")
    monkeypatch.setenv("W_URL", f"{warehouse.url}%20-cDateStyle%3DGerman%20-cTimeZone%3DAsia/Kathmandu")
    source = open_source(SourceSpec(uri="sql+env://W_URL", table="t", snapshot="s"), Path())
    [batch] = source.read(["d", "m", "c", "e"])
    assert batch.to_pylist() == [{"d": "2026-10-01", "m": "2026-10-01 10:00:00", "c": "1234.50", "e": "a"}]


def test_mysql_is_asked_for_text_and_other_databases_for_what_is_stored() -> None:
    day, whole, document = sa.Column("d", sa.Date), sa.Column("n", sa.Integer), sa.Column("j", sa.JSON)
    asked = {
        name: [str(StoredColumn(column).asked(name).compile(dialect=dialect)) for column in (day, whole, document)]
        for name, dialect in (("mysql", mysql.dialect()), ("mssql", mssql.dialect()))
    }
    assert asked == {"mysql": ["CAST(d AS CHAR)", "n", "NULL"], "mssql": ["d", "n", "NULL"]}


class Unspeakable:
    def __str__(self) -> str:
        raise ValueError("canary")


def test_whatever_a_driver_sends_is_read_value_by_value() -> None:
    values = [Unspeakable(), 10**5000, Decimal("NaN"), Decimal("1E+40"), b"\xff", math.nan, "\ud800", True, None, 7]
    for type_ in (sa.Date(), sa.Numeric(), sa.Integer(), sa.Float(), sa.Boolean(), sa.JSON()):
        column = StoredColumn(sa.Column("x", type_))
        together = column.array(values, "utf-8")
        alone = pa.concat_arrays([column.array([value], "utf-8") for value in values])
        assert together.equals(alone) or pa.types.is_floating(together.type)
        assert str(together) == str(alone)
    decimals = StoredColumn(sa.Column("x", sa.Numeric()))
    spelled = ["2.50", Decimal("2.500"), 2.5, "-0.00", 1e-7, 7, "NaN", 1e22]
    assert decimals.array(spelled, "utf-8").to_pylist() == [
        *["2.5", "2.5", "2.5", "0", "0.0000001", "7", "NaN"],
        "10000000000000000000000",
    ]


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "WIN1252"])
def test_bytes_that_have_no_counterpart_in_utf8_fail_neither_postgresql_source(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = urlsplit(new_database().replace("+psycopg", ""))
    name = f"e_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(
        server._replace(query=f"host={parse_qs(server.query)['host'][0]}").geturl(), autocommit=True
    ) as c:
        c.execute(
            f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'".encode()
        )
    url = server._replace(path=f"/{name}", query=f"host={parse_qs(server.query)['host'][0]}").geturl()
    with psycopg.connect(url, autocommit=True, client_encoding="utf8") as connection:
        connection.execute('CREATE TABLE t (a text, n int, "né" int)')
        connection.execute(
            f"INSERT INTO t VALUES ('x', 1, 4), (convert_from('\\x81', '{encoding}'), 2, 5), (NULL, 3, 6)".encode()
        )
    monkeypatch.setenv("PLAIN", url)
    monkeypatch.setenv("W_URL", url.replace("postgresql:", "postgresql+psycopg:"))
    for uri in ("postgresql+env://PLAIN", "sql+env://W_URL"):
        source = open_source(SourceSpec(uri=uri, table="t", snapshot="s"), Path())
        [batch] = source.read(["a", "n"])
        assert batch.to_pydict() == {"a": ["x", "\ufffd", None], "n": [1, 2, 3]}
        if uri.startswith("postgresql"):
            [batch] = source.read(["né"])
            assert batch.to_pydict() == {"né": [4, 5, 6]}
