"""What the catalogues of real databases say, and the spec that comes of it."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest
import sqlalchemy as sa

from tests.warehouse import Warehouse
from understudy.pipelines.drafting.catalogue import table_facts
from understudy.pipelines.drafting.draft import Choices, Draft, draft_table, likely_entities, rows_of
from understudy.pipelines.drafting.facts import ColumnFacts, TableFacts
from understudy.pipelines.drafting.writing import written
from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.spec.reading import parse_spec

TODAY = dt.date(2026, 11, 18)

CLINIC = (
    "CREATE TYPE sort_of_visit AS ENUM ('in', 'out', 'it''s urgent')",
    "CREATE DOMAIN share AS numeric(5, 4) CHECK (VALUE >= 0 AND VALUE <= 1)",
    "CREATE DOMAIN score AS int NOT NULL CHECK (VALUE BETWEEN 1 AND 5)",
    "CREATE TABLE patients (id int PRIMARY KEY)",
    """CREATE TABLE visits (
        id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
        patient int NOT NULL REFERENCES patients (id),
        sort sort_of_visit NOT NULL,
        ward text CHECK (ward IN ('A', 'B')),
        age smallint NOT NULL CHECK (age >= 0 AND age < 121),
        occupied share,
        pain score,
        admitted date CHECK (admitted >= '2020-01-01'),
        discharged date,
        seen_at timestamptz,
        charge numeric(9, 2) CHECK (charge >= 0),
        insurer varchar(40),
        email text,
        payload jsonb,
        insured boolean NOT NULL,
        CONSTRAINT in_then_out CHECK (admitted <= discharged)
    )""",
    "COMMENT ON TABLE visits IS 'One visit each'",
    "COMMENT ON COLUMN visits.age IS E'Age in years\\nat the visit'",
)


def drafted(facts: TableFacts, name: str = "visits") -> Draft:
    likely = likely_entities(facts)
    entity = likely[0] if likely else None
    choices = Choices(entity, rows_of(facts, entity), Decimal(1), Decimal("1e-6"), "clinic")
    return draft_table(facts, name, choices, TODAY)


def columns(facts: TableFacts) -> dict[str, ColumnFacts]:
    return {column.name: column for column in facts.columns}


@pytest.fixture
def clinic(warehouse: Warehouse) -> Warehouse:
    warehouse.execute(*CLINIC)
    return warehouse


def test_enums_domains_checks_keys_and_comments_of_postgresql(clinic: Warehouse) -> None:
    facts = table_facts(clinic.uri, f"{clinic.schema}.visits", Path())
    found = columns(facts)
    assert facts.comment == "One visit each"
    assert facts.orders == (("admitted", "discharged"),)
    assert found["id"].primary
    assert found["patient"].references == "patients"
    assert found["sort"].values == ("in", "out", "it's urgent")
    assert found["sort"].declared_by == ("enum sort_of_visit",)
    assert found["ward"].values == ("A", "B")
    assert (found["age"].low, found["age"].high, found["age"].nullable) == (0, 120, False)
    assert found["age"].comment == "Age in years\nat the visit"
    assert (found["occupied"].low, found["occupied"].high, found["occupied"].decimals) == (0, 1, 4)
    assert (found["pain"].low, found["pain"].high, found["pain"].nullable) == (1, 5, False)
    assert found["insurer"].most_characters == 40
    assert found["payload"].kind == "other"


def test_the_draft_of_a_postgresql_table_is_a_spec(clinic: Warehouse) -> None:
    draft = drafted(table_facts(clinic.uri, f"{clinic.schema}.visits", Path()))
    text = written(draft)
    spec = parse_spec(text)
    told = {name: column.model_dump(exclude_defaults=True) for name, column in spec.columns.items()}
    assert spec.privacy.unit.entity == "patient"
    assert spec.privacy.unit.max_rows == 4
    assert told["id"] == {"type": "identifier", "action": "surrogate"}
    assert told["patient"] == {"type": "identifier"}
    assert told["sort"] == {"type": "category", "values": ("in", "out", "it's urgent")}
    assert told["ward"] == {"type": "category", "values": ("A", "B"), "nullable": True}
    assert told["age"] == {"type": "integer", "min": 0, "max": 120}
    assert told["occupied"] == {"type": "number", "min": 0, "max": 1, "decimals": 4, "nullable": True}
    assert told["pain"] == {"type": "integer", "min": 1, "max": 5}
    assert told["admitted"]["min"] == dt.date(2020, 1, 1)
    assert told["insured"] == {"type": "boolean"}
    assert told["email"] == {"type": "text"}
    assert [rule.order for rule in spec.generate.rules] == [("admitted", "discharged")]
    assert draft.standing("open") == ["insurer"]
    assert set(draft.standing("guess")) == {"admitted", "discharged", "seen_at", "charge", "email"}
    assert "  # Age in years at the visit\n  age: " in text


def test_a_table_that_is_not_named_is_asked_for(clinic: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SpecError, match="no table or view 'visitors'"):
        table_facts(clinic.uri, "visitors", Path())
    monkeypatch.setenv("CLINIC", clinic.url.replace("+psycopg", ""))
    with pytest.raises(SpecError, match="it has: patients, visits"):
        table_facts("postgresql+env://CLINIC", None, Path())
    clinic.execute("DROP TABLE visits")
    assert table_facts("postgresql+env://CLINIC", None, Path()).table == "patients"


def test_the_catalogue_of_duckdb(tmp_path: Path) -> None:
    path = tmp_path / "clinic.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute("CREATE TYPE sort AS ENUM ('in', 'it''s urgent')")
        connection.execute("CREATE TABLE patients (id INTEGER PRIMARY KEY)")
        connection.execute(
            "CREATE TABLE visits (id INTEGER PRIMARY KEY, patient_id INTEGER REFERENCES patients (id), sort sort NOT "
            "NULL, age UTINYINT CHECK (age <= 120), price DECIMAL(8, 2), tags VARCHAR[], CHECK (id < age))"
        )
        connection.execute("COMMENT ON COLUMN visits.age IS 'in years'")
    with pytest.raises(SpecError, match="patients, visits"):
        table_facts(str(path), None, tmp_path)
    facts = table_facts(f"duckdb:///{path}", "visits", tmp_path)
    found = columns(facts)
    assert facts.uri == "duckdb:///clinic.duckdb"
    assert found["sort"].values == ("in", "it's urgent")
    assert (found["age"].low, found["age"].high, found["age"].comment) == (0, 120, "in years")
    assert found["tags"].kind == "other"
    assert likely_entities(facts) == ["patient_id"]
    spec = parse_spec(written(drafted(facts)))
    assert spec.columns["price"].type == "number"
    assert spec.source.table == "visits"


def test_a_spec_elsewhere_names_the_file_by_its_whole_path(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("age\n")
    assert table_facts(str(tmp_path / "a.csv"), None, tmp_path).uri == "a.csv"
    assert table_facts(str(tmp_path / "a.csv"), None, tmp_path / "specs").uri == str(tmp_path / "a.csv")


def test_sqlite_is_asked_through_sqlalchemy(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "shop.db")
    connection.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY)")
    connection.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, buyer INTEGER NOT NULL REFERENCES customers (id), "
        "code TEXT UNIQUE, state TEXT CHECK (state IN ('new', 'paid')), "
        "price NUMERIC(8, 2) CHECK (price BETWEEN 0 AND 500), ordered DATE)"
    )
    connection.close()
    facts = table_facts(f"sqlite:///{tmp_path}/shop.db", "orders", tmp_path)
    found = columns(facts)
    assert facts.uri == "sqlite:///shop.db"
    assert found["id"].primary
    assert found["code"].unique
    assert found["state"].values == ("new", "paid")
    assert (found["price"].low, found["price"].high) == (0, 500)
    assert likely_entities(facts) == ["buyer"]
    assert parse_spec(written(drafted(facts, "orders"))).columns["ordered"].type == "date"


def test_passwords_and_unknown_addresses_are_refused_without_quoting_them() -> None:
    for address in ("mysql+pymysql://ann:hunter2@host/shop", "postgresql://ann:hunter2@host/shop"):
        with pytest.raises(SpecError) as refused:
            table_facts(address, "orders", Path())
        assert "hunter2" not in str(refused.value)
    with pytest.raises(SpecError, match="oracle9"):
        table_facts("oracle9://host/shop", "orders", Path())
    with pytest.raises(SourceError, match="NOWHERE"):
        table_facts("sql+env://NOWHERE", "orders", Path())


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The SQLAlchemy URL of a real server of its own, on a socket in a temporary folder."""
    if shutil.which("mariadbd") is None or shutil.which("mariadb-install-db") is None:
        pytest.skip("MariaDB is not installed here")
    place = tmp_path_factory.mktemp("mariadb")
    user = [] if os.geteuid() else ["--user=root"]
    subprocess.run(
        ["mariadb-install-db", "--no-defaults", f"--datadir={place}/data", "--auth-root-authentication-method=normal",
         "--skip-test-db", *user],
        check=True, capture_output=True,
    )  # fmt: skip
    socket = f"/tmp/understudy-{os.getpid()}.sock"  # paths of sockets are short
    server = subprocess.Popen(
        ["mariadbd", "--no-defaults", f"--datadir={place}/data", f"--socket={socket}", "--skip-networking",
         f"--pid-file={place}/pid", "--innodb-buffer-pool-size=16M", *user],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    url = f"mysql+pymysql://root@localhost/mysql?unix_socket={socket}"
    try:
        ping = ["mariadb-admin", "--no-defaults", f"--socket={socket}", "--user=root", "ping"]
        while subprocess.run(ping, check=False, capture_output=True).returncode:
            assert server.poll() is None
            time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(30)
        Path(socket).unlink(missing_ok=True)


def test_mariadb_is_drafted_though_the_rows_of_the_table_are_gone(
    mariadb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = mariadb.replace("/mysql?", "/shop?")
    with sa.create_engine(mariadb, poolclass=sa.NullPool).begin() as connection:
        for statement in (
            "CREATE DATABASE shop",
            "CREATE TABLE shop.customers (id INT PRIMARY KEY)",
            "CREATE TABLE shop.orders (id INT AUTO_INCREMENT PRIMARY KEY, customer_id INT NOT NULL, state ENUM('new', "
            "'it''s paid') NOT NULL, age TINYINT UNSIGNED COMMENT 'in years' CHECK (age BETWEEN 0 AND 120), gift "
            "TINYINT(1), price DECIMAL(8, 2), ordered DATETIME, note TEXT, FOREIGN KEY (customer_id) REFERENCES "
            "shop.customers (id))",
            "SET foreign_key_checks = 0",
            "ALTER TABLE shop.orders DISCARD TABLESPACE",
        ):
            connection.execute(sa.text(statement))
    with (
        sa.create_engine(url, poolclass=sa.NullPool).connect() as connection,
        pytest.raises(sa.exc.OperationalError, match="discarded"),
    ):
        connection.execute(sa.text("SELECT * FROM orders"))
    monkeypatch.setenv("SHOP", url)
    facts = table_facts("sql+env://SHOP", "orders", Path())
    found = columns(facts)
    assert found["id"].primary
    assert found["customer_id"].references == "customers"
    assert found["state"].values == ("new", "it's paid")
    assert (found["age"].low, found["age"].high, found["age"].comment) == (0, 120, "in years")
    assert found["gift"].kind == "boolean"
    assert found["price"].decimals == 2
    spec = parse_spec(written(drafted(facts, "orders")))
    assert spec.privacy.unit.entity == "customer_id"
    assert spec.columns["ordered"].type == "datetime"
    assert spec.columns["note"].type == "text"
