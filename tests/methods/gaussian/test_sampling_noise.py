"""sampling-noise: exact draws, a public size, charges by batch, moments that go nowhere."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from understudy.pipelines.errors import SpecError
from understudy.pipelines.methods.gaussian import rounded_normals as module
from understudy.pipelines.methods.gaussian.fitting import fitted_normal
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.method import GaussianMethod
from understudy.pipelines.methods.gaussian.moments import MAX_GRID, exact_products
from understudy.pipelines.methods.gaussian.pseudo_records import curve
from understudy.pipelines.methods.gaussian.rounded_normals import rounded_normals
from understudy.pipelines.methods.gaussian.sampling_noise import SampleNoise
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.table.domain import TableDomain

COLUMNS = """
  id: {type: identifier, action: surrogate}
  x: {type: number, min: -1, max: 1, decimals: 3}
  y: {type: integer, min: 0, max: 100, nullable: true}
"""


def table(count: int, seed: int = 0) -> pa.Table:
    rng = np.random.default_rng(seed)
    x = np.clip(rng.normal(0.2, 0.3, count), -1, 1)
    return pa.table({"x": x, "y": np.clip(50 + 40 * x + rng.normal(0, 5, count), 0, 100).astype(np.int64)})


@pytest.mark.parametrize(("factor", "accepted"), [(1.0, True), (0.95, False), (1.05, False)])
def test_draws_have_the_fitted_distribution_and_no_other(factor: float, accepted: bool) -> None:
    rows, mean = 6000, np.array([0.1, -0.4])
    root = np.array([[0.3, 0.0], [0.2, 0.5]])
    records = rounded_normals(rows, mean, root, 1024, operating_system_randomness()) / 1024
    whitened = np.linalg.solve(root * factor, (records - mean).T)
    p = stats.chi2(whitened.size).cdf(float((whitened**2).sum()))
    assert (1e-5 < p < 1 - 1e-5) == accepted


def test_lazy_and_refined_draws_agree_with_exact_probabilities(
    monkeypatch: pytest.MonkeyPatch, doubles: SimpleNamespace
) -> None:
    """With cells as coarse as 1/4 almost every record is refined; the result must be just as normal."""
    for cells in (4, 2**26):
        monkeypatch.setattr(module, "CELLS", cells)
        words = doubles.SeededWords(cells)
        found = rounded_normals(4000, np.array([0.3]), np.array([[1.0]]), 2, words)[:, 0]
        values = np.arange(-5, 7)
        expected = np.diff(stats.norm(0.3, 1.0).cdf((np.append(values, 7) - 0.5) / 2))
        counts = np.array([np.sum(found == value) for value in values])
        rest = len(found) - counts.sum()
        expected = 4000 * np.append(expected, 1 - expected.sum())
        assert stats.chisquare(np.append(counts, rest), expected).pvalue > 1e-4


def test_each_batch_is_a_charge_and_together_they_fit(doubles: SimpleNamespace) -> None:
    for relation in Relation:
        spec = doubles.make_spec(
            COLUMNS, ", mode: sampling-noise, rows: 103, batches: 4", f", relation: {relation.value}"
        )
        made = doubles.release(spec, table(5000))
        assert [charge.stage for charge, _ in made.purchase.bought] == [f"samples-{i}" for i in (1, 2, 3, 4)]
        assert [len(one.arrays["records"]) for _, one in made.purchase.bought] == [25, 26, 26, 26]
        loss = composed_loss([charge.event for charge in made.plan.charges], 1e-5, relation)
        assert 0.97 < loss.epsilon <= 1.0
        assert made.table.num_rows == 103
        assert made.table.column_names == ["id", "x", "y"]


def test_the_size_of_the_output_is_public(doubles: SimpleNamespace) -> None:
    for count in (0, 1, 7, 400):
        spec = doubles.make_spec(COLUMNS, ", mode: sampling-noise", "", ", rows: 60")
        made = doubles.release(spec, table(count))
        assert made.table.num_rows == 60
        assert made.measured.facts.keys() == {"mode", "steps"}
        assert made.measured.arrays.keys() == {"records"}
        with pytest.raises(SpecError, match="bought 60 samples"):
            GaussianMethod().generate(made.measured, spec, made.domain, 61, lambda *_: None)


def test_the_fit_has_the_pseudo_records_that_its_event_counts_on(doubles: SimpleNamespace) -> None:
    """The theorem's bound is far from tight, so that fewer of them would not show in the distance of neighbours."""
    layout = Layout.of(TableDomain.of(doubles.make_spec(COLUMNS)), None, MAX_GRID)
    corner = exact_products(pa.table({"x": [1.0], "y": [100]}).to_batches(), layout, 1)[0]
    for pseudo in (150, 1000):
        noise = SampleNoise(10, 2, pseudo, Relation.ADD_REMOVE)
        assert noise.event == curve(10, 2, pseudo, Relation.ADD_REMOVE)
        np.testing.assert_allclose(noise.fitted(corner, layout).mean, 1 / (pseudo + 1))


def test_neighbours_take_the_same_steps_and_fit_within_the_theorem(doubles: SimpleNamespace) -> None:
    """Neighbour replay: same words, same requests; the fitted normals differ by no more than r = (d+1)/n0 allows."""
    domain = TableDomain.of(doubles.make_spec(COLUMNS))
    layout = Layout.of(domain, None, MAX_GRID)
    rng, pseudo = np.random.default_rng(2), 150
    for _ in range(30):
        count = int(rng.integers(0, 300))
        common = pa.table({"x": rng.choice([-1.0, 1.0, 0.3], count), "y": rng.choice([0, 100, 50], count)})
        extra = pa.table({"x": [float(rng.choice([-1, 1]))], "y": [int(rng.choice([0, 100]))]})
        fits, asked = [], []
        for rows in (pa.concat_tables([common, extra]), common):
            fit = fitted_normal(exact_products(rows.to_batches(), layout, 1)[0], layout, pseudo)
            words = doubles.SeededWords(9)
            rounded_normals(20, *fit, 4, words)
            fits.append(fit)
            asked.append(words.asked[0])
        assert asked[0] == asked[1]
        (mean, root), (_, other_root) = fits
        record = np.array([extra["x"][0].as_py(), extra["y"][0].as_py() / 50 - 1])
        length = float(np.sum(np.linalg.solve(root, record - mean) ** 2))
        assert length <= 3 / pseudo * (count + 1 + pseudo) * (1 + 1e-9)
        ratio = np.linalg.eigvals(np.linalg.solve(root @ root.T, other_root @ other_root.T)).real
        assert np.abs(np.log(ratio)).max() <= 3 / pseudo * 1.1 + 1 / pseudo


@pytest.mark.parametrize(
    ("columns", "method", "privacy", "message"),
    [
        (COLUMNS, "", "", "none is given"),
        (COLUMNS + "  k: {type: boolean}\n", ", rows: 5", "", "numeric columns only, not k"),
        (
            COLUMNS + "  u: {type: identifier}\n",
            ", rows: 5",
            ", unit: {entity: u, max_rows: 2}",
            "single rows",
        ),
        (COLUMNS, ", rows: 5, batches: 6", "", "cannot be split"),
    ],
)
def test_what_it_cannot_do_is_refused_by_the_plan(
    doubles: SimpleNamespace, columns: str, method: str, privacy: str, message: str
) -> None:
    spec = doubles.make_spec(columns, ", mode: sampling-noise" + method, privacy)
    with pytest.raises(SpecError, match=message):
        GaussianMethod().plan(spec, TableDomain.of(spec))
