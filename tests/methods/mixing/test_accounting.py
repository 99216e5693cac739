"""Golden numbers of the paper and of docs/mixing.md, and noise that stays within its budget."""

from dataclasses import replace
from decimal import Decimal

import dp_accounting
import pytest
from dp_accounting.rdp import RdpAccountant

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.mixing.accounting import (
    calibrated,
    certified,
    paper_epsilon,
    statistics_multiplier,
    sweep,
)
from understudy.pipelines.methods.mixing.mechanism import MixtureDesign
from understudy.pipelines.methods.mixing.paper import theorem_1_epsilon, theorem_1_noise
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Gaussian
from understudy.pipelines.privacy.relation import Budget, Relation

DELTA = 1e-5


def mnist_design(order, sigma_of_mean):
    """60,000 records in ten balanced classes, c = 1, noise given on the mean of l records."""
    return MixtureDesign("poisson", order / 6000, order, 6000, sigma_of_mean * order)


@pytest.mark.parametrize(
    ("order", "sigma", "renyi", "pld"),
    [(4, 0.2659, 0.5565, 0.2095), (4, 0.5, 0.1375, 0.0849), (64, 0.0236, 2.780, 2.554)],
)
def test_sound_cost_of_the_papers_settings(order, sigma, renyi, pld):
    event = mnist_design(order, sigma).event(6000)
    accountant = RdpAccountant()
    gaussian = dp_accounting.GaussianDpEvent(event.event.event.noise_multiplier)
    accountant.compose(dp_accounting.PoissonSampledDpEvent(event.event.rate, gaussian), event.count)
    assert accountant.get_epsilon(DELTA) == pytest.approx(renyi, rel=1e-3)
    loss = composed_loss([event], DELTA, Relation.ADD_REMOVE)
    assert loss.accountant == "pld"
    assert loss.epsilon == pytest.approx(pld, rel=1e-3)


def test_corrected_theorem_1():
    assert theorem_1_epsilon(4, 0.5, 0.5, 60_000, 60_000, DELTA) == pytest.approx(1.063, abs=5e-4)
    assert theorem_1_epsilon(4, 0.2659, 0.2659, 60_000, 60_000, DELTA) == pytest.approx(10.0, abs=0.02)
    assert theorem_1_epsilon(64, 0.0236, 0.0236, 60_000, 60_000, DELTA) == pytest.approx(10.0, abs=0.02)
    assert theorem_1_noise(10.0, 4, 60_000, 60_000, DELTA) == pytest.approx(0.2659, rel=2e-3)


@pytest.mark.parametrize(("population", "epsilon"), [(60_000, 0.749), (6000, 1.170)])
def test_theorem_1_beside_dp_accounting(population, epsilon):
    """The library's conversion is tighter than the paper's; its curve is the same bound (Wang et al. 2019)."""
    # Feature and label noise together: 1/z^2 = (2c/(l s))^2 + 2/(l s)^2 at l = 4, s = 0.5.
    noise = dp_accounting.GaussianDpEvent((1.0**2 + 2 / 2.0**2) ** -0.5)
    accountant = RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    accountant.compose(dp_accounting.SampledWithoutReplacementDpEvent(population, 4, noise), population)
    assert accountant.get_epsilon(DELTA) == pytest.approx(epsilon, abs=1e-3)
    assert theorem_1_epsilon(4, 0.5, 0.5, population, population, DELTA) > epsilon


def test_the_plan_shows_the_papers_figure_beside_the_sound_one():
    assert paper_epsilon(mnist_design(4, 0.5), 6000, 6000, DELTA) == pytest.approx(1.609, abs=2e-3)


@pytest.mark.parametrize(("epsilon", "order"), [("2", 64), ("0.5", 64)])
def test_certified_noise_fits_and_is_not_wasteful(epsilon, order):
    budget = Budget(Decimal(epsilon), Decimal("1e-5"))
    spent = statistics_multiplier(budget, 0.1)
    design, loss = certified(mnist_design(order, 1.0), 6000, spent, budget)
    assert loss.epsilon <= float(epsilon)
    less = replace(design, noise_multiplier=design.noise_multiplier * 0.98)
    over = composed_loss([Gaussian(spent), less.event(6000)], DELTA, Relation.ADD_REMOVE)
    assert over.epsilon > float(epsilon)


def test_more_mixtures_and_higher_rates_cost_more_noise():
    budget = Budget(Decimal(2), Decimal("1e-5"))
    base = calibrated(mnist_design(32, 1.0), 2000, None, budget, 0.02)
    assert calibrated(mnist_design(32, 1.0), 20_000, None, budget, 0.02) > base
    assert calibrated(mnist_design(128, 1.0), 2000, None, budget, 0.02) > base
    fixed = MixtureDesign("fixed", 32 / 6000, 32, 6000, 1.0)
    assert 2 * base < calibrated(fixed, 2000, None, budget, 0.02) < 2.3 * base  # twice the reach, and no PLD for it


def test_the_sweep_has_an_interior_best_order():
    budget = Budget(Decimal(1), Decimal("1e-5"))
    lines = sweep((2, 16, 256), lambda order: mnist_design(order, 1.0), 6000, 784, None, budget)
    assert [line.order for line in lines] == [2, 16, 256]
    assert max(lines, key=lambda line: line.signal_to_noise).order == 16


def test_a_budget_that_is_spent_already_is_refused():
    budget = Budget(Decimal("0.1"), Decimal("1e-5"))
    with pytest.raises(SpecError, match="no noise level"):
        calibrated(mnist_design(4, 1.0), 6000, 1.0, budget, 0.02)
