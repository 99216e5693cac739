"""The plan's advice, and Figure 3."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks.papers.gaussian_figure import SIZES, curve, draw_figure_3
from understudy.pipelines.methods.gaussian.method import GaussianMethod
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.table.domain import TableDomain

NUMBERS = "".join(f"  n{i}: {{type: number, min: 0, max: 1}}\n" for i in range(6))


def comparison(doubles: SimpleNamespace, method: str, columns: str = NUMBERS) -> tuple[dict[str, float | None], str]:
    spec = doubles.make_spec(columns, method)
    plan = GaussianMethod().plan(spec, TableDomain.of(spec))
    return {line["mode"]: line["error"] for line in plan.details["comparison"]}, plan.steps[-1]


def test_noisy_moments_win_where_the_paper_cannot(doubles: SimpleNamespace) -> None:
    errors, line = comparison(doubles, ", expected_rows: 10000")
    assert errors["sampling-noise"] is not None
    assert errors["sampling-noise"] > 1
    assert errors["noisy-moments, centre: learned"] < 0.12
    assert line.endswith("least: noisy-moments, centre: learned")


def test_few_samples_of_a_huge_table_need_little_help(doubles: SimpleNamespace) -> None:
    errors, _ = comparison(doubles, ", expected_rows: 1000000000, rows: 100000")
    assert errors["sampling-noise"] == pytest.approx(0.0084, rel=0.05)


def test_what_a_mode_cannot_do_is_said(doubles: SimpleNamespace) -> None:
    errors, line = comparison(doubles, "", NUMBERS + "  k: {type: boolean}\n")
    assert errors["sampling-noise"] is None
    assert "sampling-noise not possible" in line
    errors, _ = comparison(doubles, "", "  x: {type: number, min: 0, max: 1}")
    assert set(errors) == {"noisy-moments, centre: fixed", "sampling-noise"}


def test_the_forecast_is_about_right(doubles: SimpleNamespace) -> None:
    """Measured on the reference table itself: the forecast is within a factor of 1.5, at a fixed seed."""
    import pyarrow as pa

    from understudy.pipelines.methods.gaussian.noisy_moments import estimates_of

    rng = np.random.default_rng(0)
    rows = 20_000
    scaled = np.clip(rng.uniform(-1, 1, 6) * 0.7 + rng.normal(0, np.sqrt(0.1), (rows, 6)), -1, 1)
    truth = np.cov(scaled.T)
    table = pa.table({f"n{i}": (scaled[:, i] + 1) / 2 for i in range(6)})
    for centre in ("fixed", "learned"):
        spec = doubles.make_spec(NUMBERS, f", centre: {centre}, expected_rows: {rows}")
        found = []
        for seed in range(6):
            made = doubles.release(spec, table, seed=seed, rows=1, batch_rows=20_000)
            _, estimates = estimates_of(made.measured, made.domain)
            found.append(np.linalg.norm(estimates[0].numeric_covariance - truth) / np.linalg.norm(truth))
        forecast = comparison(doubles, f", expected_rows: {rows}")[0][f"noisy-moments, centre: {centre}"]
        assert forecast is not None
        assert 1 / 1.5 < np.sqrt(np.mean(np.square(found))) / forecast < 1.5


def test_figure_3_has_the_papers_features(tmp_path: Path) -> None:
    for relation in Relation:
        curves = [curve(size, relation, 12) for size in SIZES]
        for _, epsilons in curves:
            assert np.all(np.diff(epsilons) > 0)  # monotone in the order
        np.testing.assert_allclose(curves[2][1] / curves[3][1], 10, rtol=0.15)  # equal steps on the log scale
    assert curve(10**4, Relation.ADD_REMOVE, 12)[0].max() < 4.1679
    path = tmp_path / "figure.svg"
    draw_figure_3(path)
    assert path.read_text().startswith("<?xml")
