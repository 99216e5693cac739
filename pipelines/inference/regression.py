"""Least squares from pairs: coefficients and standard errors that know the noise, without looking at a row.

X'X and X'y are sums over rows of products of two columns, so measured pairs tell them. With A and b their estimates,
beta = A^-1 b. The scores S(beta) = b - A beta are sums over rows of x_j (y - x'beta), products of two columns again, so
that their noise is exactly known for every beta, residual set by residual set (sums.py): pairs give products of centred
vectors. Intervals are profiled (profiled.py). Standard errors are those of the first order, A^-1 Cov(S) A^-1. For the
population, the usual sigma^2 A^-1 is added, sigma^2 being the mean squared residual that the same sums tell (so errors
are taken to be alike everywhere), times `max_rows` where a unit may have several rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import LEVEL
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.features import Feature, design, largest, number, parse_formula, products
from understudy.pipelines.inference.grouped import Joined
from understudy.pipelines.inference.grouped_noise import Alone, GroupNoise
from understudy.pipelines.inference.intervals import deviations, of_difference, of_sum
from understudy.pipelines.inference.profiled import Coefficient, ProfiledScores, Regression, scaled

FloatArray = npt.NDArray[np.float64]


def ols(told: Told, formula: str, level: float = LEVEL) -> Regression:
    wanted, given = parse_formula(formula)
    outcome, features = number(told, wanted), design(told, given)
    every = products(told.residuals, [*features, outcome])
    inner, right, total = every[:-1, :-1], every[:-1, -1], every[-1, -1]
    rows = float(inner[0, 0])
    if rows <= 0 or np.linalg.eigvalsh(scaled(inner))[0] <= 1e-6:
        rarest = features[int(np.argmin(np.diag(inner) / largest(features)))].name
        raise SpecError(
            f"the columns cannot be told apart: they say the same, or some are mostly noise (the rarest is {rarest})",
            "leave out columns with rare values, and look at `release.verdict`",
        )
    inverse = np.linalg.inv(inner)
    beta = inverse @ right
    residual = max(0.0, float(total - right @ beta)) / rows
    noise = _Noise(told.residuals, tuple(features), outcome).of_scores
    scores = ProfiledScores(inner, right, noise)
    z, found = deviations(level), []
    covariance = inverse @ noise(beta) @ inverse
    for place, feature in enumerate(features):
        own = max(0.0, float(covariance[place, place]))
        sampled = residual * float(inverse[place, place]) * told.max_rows
        span, value = scores.interval(place, beta, covariance, z), float(beta[place])
        wide = of_difference(value, span, 0.0, of_sum(0.0, sampled, z), 0.0)
        found.append(Coefficient(feature.name, value, math.sqrt(own), math.sqrt(own + sampled), span, wide))
    return Regression(formula, tuple(found), rows, math.sqrt(residual), level)


@dataclass(frozen=True, eq=False)
class _Noise:
    """Of the scores X'y - X'X beta as they were measured."""

    told: Residuals
    features: tuple[Feature, ...]
    outcome: Feature

    def of_scores(self, beta: FloatArray) -> FloatArray:
        """The covariance of the noise of S, of sums of psi_j = x_j (y - x'beta) = (a_j + sum_c alpha_jc) (r + sum_c
        rho_c), with alpha and rho functions of single columns."""
        told, count = self.told, len(self.features)
        alpha, rho = self._alpha, self._rho(beta)
        means, around = self._means, self._around
        levels = {c: float(rho[c].mean()) for c in alpha}
        every_alpha = np.eye(count)[0] + sum(means.values(), np.zeros(count))
        every_rho = -float(beta[0]) + math.fsum(levels.values())
        beyond = {c: rho[c] - levels[c] for c in alpha}
        together = {c: around[c] @ beyond[c] for c in alpha}

        total = every_alpha * every_rho + sum((together[c] / told.sizes[c] for c in alpha), np.zeros(count))
        covariance = told.by_clique[()].std ** 2 * np.outer(total, total)
        wide = [c for c in alpha if told.sizes[c] > 1]
        in_groups, alone = GroupNoise(told, 1, count), {}
        for c in wide:
            single = alpha[c] * (rho[c] + every_rho - levels[c]) + np.outer(every_alpha - means[c], rho[c])
            single = single - single.mean(axis=1, keepdims=True)
            covariance += told.by_clique[(c,)].std ** 2 * single @ single.T
            alone[c] = Alone(single[None])
        for place, c in enumerate(wide):
            for d in wide[place + 1 :]:
                part = self._squares[c] * float(beyond[d] @ beyond[d]) + self._squares[d] * float(beyond[c] @ beyond[c])
                part = part + np.outer(together[c], together[d]) + np.outer(together[d], together[c])
                residual = told.by_clique[(c, d)]
                covariance += residual.std**2 * part
                if isinstance(residual, Joined):
                    one, other = residual.axes
                    ours, theirs = one.coordinates(around[c]), other.coordinates(around[d])
                    table = ours[:, :, None] * other.coordinates(beyond[d])
                    in_groups.table((c, d), (table + one.coordinates(beyond[c])[:, None] * theirs[:, None, :])[None])
        return np.asarray(covariance + in_groups.finished(alone, total[None])[0])

    @cached_property
    def _alpha(self) -> dict[int, FloatArray]:
        """What each feature is, by the columns in their order; the intercept is 1 and of none."""
        columns = sorted({each.column for each in (*self.features, self.outcome) if each.column is not None})
        found = {c: np.zeros((len(self.features), self.told.sizes[c])) for c in columns}
        for place, feature in enumerate(self.features):
            if feature.column is not None:
                found[feature.column][place] = feature.values
        return found

    def _rho(self, beta: FloatArray) -> dict[int, FloatArray]:
        found = {c: -beta @ alpha for c, alpha in self._alpha.items()}
        assert self.outcome.column is not None
        found[self.outcome.column] = found[self.outcome.column] + self.outcome.values
        return found

    @cached_property
    def _means(self) -> dict[int, FloatArray]:
        return {c: alpha.mean(axis=1) for c, alpha in self._alpha.items()}

    @cached_property
    def _around(self) -> dict[int, FloatArray]:
        return {c: alpha - self._means[c][:, None] for c, alpha in self._alpha.items()}

    @cached_property
    def _squares(self) -> dict[int, FloatArray]:
        return {c: around @ around.T for c, around in self._around.items()}
