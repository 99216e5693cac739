"""Tables carry the signature in a column, whatever version made the table of releases."""

from __future__ import annotations

import time
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
