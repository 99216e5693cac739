"""What was edited by hand is found by the next charge, inside its own transaction, and nothing is charged."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from sqlalchemy import text

from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.ledger import checking
from understudy.pipelines.privacy.ledger import history as ledger_history
from understudy.pipelines.privacy.ledger.ledger import Holder, Ledger, State
from understudy.pipelines.privacy.ledger.records import measurement_id
from understudy.pipelines.privacy.relation import Budget

SOFTER = """'{"kind":"gaussian","noise_multiplier":999.0}'"""
EDITS = {
    "a raised cap": "UPDATE ledger_accounts SET epsilon = '400'",
    "a larger delta": "UPDATE ledger_accounts SET delta = '0.1'",
    "another filter": """UPDATE ledger_accounts SET filter = '{"kind":"renyi","order":2.0,"own_delta":"0"}'""",
    "a softened event": f"UPDATE ledger_charges SET event = {SOFTER} WHERE snapshot = 'jan'",
    "a softened event and its line": f"UPDATE ledger_charges SET event = {SOFTER} WHERE snapshot = 'jan';"
    """UPDATE ledger_history SET body = replace(body, '10.0', '999.0') WHERE seq = 2""",
    "a deleted charge": "DELETE FROM ledger_charges WHERE snapshot = 'feb'",
    "a state turned back": "UPDATE ledger_charges SET state = 'CHARGED' WHERE state = 'BURNT'",
    "a charge of another snapshot": "UPDATE ledger_charges SET snapshot = 'april' WHERE snapshot = 'jan'",
    "a line cut from the end": "DELETE FROM ledger_history WHERE seq = 8",
    "a line cut from the middle": "DELETE FROM ledger_history WHERE seq = 3",
    "a newer line edited": "UPDATE ledger_history SET body = '{}' WHERE seq = 8",
    "a body that is no JSON": "UPDATE ledger_history SET body = '{{' WHERE seq = 8",
    "a head of its own": "UPDATE ledger_accounts SET history_head = 'x'",
}
CUT_CLEAN = (
    "DELETE FROM ledger_charges WHERE snapshot = 'mar'; DELETE FROM ledger_history WHERE seq > 6;"
    "UPDATE ledger_accounts SET epsilon = '4', history_seq = 6, "
    "history_head = (SELECT hash FROM ledger_history WHERE seq = 6)"
)


@pytest.fixture
def lived_in(bench, tmp_path):
    bench.ledger = Ledger(bench.url, busy_seconds=20, patience_seconds=2, checked=tmp_path / "checked")
    bench.buy("jan")
    bench.ledger.charge(bench.request("feb"), Holder.here())
    bench.ledger.burn(bench.request("feb").mid, "lost")
    bench.ledger.change_cap("clinic", Budget("4", "1e-6"), "more was needed")
    bench.ledger.charge(bench.request("mar"), Holder.here())
    bench.ledger.change_cap("clinic", Budget("3.5", "1e-6"), "less will do")  # newer than what was checked
    return bench


def edit(bench, statements: str) -> None:
    def work(connection):
        return [connection.execute(text(each.replace(":", "\\:"))).rowcount for each in statements.split(";")]

    assert min(bench.ledger._database.write(work)) >= 1


@pytest.mark.parametrize("remembered", [True, False], ids=["head remembered", "head lost"])
@pytest.mark.parametrize("what", EDITS)
def test_each_edit_by_hand_stops_the_next_charge(lived_in, tmp_path, what, remembered):
    edit(lived_in, EDITS[what])
    if not remembered:
        shutil.rmtree(tmp_path / "checked")
    before = len(lived_in.ledger.history("clinic")) if "JSON" not in what else None
    for attempt in (
        lambda: lived_in.ledger.check([lived_in.request("may")]),
        lambda: lived_in.ledger.charge(lived_in.request("may"), Holder.here()),
    ):
        with pytest.raises(LedgerError, match="does not verify: of account 'clinic'"):
            attempt()
    assert lived_in.ledger.find(lived_in.request("may").mid) is None
    assert before is None or len(lived_in.ledger.history("clinic")) == before


@pytest.mark.parametrize("account", ["clinic", "other"])
def test_a_sealed_line_whose_id_names_another_charge_is_told(lived_in, account):
    """As whoever knows how lines are sealed can write it: with its own id, or that of another account's charge."""
    body = {**lived_in.ledger.history("clinic")[1].body, "account": account, "snapshot": "may"}
    named = [body[key] for key in ("account", "spec_hash", "snapshot", "stage", "attempt")]
    mid = "f" * 64 if account == "clinic" else measurement_id(*named)
    lived_in.ledger._database.write(
        lambda connection: ledger_history.append(connection, "clinic", ledger_history.CHARGED, mid, body)
    )
    with pytest.raises(LedgerError, match="line 9 charges something that its id does not name"):
        lived_in.ledger.check([lived_in.request("jun")])


def test_a_history_cut_without_a_trace_is_missed_by_verify_and_found_by_what_was_checked(lived_in):
    edit(lived_in, CUT_CLEAN)
    assert lived_in.ledger.verify().ok
    with pytest.raises(LedgerError, match="line 7, which was its last when it was checked before, is gone"):
        lived_in.ledger.charge(lived_in.request("may"), Holder.here())


def test_a_charge_checks_only_what_is_new(lived_in, monkeypatch):
    seen = []
    original = checking.ledger_history.entries

    def watched(connection, account=None, after=0):
        found = original(connection, account, after)
        seen.append(len(found))
        return found

    monkeypatch.setattr(checking.ledger_history, "entries", watched)
    lived_in.ledger.charge(lived_in.request("apr"), Holder.here())
    lived_in.ledger.charge(lived_in.request("may"), Holder.here())
    lived_in.ledger.burn(lived_in.request("may").mid, "lost")
    lived_in.ledger.record_publication("clinic", [lived_in.request("jan").mid], "r-1", "a" * 64)
    lived_in.ledger.charge(lived_in.request("jun"), Holder.here())
    assert seen == [1, 0, 2]
    assert lived_in.ledger.verify().ok


@pytest.mark.parametrize("junk", ["", "[]", "{", "null", '{"account": "clinic"}'])
def test_a_torn_file_of_what_was_checked_costs_time_and_nothing_else(lived_in, tmp_path, junk):
    [path] = (tmp_path / "checked").rglob("*.json")
    assert json.loads(path.read_text())["seq"] == 7
    path.write_text(junk)
    assert lived_in.ledger.charge(lived_in.request("may"), Holder.here()).state is State.CHARGED
    assert json.loads(path.read_text())["seq"] == 9


def test_what_was_checked_is_kept_beside_a_file_and_in_the_process_for_a_server(bench, tmp_path, ledger_url):
    for snapshot in ("jan", "feb"):
        Ledger(ledger_url).charge(bench.request(snapshot), Holder.here())
    if ledger_url.startswith("sqlite"):
        [path] = Path(ledger_url.removeprefix("sqlite:///")).parent.glob("ledger.db.checked/*/*.json")
        assert json.loads(path.read_text())["charges"] == 2
    else:
        assert checking._in_process[bench.ledger.id, "clinic"].charges == 2


def test_a_charge_of_any_event_and_text_is_found_as_it_was_sealed(bench):
    odd = {"release": "a'b\"\\\n", "snapshot": "ä\x1f é", "flow_run": "", "event": Gaussian(1.0 + 2**-40 + 1e3)}
    for stage in ("one", "two"):
        bench.ledger.charge(bench.request(stage=stage, **odd), Holder.here())
    assert bench.ledger.balance("clinic").charges == 2


def test_publications_are_recorded_once_and_verified(lived_in):
    jan = [lived_in.request("jan").mid]
    first = lived_in.ledger.record_publication("clinic", jan, "r-1", "a" * 64)
    assert lived_in.ledger.record_publication("clinic", jan, "r-1", "a" * 64) == first
    second = lived_in.ledger.record_publication("clinic", jan, "r-1", "b" * 64)
    assert lived_in.ledger.publications("clinic") == (first, second)
    assert (first.mids, first.who["host"]) == (tuple(jan), lived_in.ledger.who.host)
    assert lived_in.ledger.verify().ok
    lived_in.ledger.record_publication("clinic", [lived_in.request("feb").mid], "r-2", "c" * 64)
    assert any("without a measured charge" in problem for problem in lived_in.ledger.verify().problems)
