"""Logistic regression from pairs: coefficients and intervals that know the noise, the rows telling only what is beyond.

The coefficients of the table solve sum x_j (y - p(x'beta)) = 0, p the logistic function. Pairs with the outcome tell
the sum of x_j y. The sum of psi_j = x_j p(x'beta) is over all columns together, which pairs do not tell. So psi_j is
approximated by products of two functions of single columns (indicators of categories, powers of numbers), whose sums
pairs do tell, with known noise; what is left of psi_j after that is summed over the published rows, and is small: a
difference estimator, as in survey sampling (Sarndal, Swensson & Wretman 1992, chapter 6). Errors of the published rows
in pairs do not matter then, those in three columns and more only as far as p is not of pairs.
The approximation is the one with the least expected square error if the table were a sample from the rows'
distribution, of a hundredth (`DOUBT`) of its size, noise and remainder together: c = (n/m D'D + Omega)^-1 n/m D'psi, n
being a hundred times the measured number of rows, D the products by row, Omega the covariance of the noise of their
sums. The remainder, as such a sample would have it, counts as noise: n times its covariance over rows. How far
published rows are off in three columns nobody measured, so that this is a judgement: a hundred was chosen on PUMS at
epsilon 1, where 1 held 83% of coefficients and 10 held 88% (docs/benchmarks.md has what a hundred holds elsewhere).
Intervals are those of `ols`: every value of a coefficient at which noise explains the scores, the others being at
their best; the scores are linear in beta near the estimate. For the population the usual (X'WX)^-1 is added, times
`max_rows`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from numpy.polynomial.legendre import Legendre

from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import LEVEL
from understudy.pipelines.inference.axes import yes_code
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.features import (
    FROM_ROWS,
    INTERCEPT,
    Feature,
    design,
    largest,
    parse_formula,
    products,
    products_noise,
)
from understudy.pipelines.inference.intervals import deviations, of_difference, of_sum
from understudy.pipelines.inference.profiled import Coefficient, ProfiledScores, Regression, scaled

FloatArray = npt.NDArray[np.float64]
Rows = Mapping[int, npt.NDArray[np.int64]]
DEGREE = 4
MOST_FUNCTIONS = 60
"""Functions of single columns, of which all products are used."""

MOST_ROWS = 6_000
"""Published rows that are looked at: they choose an approximation, and need not be many for that."""

DOUBT = 100.0
"""How far the rows' distribution is believed: as that of a sample that is so many times smaller than the table."""

ROUNDS = 60
CERTAIN = 15.0
"""Log-odds beyond which nothing is uncertain any more: the fit has run away."""


def logit(told: Told, formula: str, rows: Rows, level: float = LEVEL) -> Regression:
    """`rows` has the codes of the published rows, by the place of each column of the formula."""
    wanted, given = parse_formula(formula)
    outcome, features = _outcome(told, wanted), design(told, given)
    functions = _functions(told, given)
    if len(functions) > MOST_FUNCTIONS:
        raise SpecError(f"{len(functions)} functions of columns are too many", "use fewer columns, or coarser ones")
    many = len(next(iter(rows.values())))
    some = np.linspace(0, many - 1, min(many, MOST_ROWS)).astype(int)
    fit = _Fit(told, features, functions, outcome, {place: codes[some] for place, codes in rows.items()})
    beta = fit.solved()
    inner, noise = fit.slope(beta), fit.noise_around(beta)
    if np.linalg.eigvalsh(scaled((inner + inner.T) / 2))[0] <= 1e-6:
        raise _cannot(f"the columns say the same, or some are mostly noise (the rarest is {fit.rarest})")
    scores = ProfiledScores(inner, inner @ beta, noise)
    inverse = np.linalg.inv(inner)
    covariance = inverse @ noise(beta) @ inverse.T
    sampling = np.linalg.inv((inner + inner.T) / 2) * told.max_rows
    z, found = deviations(level), []
    for place, feature in enumerate(features):
        value, own = float(beta[place]), max(0.0, float(covariance[place, place]))
        sampled = max(0.0, float(sampling[place, place]))
        span = scores.interval(place, beta, covariance, z)
        wide = of_difference(value, span, 0.0, of_sum(0.0, sampled, z), 0.0)
        found.append(Coefficient(feature.name, value, math.sqrt(own), math.sqrt(own + sampled), span, wide))
    return Regression(formula, tuple(found), fit.total, level=level)


class _Fit:
    """Scores as functions of the coefficients, and what their sums are made of."""

    def __init__(
        self, told: Told, features: Sequence[Feature], functions: Sequence[Feature], outcome: Feature, rows: Rows
    ) -> None:
        own, many = len(functions), len(features)
        every = [*functions, *features, outcome]
        pairs = [
            (k, j)
            for k in range(own)
            for j in range(k, own)
            if functions[k].column is None or functions[k].column != functions[j].column
        ]
        with_outcome = [(own + place, own + many) for place in range(many)]
        sums = products(told.residuals, every)
        self._noise = products_noise(told.residuals, every, [*pairs, *with_outcome])
        self._sums = np.array([sums[k, j] for k, j in pairs])
        self._right = np.array([sums[k, j] for k, j in with_outcome])
        own_sums = np.diag(sums)[own : own + many] / largest(features)
        self.rarest = features[int(np.argmin(own_sums))].name
        self.total = float(sums[0, 0])
        if not 0 < self._right[0] < self.total:
            raise _cannot(f"whether {outcome.name} is so is mostly noise")
        self._x = np.stack([_along(rows, each) for each in features], axis=1)
        by_row = np.stack([_along(rows, each) for each in functions], axis=1)
        self._products = np.stack([by_row[:, k] * by_row[:, j] for k, j in pairs], axis=1)
        self._weight = self.total / len(self._x)
        doubted = DOUBT * self._weight * self._products.T
        gram = doubted @ self._products + self._noise[: len(pairs), : len(pairs)]
        self._solve = np.linalg.pinv(gram, rcond=1e-13, hermitian=True) @ doubted

    def solved(self) -> FloatArray:
        """By Newton's method with the slope that the rows have."""
        beta = np.zeros(self._x.shape[1])
        beta[0] = math.log(self._right[0] / (self.total - self._right[0]))
        for _ in range(ROUNDS):
            likely = _logistic(self._x @ beta)
            slope = self._weight * (self._x * (likely * (1 - likely))[:, None]).T @ self._x
            scores = self._right - self._approximated(self._x * likely[:, None])[0].T @ self._sums
            step = np.linalg.lstsq(slope, scores, rcond=1e-10)[0]
            farthest = float(np.abs(self._x @ step).max())
            beta = beta + step * min(1.0, 2.0 / max(farthest, 1e-300))
            if float(np.abs(self._x @ beta).max()) > CERTAIN:
                break
            if farthest < 1e-7:
                return np.asarray(beta)
        rare = self.rarest
        raise _cannot(
            f"the outcome is all but certain for some values, or noise makes it look so (the rarest is {rare})"
        )

    def slope(self, beta: FloatArray) -> FloatArray:
        """How the sums of x_j p(x'beta) grow with each coefficient: [j, k]."""
        found = self._approximated(self._derived(beta))[0].T @ self._sums
        return np.asarray(found.reshape(len(beta), len(beta)).T)

    def noise_around(self, beta: FloatArray) -> Callable[[FloatArray], FloatArray]:
        many = len(beta)
        likely = _logistic(self._x @ beta)
        functions = np.concatenate([self._x * likely[:, None], self._derived(beta)], axis=1)
        found, left = self._approximated(functions)
        asked = np.zeros((len(self._noise), (many + 1) * many))
        asked[: len(found)] = -found
        asked[len(found) :, :many] = np.eye(many)
        covariance = asked.T @ self._noise @ asked + DOUBT * self._weight * left.T @ left
        by_term = covariance.reshape(many + 1, many, many + 1, many)

        def noise(at: FloatArray) -> FloatArray:
            away = np.r_[1.0, at - beta]
            return np.asarray(np.tensordot(away, np.tensordot(by_term, away, (2, 0)), (0, 0)))

        return noise

    def _derived(self, beta: FloatArray) -> FloatArray:
        """Of x_j p(x'beta) by each coefficient k, by row: k varies slowest."""
        likely = _logistic(self._x @ beta)
        spread = self._x * (likely * (1 - likely))[:, None]
        return np.asarray((spread[:, :, None] * self._x[:, None, :]).reshape(len(self._x), -1))

    def _approximated(self, functions: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Coefficients of the products, of which the first is 1, and what is left of each row, nothing on average."""
        found = self._solve @ functions
        left = functions - self._products @ found
        found[0] += left.mean(axis=0)
        return found, left - left.mean(axis=0)


def _outcome(told: Told, name: str) -> Feature:
    if name not in told.places:
        raise SpecError(f"{name[:60]} was not measured", f"measured were {', '.join(told.places)}")
    column = told.columns[told.places[name]]
    if column.nullable:
        raise SpecError(f"{name} may be null, and pairs cannot leave those rows out", FROM_ROWS)
    values = np.zeros(column.size)
    values[yes_code(column)] = 1.0
    return Feature(name, told.places[name], values)


def _functions(told: Told, names: Sequence[str]) -> list[Feature]:
    """1, and of each column what its products may be made of: indicators of categories, powers of numbers."""
    found = [Feature(INTERCEPT, None, np.ones(1))]
    for feature in design(told, names)[1:]:
        assert feature.column is not None
        if told.columns[feature.column].kind == "category":
            found.append(feature)
            continue
        low, high = float(feature.values.min()), float(feature.values.max())
        at = (2 * feature.values - low - high) / (high - low) if high > low else np.zeros(len(feature.values))
        degrees = range(1, min(DEGREE, len(np.unique(at)) - 1) + 1)
        found += [Feature(feature.name, feature.column, Legendre.basis(degree)(at)) for degree in degrees]
    return found


def _along(rows: Rows, feature: Feature) -> FloatArray:
    return np.ones(len(next(iter(rows.values())))) if feature.column is None else feature.values[rows[feature.column]]


def _logistic(at: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-at)))


def _cannot(problem: str) -> SpecError:
    return SpecError(
        f"no logistic regression can be told: {problem}",
        "leave out columns with rare values, and look at `release.verdict`",
    )
