"""Formulas of regressions: the functions of single columns that they are made of, and the sums of their products.

Columns. Numbers and yes and no count by their value, numbers in bins by the bin's; categories by an indicator of each
value but the first. A number that may be null has no value in some rows, which pairs cannot leave out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
from lark import Lark, Token
from lark.exceptions import LarkError

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.errors import SpecError
from understudy.pipelines.inference.axes import axis_of, group_value
from understudy.pipelines.inference.estimating import Told
from understudy.pipelines.inference.grouped import Joined
from understudy.pipelines.inference.grouped_noise import Alone, GroupNoise
from understudy.pipelines.inference.sums import NotMeasured

FloatArray = npt.NDArray[np.float64]
EXAMPLE = "write it as `charge ~ age + sex + ward`"
FROM_ROWS = "fit the published rows instead, whose errors are larger than they say (docs/asking.md)"
MOST_FEATURES = 300
INTERCEPT = "intercept"
_REGRESSION = re.compile(r"\s*(ols|logit)\s*\((.*)\)\s*", re.IGNORECASE | re.DOTALL)
_GRAMMAR = r"""
    start: NAME "~" NAME ("+" NAME)*
    NAME: /[^\W\d][\w.\-]*|"[^"]*"|'[^']*'|`[^`]*`/
    %ignore /\s+/
"""


@dataclass(frozen=True, eq=False)
class Feature:
    """A function of one column, by its codes; the intercept is of none."""

    name: str
    column: int | None
    values: FloatArray


def design(told: Told, names: Sequence[str]) -> list[Feature]:
    """The intercept, then what stands for each column."""
    features = [Feature(INTERCEPT, None, np.ones(1))]
    for name in names:
        features += _features(told, name)
    if len(features) > MOST_FEATURES:
        raise SpecError(f"{len(features)} coefficients are too many", "use fewer columns, or coarser ones")
    return features


def parse_regression(text: str) -> tuple[str, str] | None:
    """`ols(charge ~ age + sex)` and `logit(readmitted ~ age)`: which of both, and its formula; None of a question."""
    found = _REGRESSION.fullmatch(text)
    return None if found is None else (found[1].lower(), found[2].strip())


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


def number(told: Told, name: str) -> Feature:
    if name not in told.places:
        raise SpecError(f"{name[:60]} was not measured", f"measured were {', '.join(told.places)}")
    column = told.columns[told.places[name]]
    if column.kind not in ("integer", "number", "boolean"):
        raise SpecError(f"{name} is no number", "use a number, or yes and no, there")
    if column.nullable:
        raise SpecError(
            f"{name} may be null, and pairs cannot leave those rows out",
            FROM_ROWS,
        )
    return Feature(name, told.places[name], axis_of(column).mean)


def _features(told: Told, name: str) -> list[Feature]:
    if name not in told.places:
        raise SpecError(f"{name[:60]} was not measured", f"measured were {', '.join(told.places)}")
    column = told.columns[told.places[name]]
    if column.kind != "category":
        return [number(told, name)]
    found = []
    for code in range(1, column.size):
        label = group_value(column, code)
        values = np.zeros(column.size)
        values[code] = 1.0
        found.append(Feature(f"{name}={'null' if label is None else label}", told.places[name], values))
    return found


def products(told: Residuals, features: Sequence[Feature]) -> FloatArray:
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


def products_noise(told: Residuals, functions: Sequence[Feature], pairs: Sequence[tuple[int, int]]) -> FloatArray:
    """The covariance of the noise of the sums of these products of two functions."""
    columns = sorted({each.column for each in functions if each.column is not None and told.sizes[each.column] > 1})
    mean = np.array([float(each.values.mean()) for each in functions])
    around = [each.values - m for each, m in zip(functions, mean, strict=True)]
    many = len(pairs)
    total = np.zeros(many)
    alone = {c: np.zeros((many, told.sizes[c])) for c in columns}
    for place, (k, j) in enumerate(pairs):
        one, other = functions[k].column, functions[j].column
        if one is not None and one == other:
            both = functions[k].values * functions[j].values
            total[place] = both.mean()
            if one in alone:
                alone[one][place] = both - both.mean()
            continue
        total[place] = mean[k] * mean[j]
        for of, own, beside in ((one, k, j), (other, j, k)):
            if of in alone:
                alone[of][place] = around[own] * mean[beside]
    in_groups = GroupNoise(told, 1, many)
    covariance = told.by_clique[()].std ** 2 * np.outer(total, total)
    for c in columns:
        covariance += told.by_clique[(c,)].std ** 2 * alone[c] @ alone[c].T
    for clique in ((c, d) for place, c in enumerate(columns) for d in columns[place + 1 :]):
        inside = [
            (place, *sorted(pair, key=lambda k: functions[k].column or 0))
            for place, pair in enumerate(pairs)
            if {functions[k].column for k in pair} == set(clique)
        ]
        if not inside:
            continue
        at, firsts, seconds = (list(part) for part in zip(*inside, strict=True))
        left, right = (np.stack([around[k] for k in of]) for of in (firsts, seconds))
        residual = told.by_clique[clique]
        covariance[np.ix_(at, at)] += residual.std**2 * (left @ left.T) * (right @ right.T)
        if isinstance(residual, Joined):
            sides = []
            for axis, values in zip(residual.axes, (left, right), strict=True):
                coordinates = np.zeros((1, many, len(axis.strength)))
                coordinates[0, at] = axis.coordinates(values)
                sides.append(coordinates)
            in_groups.pair(clique, *sides)
    beyond = in_groups.finished({c: Alone(each[None]) for c, each in alone.items()}, total[None])
    return np.asarray(covariance + beyond[0])


def largest(features: Sequence[Feature]) -> FloatArray:
    return np.array([max(float((feature.values**2).max()), 1e-300) for feature in features])
