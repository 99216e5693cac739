"""Whoever edits the tables by hand, in any single place, is found by `verify`."""

from __future__ import annotations

import pytest
from sqlalchemy import text

from understudy.pipelines.privacy.accounting import calibrate_gaussian
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.filters import RenyiFilter
from understudy.pipelines.privacy.ledger.ledger import Holder
from understudy.pipelines.privacy.relation import Budget, Relation, Unit


@pytest.fixture
def lived_in(bench):
    bench.buy("jan")
    bench.ledger.charge(bench.request("feb"), Holder.here())
    bench.ledger.burn(bench.request("feb").mid, "lost")
    bench.ledger.change_cap("clinic", Budget("4", "1e-6"), "more was needed")
    bench.ledger.charge(bench.request("mar"), Holder.here())
    bench.ledger.open_account("empty", Relation.REPLACE_ONE, Unit(), Budget("1", "1e-9"))
    return bench


def test_an_honest_history_verifies(lived_in):
    report = lived_in.ledger.verify()
    assert report.ok
    assert (report.accounts, report.charges, report.entries) == (2, 3, 8)
    assert report.heads["clinic"] == lived_in.ledger.balance("clinic").history_head


@pytest.mark.parametrize(
    ("edit", "found"),
    [
        ("UPDATE ledger_history SET body = '{}' WHERE seq = 3", "chain is broken"),
        ("UPDATE ledger_history SET at = '2020-01-01' WHERE seq = 1", "chain is broken"),
        ("UPDATE ledger_history SET action = 'burnt' WHERE action = 'measured'", "chain is broken"),
        ("DELETE FROM ledger_history WHERE seq = 2 AND account = 'clinic'", "chain is broken"),
        ("DELETE FROM ledger_history WHERE seq = 7 AND account = 'clinic'", "another last line"),
        ("UPDATE ledger_accounts SET epsilon = '400' WHERE name = 'clinic'", "cap differ"),
        ("UPDATE ledger_accounts SET relation = 'replace_one' WHERE name = 'clinic'", "relation"),
        ("UPDATE ledger_accounts SET max_rows = 1 WHERE name = 'clinic'", "unit"),
        (
            """UPDATE ledger_accounts SET filter = '{"kind":"renyi","order":2}' WHERE name = 'clinic'""",
            "filter differs",
        ),
        ("DELETE FROM ledger_charges WHERE state = 'BURNT'", "missing from the charges"),
        ("UPDATE ledger_charges SET state = 'CHARGED' WHERE state = 'BURNT'", "the history says BURNT"),
        ("UPDATE ledger_charges SET measurement_sha256 = 'x' WHERE state = 'MEASURED'", "MEASURED"),
        (
            "UPDATE ledger_charges SET event = "
            """'{"kind":"gaussian","noise_multiplier":999.0}' WHERE snapshot = 'jan'""",
            "differs from what the history sealed",
        ),
        ("UPDATE ledger_charges SET snapshot = 'april' WHERE snapshot = 'jan'", "differs"),
        ("UPDATE ledger_charges SET flow_run = 'mine' WHERE snapshot = 'jan'", "differs"),
    ],
)
def test_each_edit_by_hand_is_found(lived_in, edit, found):
    changed = lived_in.ledger._database.write(lambda connection: connection.exec_driver_sql(edit).rowcount)
    assert changed >= 1
    report = lived_in.ledger.verify()
    assert any(found in problem for problem in report.problems), report.problems


def test_a_charge_added_by_hand_is_found(lived_in):
    columns = (
        "account, release, stage, snapshot, spec_hash, attempt, event, state, measurement_sha256, flow_run, "
        "holder_token, holder_place, holder_pid, holder_started, lease_until, created_at, reason"
    )
    copied = columns.replace("snapshot", "'april'", 1)
    source = f"SELECT 'ff', {copied} FROM ledger_charges WHERE state = 'BURNT'"
    insert = f"INSERT INTO ledger_charges (mid, {columns}) {source}"
    lived_in.ledger._database.write(lambda connection: connection.execute(text(insert)))
    assert any("missing from the history" in problem for problem in lived_in.ledger.verify().problems)


def test_a_charge_over_the_cap_is_found_even_if_the_chain_is_whole(lived_in, monkeypatch):
    monkeypatch.setattr("understudy.pipelines.privacy.ledger.rows.within", lambda loss, cap: True)
    lived_in.ledger.charge(lived_in.request("apr", event=Gaussian(0.1)), Holder.here())
    problems = lived_in.ledger.verify().problems
    assert len(problems) == 1
    assert "exceed the cap" in problems[0]


def test_a_charge_that_the_filter_would_refuse_is_found_although_fixed_events_would_fit(bench, monkeypatch):
    """A Gaussian on a renyi account: within the cap as a fixed event, beyond it by the filter."""
    rule = RenyiFilter(8.0)
    bench.ledger.open_account("renyi", Relation.ADD_REMOVE, Unit("patient", 5), Budget("3", "1e-6"), filter=rule)
    event = Gaussian(calibrate_gaussian(Budget("2.95", "1e-6")))
    monkeypatch.setattr("understudy.pipelines.privacy.ledger.rows.within", lambda loss, cap: True)
    bench.ledger.charge(bench.request("jan", account="renyi", event=event), Holder.here())
    problems = bench.ledger.verify().problems
    assert len(problems) == 1
    assert "exceed the cap" in problems[0]
