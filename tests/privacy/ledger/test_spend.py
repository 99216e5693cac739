"""The protocol as one process sees it. Kills, races and lost databases are in tests/faults."""

from __future__ import annotations

import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import text, update

from tests.recipes import mechanism_of
from understudy.pipelines.errors import BudgetRefused, ChargeBurnt, ChargeHeld, LedgerError
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.ledger.holder import Presence, in_progress
from understudy.pipelines.privacy.ledger.ledger import Holder, State
from understudy.pipelines.privacy.ledger.schema import charges
from understudy.pipelines.privacy.ledger.spend import Patience, Purchases
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import PlannedCharge, Purchase

ELSEWHERE = Holder("another-attempt", "another-host/boot/pid:[1]", 1, "1")
GONE = replace(Holder.here(), token="gone", pid=2**22 + 1)


def same(one: Measurement, other: Measurement) -> bool:
    return (one.kind, one.facts) == (other.kind, other.facts) and all(
        np.array_equal(one.arrays[name], other.arrays[name]) for name in (*one.arrays, *other.arrays)
    )


def state_of(bench, snapshot: str = "2026-01", **terms) -> State:
    return bench.ledger.find(bench.request(snapshot, **terms).mid).state


def test_it_is_the_door_that_methods_know(bench):
    purchase: Purchase = Purchases(bench.ledger, bench.store, lambda planned: bench.request(stage=planned.stage))
    sold = mechanism_of(Gaussian(10.0), lambda randomness: {})
    assert purchase(PlannedCharge("marginals", Gaussian(10.0)), sold).kind == "counts"


def test_buying_again_spends_nothing_and_draws_nothing(bench):
    first = bench.buy()
    for _ in range(100):
        assert same(bench.buy(), first)
    assert len(bench.draws) == 1
    assert bench.events == ["charged", "measured"] + ["reused"] * 100
    assert bench.ledger.balance("clinic").charges == 1
    assert not same(bench.buy("2026-02"), first)


def test_what_is_returned_is_what_was_stored(bench):
    assert bench.buy(facts={"shape": (1, 2)}).facts == {"shape": [1, 2]}


def test_a_refused_purchase_draws_nothing(bench):
    with pytest.raises(BudgetRefused):
        bench.buy(event=Gaussian(0.1))
    assert (bench.draws, bench.events, bench.ledger.charges("clinic")) == ([], [], [])


def test_an_error_in_the_draw_burns_the_charge_and_quotes_nothing(bench):
    def draw(randomness):
        raise ValueError("the diagnosis of Mr Smith is private")

    with pytest.raises(ChargeBurnt, match="ValueError at draw") as burnt:
        bench.buy(draw=draw)
    assert "Smith" not in str(burnt.value)
    assert burnt.value.__context__ is None
    assert "Smith" not in str(bench.ledger.export())
    assert bench.events == ["charged", "burnt"]
    with pytest.raises(ChargeBurnt):
        bench.buy()
    assert len(bench.draws) == 1


def test_an_interrupt_in_the_draw_burns_and_stays_an_interrupt(bench):
    def draw(randomness):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bench.buy(draw=draw)
    assert state_of(bench) is State.BURNT


def test_paying_again_after_a_burnt_charge_is_a_second_charge_that_later_runs_find(bench):
    with pytest.raises(ChargeBurnt):
        bench.buy(draw=lambda randomness: {"a": np.array(["not a number"])})
    with pytest.raises(ChargeBurnt):
        bench.buy()
    paid = bench.buy(pay_again=True)
    assert same(bench.buy(), paid)
    assert same(bench.buy(pay_again=True), paid)  # not burnt: there is nothing to pay again
    balance = bench.ledger.balance("clinic")
    assert (balance.charges, balance.burnt, len(bench.draws)) == (2, 1, 2)


def test_an_approved_attempt_is_not_taken_back(bench):
    bench.ledger.charge(bench.request(), GONE)
    bench.ledger.burn(bench.request().mid, "gone")
    bench.buy(attempt=1)
    assert state_of(bench, attempt=1) is State.MEASURED


def test_no_room_is_found_before_anything_is_charged(bench, monkeypatch):
    monkeypatch.setattr("understudy.pipelines.privacy.ledger.shelves.MIN_FREE_BYTES", 1 << 62)
    with pytest.raises(LedgerError, match="Nothing was charged"):
        bench.buy()
    assert bench.ledger.charges("clinic") == []


@pytest.mark.parametrize("name", ["after_t1", "after_draw", "measurement_staged", "measurement_renamed"])
def test_an_error_before_t2_burns(bench, monkeypatch, name):
    monkeypatch.setenv("UNDERSTUDY_FAULT", f"{name}:raise")
    with pytest.raises(Exception, match=r"FaultInjected|fault injected"):
        bench.buy()
    monkeypatch.delenv("UNDERSTUDY_FAULT")
    with pytest.raises(ChargeBurnt):
        bench.buy()
    assert len(bench.draws) <= 1
    assert not bench.store.holds(bench.request().mid)


@pytest.mark.parametrize("name", ["before_t1", "inside_t1"])
def test_an_error_before_the_charge_is_committed_costs_nothing(bench, monkeypatch, name):
    monkeypatch.setenv("UNDERSTUDY_FAULT", f"{name}:raise")
    with pytest.raises(RuntimeError, match="fault injected"):
        bench.buy()
    monkeypatch.delenv("UNDERSTUDY_FAULT")
    assert bench.ledger.charges("clinic") == []
    bench.buy()


@pytest.mark.parametrize("name", ["inside_t2", "after_t2"])
def test_an_error_once_the_measurement_is_stored_loses_nothing(bench, monkeypatch, name):
    monkeypatch.setenv("UNDERSTUDY_FAULT", f"{name}:raise")
    with pytest.raises(RuntimeError, match="fault injected"):
        bench.buy()
    monkeypatch.delenv("UNDERSTUDY_FAULT")
    bench.buy()
    assert (len(bench.draws), state_of(bench)) == (1, State.MEASURED)


def test_a_dead_holder_on_this_machine_is_burnt_at_once(bench):
    bench.ledger.charge(bench.request(), GONE, lease_seconds=10_000)
    with pytest.raises(ChargeBurnt, match="died"):
        bench.buy()
    assert (bench.draws, bench.events) == ([], ["burnt"])


def test_a_live_holder_on_this_machine_is_never_burnt_whatever_its_lease_says(bench):
    live = Holder.here()
    bench.ledger.charge(bench.request(), live, lease_seconds=-10_000)
    with in_progress(live), pytest.raises(ChargeHeld, match="process") as held:
        bench.buy()
    assert "ledger burn" in held.value.fix
    assert state_of(bench) is State.CHARGED
    assert bench.draws == []


def test_a_holder_elsewhere_is_burnt_only_after_its_lease(bench):
    bench.ledger.charge(bench.request("held"), ELSEWHERE, lease_seconds=10_000)
    with pytest.raises(ChargeHeld):
        bench.buy("held", patience=Patience(heartbeat=0.02, wait=0.3, poll=0.01))
    bench.ledger.charge(bench.request("left"), ELSEWHERE, lease_seconds=-1)
    with pytest.raises(ChargeBurnt):
        bench.buy("left", patience=Patience(heartbeat=0.02, wait=60, poll=0.01))


def test_a_clock_that_jumps_forward_burns_nobody_whose_heart_still_beats(bench):
    """The lease looks expired at every look, as after a jump, but it keeps moving."""
    charge = bench.ledger.charge(bench.request(), ELSEWHERE, lease_seconds=-10_000)
    stop = threading.Event()

    def beat():
        for step in range(10_000):
            if stop.wait(0.02):
                return
            moved = update(charges).values(lease_until=charge.lease_until + step / 1000)
            bench.ledger._database.write(lambda connection, moved=moved: connection.execute(moved))

    thread = threading.Thread(target=beat)
    thread.start()
    try:
        with pytest.raises(ChargeHeld):
            bench.buy(patience=Patience(heartbeat=0.75, wait=2.5, poll=0.01))
    finally:
        stop.set()
        thread.join()
    assert state_of(bench) is State.CHARGED


def test_a_clock_that_jumps_back_only_makes_leases_longer(bench):
    ledger = bench.ledger
    holder = Holder.here()
    mid = ledger.charge(bench.request(), holder, lease_seconds=10_000).mid
    before = ledger.find(mid).lease_until
    assert ledger.extend_lease(mid, holder, lease_seconds=1) is False
    assert ledger.find(mid).lease_until == before


def test_the_heartbeat_extends_the_lease_during_a_long_draw(bench):
    seen = []

    def draw(randomness):
        mid = bench.request().mid
        first = bench.ledger.find(mid).lease_until
        for _ in range(1000):
            seen.append(bench.ledger.find(mid).lease_until)
            if seen[-1] > first:
                break
            time.sleep(0.01)
        return {}

    bench.buy(draw=draw)
    assert seen[-1] > seen[0]


def test_a_second_thread_waits_and_uses_the_first_ones_draw(bench):
    drawing, go = threading.Event(), threading.Event()
    results = []

    def slow(randomness):
        drawing.set()
        assert go.wait(30)
        return {"a": randomness.words(1).astype(np.int64)}

    patience = Patience(wait=60, poll=0.01)
    first = threading.Thread(target=lambda: results.append(bench.buy(draw=slow, patience=patience)))
    second = threading.Thread(target=lambda: results.append(bench.buy(patience=patience)))
    first.start()
    assert drawing.wait(30)
    second.start()
    go.set()
    first.join()
    second.join()
    assert len(bench.draws) == 1
    assert same(*results)


def test_a_charge_burnt_during_the_draw_publishes_nothing(bench):
    def draw(randomness):
        bench.ledger.burn(bench.request().mid, "the operator thought it was dead")
        return {}

    with pytest.raises(ChargeBurnt, match="operator"):
        bench.buy(draw=draw)
    assert not bench.store.holds(bench.request().mid)


def test_a_ledger_older_than_its_measurements_is_refused(bench):
    """As after a restore from an old backup: forgotten charges must not be paid and drawn a second time."""
    bench.buy("jan")
    bench.ledger._database.write(lambda connection: connection.execute(text("DELETE FROM ledger_charges")))
    for snapshot in ("jan", "feb"):
        with pytest.raises(LedgerError, match="does not know 1 measurement"):
            bench.buy(snapshot)
    assert len(bench.draws) == 1


def test_a_lost_measurement_is_never_drawn_again(bench):
    bench.buy()
    bench.store.discard(bench.request().mid)
    with pytest.raises(LedgerError, match="cannot be read"):
        bench.buy()
    assert len(bench.draws) == 1


def test_presence():
    me = Holder.here()
    assert me.presence() is Presence.DEAD  # not in progress
    with in_progress(me):
        assert me.presence() is Presence.ALIVE
    reused = replace(me, pid=1, started="0")
    assert reused.presence() is Presence.DEAD  # a reused pid has another start time
    assert GONE.presence() is Presence.DEAD
    assert ELSEWHERE.presence() is Presence.UNKNOWN
    assert replace(me, started="").presence() is Presence.UNKNOWN
