"""Tables carry the signature in a column, whatever version made the table of releases."""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from tests.cli.test_verifying import PRIVATE, SPEC, said
from tests.warehouse import Warehouse
from understudy import synthesize
from understudy.pipelines.publishing.targets.published_tables import RELEASES


def released(home: Path, snapshot: str, to: str, table: str) -> str:
    spec = {**SPEC, "publish": {"to": to, "table": table}, "snapshot": snapshot}
    return synthesize(PRIVATE, spec, cap=(9, 1e-6), home=home).save(to, base=home)


@pytest.mark.parametrize("database", ["duckdb", "postgresql"])
def test_a_table_is_signed_and_records_of_an_older_version_are_brought_up_to_date(
    home: Path, warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    monkeypatch.setenv("WAREHOUSE_URL", warehouse.uri)
    file = home / "out.duckdb"
    to = "postgresql+env://WAREHOUSE_URL" if database == "postgresql" else f"duckdb:///{file}"
    table = f"{warehouse.schema}.copies" if database == "postgresql" else "copies"

    def execute(query: str) -> None:
        if database == "postgresql":
            warehouse.execute(query)
        else:
            with duckdb.connect(file) as connection:
                connection.execute(query)

    released(home, "2026-08", to, table)
    execute(f"ALTER TABLE {RELEASES} DROP COLUMN envelope")  # as an older version made the table
    code, text = said("verify", f"{to}#{table}")
    assert (code, "unsigned" in text) == (5, True), text
    assert said("recertify", f"{to}#{table}", "--without-ledger")[0] == 0
    released(home, "2026-09", to, table)
    code, text = said("verify", f"{to}#{table}")
    assert code == 0, text
    assert said("recertify", f"{to}#{table}")[0] == 0
    execute("UPDATE copies SET age = age + 1 WHERE age = (SELECT min(age) FROM copies)")
    code, text = said("verify", f"{to}#{table}")
    assert (code, "NO   table" in text) == (5, True), text


@pytest.mark.parametrize("database", ["duckdb", "sqlite"])
def test_a_card_that_was_changed_in_a_database_is_found_and_not_shown(home: Path, database: str) -> None:
    """On 66eb9e5 the manifest lists no card of a table, and `verify` and `card` say yes to any."""
    file = home / "out.db"
    to = f"{database}:///{file}"
    released(home, "2026-08", to, "copies")
    assert said("verify", f"{to}#copies")[0] == 0
    assert said("card", f"{to}#copies", "--to", str(home / "card.html"))[0] == 0
    connected = duckdb.connect(file) if database == "duckdb" else sqlite3.connect(file)
    with closing(connected):
        connected.execute(f"UPDATE {RELEASES} SET card = 'epsilon 0.01'")
        connected.commit()
    code, text = said("verify", f"{to}#copies")
    assert (code, "NO   card.html: changed after publication" in text) == (5, True), text
    code, text = said("card", f"{to}#copies", "--to", str(home / "card.html"))
    assert (code, "card.html of the release is missing or was changed" in text) == (5, True), text


def test_a_release_of_an_older_version_has_a_card_that_no_manifest_lists(home: Path) -> None:
    to, file = f"duckdb:///{home}/out.duckdb", home / "out.duckdb"
    released(home, "2026-08", to, "copies")
    with duckdb.connect(file) as connection:
        [(text,)] = connection.execute(f"SELECT manifest FROM {RELEASES}").fetchall()
        manifest = json.loads(text)
        manifest["files"] = [each for each in manifest["files"] if each["path"] != "card.html"]
        connection.execute(f"UPDATE {RELEASES} SET manifest = ?, envelope = NULL", [json.dumps(manifest)])
    assert said("card", f"{to}#copies", "--to", str(home / "card.html"))[0] == 0
    assert "<html" in (home / "card.html").read_text()
    assert said("recertify", f"{to}#copies", "--without-ledger")[0] == 0


def test_a_table_whose_record_was_turned_back_is_refused(home: Path) -> None:
    to, file = f"duckdb:///{home}/out.duckdb", home / "out.duckdb"
    released(home, "2026-08", to, "copies")
    with duckdb.connect(file) as connection:
        connection.execute("CREATE TABLE kept AS SELECT * FROM copies")
    time.sleep(1.1)  # created_at has whole seconds
    released(home, "2026-09", to, "copies")
    with duckdb.connect(file) as connection:
        connection.execute("DROP TABLE copies")
        connection.execute("ALTER TABLE kept RENAME TO copies")
        connection.execute(f"UPDATE {RELEASES} SET current = (release_id LIKE '2026-08%')")
    code, text = said("verify", f"{to}#copies")
    assert (code, "NO   latest: turned back: it shows 2026-08" in text) == (5, True), text
    assert "yes  signature" in text
