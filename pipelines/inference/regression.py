"""Least squares from pairs: coefficients and standard errors that know the noise, without looking at a row.

X'X and X'y are sums over rows of products of two columns, so measured pairs tell them. With A and b their estimates,
beta = A^-1 b. The scores S(beta) = b - A beta are sums over rows of x_j (y - x'beta), products of two columns again, so
that their noise is exactly known for every beta, residual set by residual set (sums.py): pairs give products of centred
vectors. At the coefficients of the table S is nothing but noise. So an interval of a coefficient holds every value at
which, with the other coefficients at their best, S' Cov(S)^-1 S stays below z^2: for one coefficient Fieller's interval
(1954), for several that of Anderson & Rubin (1949), profiled. Standard errors are those of the first order, A^-1
Cov(S) A^-1. For the population, the usual sigma^2 A^-1 is added, sigma^2 being the mean squared residual that the same
sums tell (so errors are taken to be alike everywhere), times `max_rows` where a unit may have several rows.

Columns. Numbers and yes and no count by their value, numbers in bins by the bin's; categories by an indicator of each
value but the first. A number that may be null has no value in some rows, which pairs cannot leave out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import numpy.typing as npt
from lark import Lark, Token
from lark.exceptions import LarkError

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.answers import LEVEL
from understudy.pipelines.inference.answers import told as written
from understudy.pipelines.inference.axes import axis_of, group_value
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.grouped import Joined
from understudy.pipelines.inference.grouped_noise import Alone, GroupNoise
from understudy.pipelines.inference.intervals import Interval, deviations, of_difference, of_sum
from understudy.pipelines.inference.sums import NotMeasured

FloatArray = npt.NDArray[np.float64]
EXAMPLE = "write it as `charge ~ age + sex + ward`"
MOST_FEATURES = 300
MOST_PROFILED = 40
"""With more coefficients, intervals are of the first order too."""

ROUNDS = 3
FARTHEST = 60.0
"""Times the first-order interval: beyond it, an end is open."""

INTERCEPT = "intercept"
_GRAMMAR = r"""
    start: NAME "~" NAME ("+" NAME)*
    NAME: /[^\W\d][\w.\-]*|"[^"]*"|'[^']*'|`[^`]*`/
    %ignore /\s+/
"""


@dataclass(frozen=True)
class Coefficient:
    """`noise_std` is what noise alone does to it, `std` what noise and sampling do together."""

    name: str
    estimate: float
    noise_std: float
    std: float
    interval: Interval
    population: Interval

    def __str__(self) -> str:
        span, wide = self.interval, self.population
        return (
            f"{self.name}: {written(self.estimate)} ({written(span.low)} to {written(span.high)} for this table, "
            f"{written(wide.low)} to {written(wide.high)} for the population)"
        )


@dataclass(frozen=True)
class Regression:
    formula: str
    coefficients: tuple[Coefficient, ...]
    rows: float
    residual_std: float
    level: float = LEVEL

    def __iter__(self) -> Iterator[Coefficient]:
        return iter(self.coefficients)

    def __getitem__(self, name: str) -> Coefficient:
        for coefficient in self.coefficients:
            if coefficient.name == name:
                return coefficient
        raise KeyError(name)

    def __str__(self) -> str:
        return "\n".join([self.formula, *(f"  {coefficient}" for coefficient in self.coefficients)])


@dataclass(frozen=True, eq=False)
class _Feature:
    """A function of one column, by its codes; the intercept is of none."""

    name: str
    column: int | None
    values: FloatArray


def ols(told: Told, formula: str, level: float = LEVEL) -> Regression:
    wanted, given = parse_formula(formula)
    outcome = _number(told, wanted)
    features = [_Feature(INTERCEPT, None, np.ones(1))]
    for name in given:
        features += _features(told, name)
    if len(features) > MOST_FEATURES:
        raise SpecError(f"{len(features)} coefficients are too many", "use fewer columns, or coarser ones")
    products = _products(told.residuals, [*features, outcome])
    inner, right, total = products[:-1, :-1], products[:-1, -1], products[-1, -1]
    rows = float(inner[0, 0])
    if rows <= 0 or np.linalg.eigvalsh(_scaled(inner))[0] <= 1e-6:
        rarest = features[int(np.argmin(np.diag(inner) / _largest(features)))].name
        raise SpecError(
            f"the columns cannot be told apart: they say the same, or some are mostly noise (the rarest is {rarest})",
            "leave out columns with rare values, and look at `release.verdict`",
        )
    inverse = np.linalg.inv(inner)
    beta = inverse @ right
    residual = max(0.0, float(total - right @ beta)) / rows
    scores = _Scores(told.residuals, tuple(features), outcome, inner, right)
    z, found = deviations(level), []
    covariance = inverse @ scores.noise(beta) @ inverse
    for place, feature in enumerate(features):
        own = max(0.0, float(covariance[place, place]))
        sampled = residual * float(inverse[place, place]) * told.max_rows
        span, value = scores.interval(place, beta, covariance, z), float(beta[place])
        wide = of_difference(value, span, 0.0, of_sum(0.0, sampled, z), 0.0)
        found.append(Coefficient(feature.name, value, math.sqrt(own), math.sqrt(own + sampled), span, wide))
    return Regression(formula, tuple(found), rows, math.sqrt(residual), level)


def parse_formula(formula: str) -> tuple[str, tuple[str, ...]]:
    try:
        names = [_bare(token) for token in _parser().parse(formula).children]
    except LarkError:
        names = []
    if len(names) < 2 or len(set(names)) < len(names):
        raise SpecError("the formula is not understood, or names a column twice", EXAMPLE)
    return names[0], tuple(names[1:])


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr")


def _bare(token: object) -> str:
    assert isinstance(token, Token)
    return str(token)[1:-1] if token[0] in "\"'`" else str(token)


def _number(told: Told, name: str) -> _Feature:
    if name not in told.places:
        raise SpecError(f"{name[:60]} was not measured", f"measured were {', '.join(told.places)}")
    column = told.columns[told.places[name]]
    if column.kind not in ("integer", "number", "boolean"):
        raise SpecError(f"{name} is no number", "use a number, or yes and no, there")
    if column.nullable:
        raise SpecError(
            f"{name} may be null, and pairs cannot leave those rows out",
            "fit the published rows instead, whose errors are larger than they say (docs/asking.md)",
        )
    return _Feature(name, told.places[name], axis_of(column).mean)


def _features(told: Told, name: str) -> list[_Feature]:
    if name not in told.places:
        raise SpecError(f"{name[:60]} was not measured", f"measured were {', '.join(told.places)}")
    column = told.columns[told.places[name]]
    if column.kind != "category":
        return [_number(told, name)]
    found = []
    for code in range(1, column.size):
        label = group_value(column, code)
        values = np.zeros(column.size)
        values[code] = 1.0
        found.append(_Feature(f"{name}={'null' if label is None else label}", told.places[name], values))
    return found


def _products(told: Residuals, features: Sequence[_Feature]) -> FloatArray:
    """Sums over rows of the products of every two of them."""
    tables: dict[tuple[int, ...], FloatArray] = {}

    def table(*columns: int | None) -> FloatArray:
        clique = tuple(sorted({column for column in columns if column is not None}))
        if clique not in tables:
            if clique not in told.by_clique and all(told.sizes[column] > 1 for column in clique):
                raise NotMeasured(clique)
            tables[clique] = told.marginal(clique)
        return tables[clique]

    found = np.zeros((len(features), len(features)))
    for i, one in enumerate(features):
        for j, other in enumerate(features[: i + 1]):
            counts = table(one.column, other.column)
            if one.column is None or other.column is None or one.column == other.column:
                value = float((counts * (one.values * other.values)).sum())
            elif one.column < other.column:
                value = float(one.values @ counts @ other.values)
            else:
                value = float(other.values @ counts @ one.values)
            found[i, j] = found[j, i] = value
    return found


@dataclass(frozen=True, eq=False)
class _Scores:
    """S(beta) = X'y - X'X beta as it was measured: zero but for its noise at the coefficients of the table."""

    told: Residuals
    features: tuple[_Feature, ...]
    outcome: _Feature
    inner: FloatArray
    right: FloatArray

    def interval(self, place: int, beta: FloatArray, covariance: FloatArray, z: float) -> Interval:
        """All values of one coefficient at which, the others being what fits best, noise explains the scores."""
        std = math.sqrt(max(0.0, float(covariance[place, place])))
        if std <= 1e-9 * max(1.0, abs(float(beta[place]))) or len(beta) > MOST_PROFILED:
            return of_sum(float(beta[place]), std**2, z)
        along = covariance[:, place] / covariance[place, place]
        ends = [self._end(place, beta, along, z, sign * std) for sign in (-1.0, 1.0)]
        return Interval(*ends)

    def _end(self, place: int, beta: FloatArray, along: FloatArray, z: float, step: float) -> float:
        def beyond(times: float) -> bool:
            start = beta + times * step * along
            return self._unexplained(place, start) > z**2

        inside, outside = 0.0, z
        while not beyond(outside):
            inside, outside = outside, 1.5 * outside
            if outside > FARTHEST * z:
                return math.copysign(math.inf, step)
        while outside - inside > 0.01 * outside:
            middle = (inside + outside) / 2
            inside, outside = (inside, middle) if beyond(middle) else (middle, outside)
        return float(beta[place] + (inside + outside) / 2 * step)

    def _unexplained(self, place: int, beta: FloatArray) -> float:
        """The least S' (noise of S)^-1 S with this coefficient fixed; the noise is that at the coefficients found."""
        others = [other for other in range(len(beta)) if other != place]
        for _ in range(ROUNDS):
            root = np.linalg.cholesky(self.noise(beta) + 1e-12 * np.diag(np.diag(self.inner)))
            white = np.linalg.solve(root, np.column_stack([self.inner, self.right]))
            left = white[:, -1] - white[:, place] * beta[place]
            fitted = np.linalg.lstsq(white[:, others], left, rcond=None)[0]
            beta = beta.copy()
            beta[others] = fitted
        rest = np.linalg.solve(root, self.right - self.inner @ beta)
        return float(rest @ rest)

    def noise(self, beta: FloatArray) -> FloatArray:
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


def _largest(features: Sequence[_Feature]) -> FloatArray:
    return np.array([max(float((feature.values**2).max()), 1e-300) for feature in features])


def _scaled(matrix: FloatArray) -> FloatArray:
    """With ones on the diagonal, so that units do not matter."""
    root = np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    return np.asarray(matrix / np.outer(root, root))
