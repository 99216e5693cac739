"""`verify` raises on nothing: values of any type in any column of any table are findings."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.ledger.ledger import Holder, Ledger, VerifyReport
from understudy.pipelines.privacy.ledger.schema import accounts, charges, history
from understudy.pipelines.privacy.relation import Budget

COLUMNS = [(table.name, column.name) for table in (accounts, charges, history) for column in table.columns]
UNSEALED = {("ledger_charges", name) for name in ("holder_token", "holder_place", "holder_pid", "holder_started",
            "lease_until", "created_at", "reason")}  # fmt: skip
JUNK = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=20),
    st.binary(max_size=20),
    st.sampled_from(["{}", "[]", "{", "null", '{"kind": "gaussian"}', '{"kind": 3}', "NaN", "1e999", "[" * 3000,
                     '{"event": {"kind": "no such"}}', '{"epsilon": [], "delta": {}}', "published", "charged"]),
)  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with a line of every kind, its tables without any constraint, as a person with a tool may leave them."""
    from tests.privacy.ledger.conftest import UNIT, Bench
    from understudy.pipelines.privacy.ledger.store import MeasurementStore
    from understudy.pipelines.privacy.relation import Relation

    folder = tmp_path_factory.mktemp("junk")
    url = f"sqlite:///{folder / 'ledger.db'}"
    ledger = Ledger(url)
    account = ledger.open_account("clinic", Relation.ADD_REMOVE, UNIT, Budget("3", "1e-6"))
    bench = Bench(url, ledger, MeasurementStore(folder / "measurements"), account)
    bench.buy("jan")
    ledger.charge(bench.request("feb"), Holder.here())
    ledger.burn(bench.request("feb").mid, "lost")
    ledger.change_cap("clinic", Budget("4", "1e-6"), "more")
    ledger.record_approval("clinic", "visits", "jan", "in a test")
    ledger.record_publication("clinic", [bench.request("jan").mid], "r-1", "a" * 64)
    with closing(sqlite3.connect(folder / "ledger.db")) as database:
        for table in ("ledger_accounts", "ledger_charges", "ledger_history"):
            database.executescript(
                f"CREATE TABLE loose AS SELECT * FROM {table}; DROP TABLE {table}; ALTER TABLE loose RENAME TO {table};"
            )
    assert Ledger(url).verify().ok
    return folder / "ledger.db"


def changed(whole: Path, edits: list[tuple[str, str, Any, int]], folder: Path) -> tuple[bool, Path]:
    """A copy with each edit made to one row; whether anything that is sealed is now another value."""
    path = folder / "ledger.db"
    for old in folder.glob("ledger.db*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copy(whole, path)
    with closing(sqlite3.connect(path)) as database:
        for table, column, value, row in edits:
            database.execute(
                f"UPDATE {table} SET {column} = ? WHERE rowid = 1 + ? % (SELECT count(*) FROM {table})", (value, row)
            )
        database.commit()
    return any((table, column) not in UNSEALED for table, column, *_ in edits), path


@settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits=st.lists(st.tuples(st.sampled_from(COLUMNS), JUNK, st.integers(0, 20)), min_size=1, max_size=3))
def test_verify_raises_on_nothing(whole: Path, tmp_path: Path, edits: list[Any]) -> None:
    _, path = changed(whole, [(table, column, value, row) for (table, column), value, row in edits], tmp_path)
    assert isinstance(Ledger(f"sqlite:///{path}").verify(), VerifyReport)


@pytest.mark.parametrize(
    "junk", [None, 7, 0.5, b"\xff\xfe", "junk", "[" * 3000], ids=["null", "7", "half", "bytes", "text", "deep"]
)
@pytest.mark.parametrize(("table", "column"), COLUMNS)
def test_junk_in_a_sealed_column_is_found_and_nothing_is_charged(
    whole: Path, tmp_path: Path, table: str, column: str, junk: Any
) -> None:
    from tests.privacy.ledger.conftest import UNIT, Bench
    from understudy.pipelines.privacy.ledger.ledger import Account
    from understudy.pipelines.privacy.ledger.store import MeasurementStore
    from understudy.pipelines.privacy.relation import Relation

    sealed, path = changed(whole, [(table, column, junk, 0)], tmp_path)
    ledger = Ledger(f"sqlite:///{path}")
    if not sealed:
        assert ledger.verify().ok
        return
    assert not ledger.verify().ok
    if (table, column) == ("ledger_accounts", "name"):
        return  # there is no account to charge
    account = Account("clinic", Relation.ADD_REMOVE, UNIT, Budget("4", "1e-6"))
    bench = Bench("", ledger, MeasurementStore(tmp_path / "measurements"), account)
    with pytest.raises(LedgerError, match="does not verify"):
        ledger.charge(bench.request("may"), Holder.here())
