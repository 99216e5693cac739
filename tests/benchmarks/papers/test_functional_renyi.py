"""The f-RDP toolbox: the paper's Table 2, and agreement with what the ledger charges."""

import math

import pytest

from benchmarks.papers.functional_renyi import (
    converted,
    functional_gaussian,
    parallel,
    sequential,
    subsampled_functional_gaussian,
    tightly_converted,
)
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian, PoissonSampled, SelfComposed
from understudy.pipelines.privacy.relation import Relation

ORDERS = (*range(2, 64), 80, 96, 128, 192, 256, 512)  # whole orders: exact and quick

TABLE_2 = [  # rate, noise, steps, Renyi epsilon, PLD epsilon; delta 1e-5 (the paper, Table 2; PLD by dp-accounting)
    (0.001, 0.60, 200_000, 9.718, 8.861),
    (0.001, 1.95, 200_000, 0.994, 0.912),
    (0.001, 8.0, 200_000, 0.2022, 0.192),
    (0.01, 1.0, 20_000, 9.997, 9.268),
    (0.01, 5.75, 20_000, 1.0055, 0.920),
    (0.01, 25.0, 20_000, 0.2038, 0.1843),
]


@pytest.mark.parametrize(("rate", "noise", "steps", "renyi", "pld"), TABLE_2)
def test_the_budgets_of_the_papers_table_2(rate, noise, steps, renyi, pld):
    curve = subsampled_functional_gaussian(rate, noise)
    assert tightly_converted(sequential([(curve, steps)]), 1e-5) == pytest.approx(renyi, rel=2e-3)


@pytest.mark.parametrize(("rate", "noise", "steps", "renyi", "pld"), [TABLE_2[1], TABLE_2[4], TABLE_2[5]])
def test_the_ledger_charges_the_smaller_bound(rate, noise, steps, renyi, pld):
    loss = composed_loss([SelfComposed(PoissonSampled(rate, Gaussian(noise)), steps)], 1e-5, Relation.ADD_REMOVE)
    assert loss.accountant == "pld"
    assert loss.epsilon == pytest.approx(pld, rel=3e-3)


def test_wrong_noise_is_noticed():
    right = subsampled_functional_gaussian(0.01, 5.75, ORDERS)
    wrong = subsampled_functional_gaussian(0.01, 5.75 * 0.98, ORDERS)
    assert tightly_converted(sequential([(wrong, 20_000)]), 1e-5) > 1.01 * tightly_converted(
        sequential([(right, 20_000)]), 1e-5
    )


def test_a_gaussian_costs_its_order_over_twice_the_variance():
    curve = functional_gaussian(3.0, (2.0, 5.0))
    assert curve.epsilons == pytest.approx((2 / 18, 5 / 18))
    assert converted(curve, 1e-5) == pytest.approx(min(2 / 18 + math.log(1e5), 5 / 18 + math.log(1e5) / 4))


def test_the_papers_conversion_is_never_below_the_tight_one():
    curve = functional_gaussian(3.7, ORDERS)
    assert converted(curve, 1e-5) >= tightly_converted(curve, 1e-5)


def test_parallel_parts_cost_the_worst_and_sequential_ones_the_sum():
    weak, strong = functional_gaussian(4.0, (2.0, 3.0)), functional_gaussian(2.0, (2.0, 3.0))
    assert parallel([weak, strong]).epsilons == strong.epsilons
    assert sequential([(weak, 2), (strong, 1)]).epsilons == pytest.approx(
        tuple(2 * a + b for a, b in zip(weak.epsilons, strong.epsilons, strict=True))
    )


def test_curves_at_other_orders_do_not_compose():
    with pytest.raises(ValueError, match="same orders"):
        parallel([functional_gaussian(1.0, (2.0,)), functional_gaussian(1.0, (3.0,))])
    with pytest.raises(ValueError, match="nothing"):
        sequential([])
