from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant

from understudy.pipelines.errors import BudgetRefused, ChargeBurnt, LedgerError, SpecError
from understudy.pipelines.privacy.accounting import calibrate_gaussian, composed_loss
from understudy.pipelines.privacy.events import Composed, Gaussian, Parallel, PoissonSampled, SelfComposed
from understudy.pipelines.privacy.filters import RenyiFilter
from understudy.pipelines.privacy.ledger.ledger import Holder, State
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

SHA = "a" * 64
UNIT = Unit("patient", 5)


def test_ten_monthly_releases_cost_less_than_ten_times_one(bench):
    monthly = Gaussian(calibrate_gaussian(Budget("0.3", "1e-6")))
    for month in range(1, 11):
        bench.buy(f"2026-{month:02}", event=monthly)
    balance = bench.ledger.balance("clinic")
    expected = composed_loss([SelfComposed(monthly, 10)], 1e-6, Relation.ADD_REMOVE)
    assert (balance.spent.epsilon, balance.spent.accountant) == (expected.epsilon, "gdp filter")
    assert 0.9 < balance.spent.epsilon < 1.2
    assert (balance.charges, balance.burnt) == (10, 0)


@pytest.mark.parametrize(
    ("epsilon", "costs"),
    [
        ("0.3", (0.299999927, 0.434526997, 0.70982764, 1.030505453)),
        ("0.5", (0.49999958, 0.724918957, 1.187279578, 1.729380411)),
    ],
)
def test_monthly_default_releases_cost_to_the_last_digit_what_they_cost_before_filters(bench, epsilon, costs):
    """Golden numbers of commit 7b5a274 after 1, 2, 5 and 10 months: the GDP filter is free."""
    monthly = Gaussian(calibrate_gaussian(Budget(epsilon, "1e-6")))
    spent = []
    for month in range(1, 11):
        bench.ledger.charge(bench.request(f"2026-{month:02}", event=monthly), Holder.here())
        spent.append(bench.ledger.balance("clinic").spent.epsilon)
    assert (spent[0], spent[1], spent[4], spent[9]) == costs


def test_remaining_is_exactly_what_the_ledger_then_accepts(bench):
    event = Gaussian(2.0)
    more = bench.ledger.balance("clinic").remaining(event)
    for index in range(more):
        bench.buy(str(index), event=event)
    assert bench.ledger.balance("clinic").remaining(event) == 0
    with pytest.raises(BudgetRefused, match="cannot pay"):
        bench.buy("one too many", event=event)
    assert len(bench.draws) == more > 0
    assert bench.ledger.verify().ok


def test_a_cap_is_met_exactly_by_the_release_calibrated_to_it(bench):
    event = Gaussian(calibrate_gaussian(bench.account.cap))
    bench.buy(event=event)
    assert bench.ledger.balance("clinic").spent.epsilon <= 3


def test_check_reads_and_promises_but_changes_nothing(bench):
    before = bench.ledger.export()
    requests = [bench.request(stage=stage) for stage in ("a", "b")]
    loss = bench.ledger.check(requests)
    assert loss.epsilon == composed_loss([SelfComposed(Gaussian(10.0), 2)], 1e-6, Relation.ADD_REMOVE).epsilon
    assert bench.ledger.export() == before


def test_check_counts_what_is_already_paid_only_once(bench):
    bench.buy(stage="a", event=Gaussian(4.0))
    paid = bench.request(stage="a", event=Gaussian(4.0))
    assert bench.ledger.check([paid]) == bench.ledger.balance("clinic").spent
    both = bench.ledger.check([paid, bench.request(stage="b", event=Gaussian(4.0))])
    assert both.epsilon == composed_loss([SelfComposed(Gaussian(4.0), 2)], 1e-6, Relation.ADD_REMOVE).epsilon


def test_check_refuses_requests_that_only_fit_one_by_one(bench):
    event = Gaussian(calibrate_gaussian(Budget("2.9", "1e-6")))
    bench.ledger.check([bench.request(stage="a", event=event)])
    with pytest.raises(BudgetRefused, match="spent epsilon 0 of 3") as refused:
        bench.ledger.check([bench.request(stage=stage, event=event) for stage in "ab"])
    assert refused.value.exit_code == 3


@pytest.mark.parametrize(
    "changes", [{"relation": Relation.REPLACE_ONE}, {"unit": Unit("patient", 4)}, {"unit": Unit()}]
)
def test_other_relation_or_unit_than_the_account(bench, changes):
    with pytest.raises(SpecError, match="protects"):
        bench.ledger.check([bench.request(**changes)])
    with pytest.raises(SpecError, match="protects"):
        bench.ledger.charge(bench.request(**changes), Holder.here())
    assert bench.ledger.charges("clinic") == []


def test_t1_makes_one_charge_and_shows_others_whose_it_is(bench):
    first, second = Holder.here(), Holder.here()
    mine = bench.ledger.charge(bench.request(), first)
    assert (mine.state, mine.holder) == (State.CHARGED, first)
    assert bench.ledger.charge(bench.request(), second) == mine
    assert bench.ledger.charge(bench.request(), first) == mine
    assert bench.ledger.balance("clinic").charges == 1


def test_the_event_does_not_name_the_charge_so_recalibrated_noise_finds_what_was_paid(bench):
    assert bench.request(event=Gaussian(10.0)).mid == bench.request(event=Gaussian(10.1), flow_run="other").mid
    names = {
        bench.request(**change).mid
        for change in (
            {},
            {"stage": "x"},
            {"snapshot": "x"},
            {"spec_hash": "x"},
            {"attempt": 1},
            {"account": "x"},
        )
    }
    assert len(names) == 6


def test_t2_takes_one_measurement_from_the_holder_alone(bench):
    holder = Holder.here()
    mid = bench.ledger.charge(bench.request(), holder).mid
    with pytest.raises(LedgerError, match="not taken"):
        bench.ledger.record_measurement(mid, SHA, Holder.here())
    measured = bench.ledger.record_measurement(mid, SHA, holder)
    assert (measured.state, measured.measurement_sha256) == (State.MEASURED, SHA)
    assert bench.ledger.record_measurement(mid, SHA, holder) == measured  # its own success, asked again
    with pytest.raises(LedgerError, match="not taken"):
        bench.ledger.record_measurement(mid, "b" * 64, holder)
    assert [entry.action for entry in bench.ledger.history()] == ["opened", "charged", "measured"]


def test_a_burnt_charge_takes_no_measurement_and_is_never_refunded(bench):
    holder = Holder.here()
    mid = bench.ledger.charge(bench.request(), holder).mid
    spent = bench.ledger.balance("clinic").spent
    with pytest.raises(SpecError, match="reason"):
        bench.ledger.burn(mid, "")
    assert bench.ledger.burn(mid, "the machine is gone").state is State.BURNT
    with pytest.raises(ChargeBurnt, match="the machine is gone") as burnt:
        bench.ledger.record_measurement(mid, SHA, holder)
    assert burnt.value.exit_code == 4
    assert "--pay-again" in burnt.value.fix
    balance = bench.ledger.balance("clinic")
    assert (balance.spent, balance.charges, balance.burnt) == (spent, 1, 1)
    assert bench.ledger.burn(mid, "again").reason == "the machine is gone"


def test_a_measured_charge_cannot_be_burnt(bench):
    bench.buy()
    with pytest.raises(SpecError, match="nothing to burn"):
        bench.ledger.burn(bench.request().mid, "by mistake")
    with pytest.raises(SpecError, match="no charge"):
        bench.ledger.burn("f" * 64, "by mistake")


def test_paying_again_is_for_burnt_charges_only(bench):
    ledger, request = bench.ledger, bench.request()
    with pytest.raises(SpecError, match="not the next one"):
        ledger.charge(replace(request, attempt=1), Holder.here())
    ledger.charge(request, Holder.here())
    with pytest.raises(SpecError, match="not the next one"):
        ledger.charge(replace(request, attempt=1), Holder.here())
    ledger.burn(request.mid, "gone")
    with pytest.raises(ChargeBurnt):
        ledger.check([request])
    assert ledger.check([request], pay_again=True).epsilon > ledger.balance("clinic").spent.epsilon
    assert (ledger.attempt_for(request), ledger.attempt_for(request, pay_again=True)) == (0, 1)
    ledger.charge(replace(request, attempt=1), Holder.here())
    assert (ledger.attempt_for(request), ledger.attempt_for(request, pay_again=True)) == (1, 1)
    assert ledger.balance("clinic").charges == 2
    assert ledger.verify().ok


def test_a_renyi_account_holds_samples_beside_gaussians_at_its_one_order(bench):
    rule = RenyiFilter(8.0)
    bench.ledger.open_account("sampled", Relation.ADD_REMOVE, UNIT, Budget("3", "1e-6"), filter=rule)
    steps = SelfComposed(PoissonSampled(0.01, Gaussian(2.0)), 50)
    bench.buy(stage="steps", event=steps, account="sampled")
    bench.buy(stage="counts", event=Gaussian(10.0), account="sampled")
    spent = bench.ledger.balance("sampled").spent
    by_hand = RdpAccountant([8.0])
    by_hand.compose(dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(2.0)), 50)
    by_hand.compose(dp_accounting.GaussianDpEvent(10.0))
    assert spent.epsilon == pytest.approx(by_hand.get_epsilon(1e-6), abs=2e-9)
    assert spent.epsilon > composed_loss([Composed((Gaussian(10.0), steps))], 1e-6, Relation.ADD_REMOVE).epsilon
    assert bench.ledger.verify().ok


def test_an_event_no_accountant_knows_is_refused_in_words(bench):
    bench.ledger.open_account("other", Relation.REPLACE_ONE, Unit(), Budget("3", "1e-6"))
    terms = {"account": "other", "relation": Relation.REPLACE_ONE, "unit": Unit()}
    request = bench.request(event=Parallel((Gaussian(3.0), Gaussian(2.0))), **terms)
    for attempt in (
        lambda: bench.ledger.check([request]),
        lambda: bench.ledger.charge(request, Holder.here()),
    ):
        with pytest.raises(SpecError, match="cannot be accounted for"):
            attempt()
    assert bench.ledger.charges("other") == []


def test_look_ups(bench):
    bench.buy("jan", stage="a")
    bench.buy("jan", stage="b")
    bench.buy("feb", stage="a", release="other")
    assert {charge.stage for charge in bench.ledger.charges_of("clinic", "visits", "jan")} == {"a", "b"}
    assert bench.ledger.charges_of("clinic", "visits", "feb") == []
    assert len(bench.ledger.charges("clinic")) == 3
    mid = bench.request("jan", "a").mid
    assert bench.ledger.resolve(mid[:10]) == mid
    assert bench.ledger.unknown([mid, "0" * 64]) == ["0" * 64]
    for wrong in ("", "zzzzzzzz", mid[:2], "%"):
        with pytest.raises(SpecError, match="names"):
            bench.ledger.resolve(wrong)


def test_export_is_plain_json_and_complete(bench):
    bench.buy()
    exported = json.loads(json.dumps(bench.ledger.export()))
    assert exported["ledger"] == bench.ledger.id
    assert [row["name"] for row in exported["accounts"]] == ["clinic"]
    assert exported["charges"][0]["event"] == {"kind": "gaussian", "noise_multiplier": 10.0}
    assert [line["action"] for line in exported["history"]] == ["opened", "charged", "measured"]


def test_left_is_in_decimals(bench):
    assert bench.ledger.balance("clinic").left == Decimal(3)
