"""What the published table must obey, beyond its marginals (PrivPGD sections 3 and 4.4, equation 7).

A constraint is a hard rule (cells that may not occur, kept in every row), a penalty on a statistic (the
paper's regulariser R), or both. The penalty enters the discrete descent of `polish`, where its change under
a move is known exactly, so no relaxation or gradient is needed; its strength weighs R against the sum of
squared gaps of the marginals, both as shares of the rows.

A rule states public knowledge. A statistic's value must be public too, or the output of a mechanism that was
charged and composed with the marginals: this module sees numbers and cannot tell.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, Protocol

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.problem import GenerationError

MOST_RULE_CELLS = 5_000_000

BoolArray = npt.NDArray[np.bool_]
Codes = npt.NDArray[np.integer]
Link = Literal["mean", "threshold", "sigmoid"]


@dataclass(frozen=True, eq=False)
class Rule:
    """The cells of `columns` (increasing) in which rows are allowed."""

    columns: tuple[int, ...]
    allowed: BoolArray

    def broken_by(self, codes: Codes) -> BoolArray:
        return ~self.allowed[tuple(codes[:, c] for c in self.columns)]


@dataclass(frozen=True, eq=False)
class Statistic:
    """The mean over rows of link(offset + sum of scores[c][code]), each term at most 1 in size for DP
    estimates.

    `mean` is the identity, `threshold` the indicator of a positive score, `sigmoid` its smooth form
    1 / (1 + exp(-steepness * score)) of the paper's appendix B.
    """

    scores: dict[int, npt.NDArray[np.float64]]
    offset: float = 0.0
    link: Link = "sigmoid"
    steepness: float = 5.0

    def terms(self, codes: Codes) -> npt.NDArray[np.float64]:
        score = np.full(len(codes), self.offset)
        for column, table in self.scores.items():
            score += np.asarray(table, dtype=np.float64)[codes[:, column]]
        if self.link == "mean":
            return score
        if self.link == "threshold":
            return (score > 0.0).astype(np.float64)
        return np.asarray(1.0 / (1.0 + np.exp(-self.steepness * score)))

    def of(self, codes: Codes) -> float:
        return float(self.terms(codes).mean())


@dataclass(frozen=True, eq=False)
class Penalty:
    """R = attract * gap^2 + repel / (softness + gap^2), the gap being statistic minus value."""

    statistic: Statistic
    value: float
    attract: float = 0.0
    repel: float = 0.0
    softness: float = 1.0


class Constraint(Protocol):
    """Either method may return None; `sizes` are the numbers of codes of all columns."""

    def rule(self, sizes: Sequence[int]) -> Rule | None: ...
    def penalty(self, sizes: Sequence[int]) -> Penalty | None: ...


class HardRule:
    """Base of rules that are a yes or no on the codes of a few columns."""

    def penalty(self, sizes: Sequence[int]) -> Penalty | None:
        return None


@dataclass(frozen=True, eq=False)
class Allowed(HardRule):
    """The codes of `columns` that rows may have together."""

    columns: tuple[int, ...]
    allowed: BoolArray

    def rule(self, sizes: Sequence[int]) -> Rule:
        return _sorted_rule(self.columns, self.allowed)


@dataclass(frozen=True, eq=False)
class Forbidden(HardRule):
    """Structural zeros: combinations of codes of `columns` that cannot exist."""

    columns: tuple[int, ...]
    cells: tuple[tuple[int, ...], ...]

    def rule(self, sizes: Sequence[int]) -> Rule:
        banned = set(self.cells)
        return _tabulate(self.columns, sizes, lambda *codes: codes not in banned)


@dataclass(frozen=True, eq=False)
class Implies(HardRule):
    """If `column` has one of `codes` then `then_column` has one of `then_codes`."""

    column: int
    codes: frozenset[int]
    then_column: int
    then_codes: frozenset[int]

    def rule(self, sizes: Sequence[int]) -> Rule:
        return _tabulate(
            (self.column, self.then_column), sizes, lambda a, b: a not in self.codes or b in self.then_codes
        )


@dataclass(frozen=True, eq=False)
class AtLeast(HardRule):
    """sum of coefficients[i] * values[i][code of columns[i]] >= bound, as in discharge - admission >= 0.

    `values` gives each code's number (None: the code itself); codes with the value NaN (null, other) make the
    comparison void and are allowed.
    """

    columns: tuple[int, ...]
    coefficients: tuple[float, ...]
    bound: float = 0.0
    values: tuple[Sequence[float] | None, ...] | None = None

    def rule(self, sizes: Sequence[int]) -> Rule:
        _check_columns(self.columns, sizes)
        given = self.values if self.values is not None else (None,) * len(self.columns)
        if not len(given) == len(self.coefficients) == len(self.columns):
            raise GenerationError(
                f"an inequality on columns {self.columns} needs one coefficient and one value list for each."
            )
        total = np.zeros((1,) * len(self.columns))
        for axis, (column, coefficient, value) in enumerate(zip(self.columns, self.coefficients, given, strict=True)):
            numbers = np.arange(sizes[column], dtype=np.float64) if value is None else np.asarray(value, float)
            if len(numbers) != sizes[column]:
                raise GenerationError(f"column {column} has {sizes[column]} codes but {len(numbers)} values.")
            others = tuple(a for a in range(len(self.columns)) if a != axis)
            total = total + coefficient * np.expand_dims(numbers, others)
        return _sorted_rule(self.columns, ~(total < self.bound))


@dataclass(frozen=True, eq=False)
class _Valued:
    """A statistic with its public or charged value, which no single row can obey or break."""

    statistic: Statistic
    value: float
    strength: float = 1.0

    def rule(self, sizes: Sequence[int]) -> Rule | None:
        return None


class Preserve(_Valued):
    """Keep a statistic near its public or charged value."""

    def penalty(self, sizes: Sequence[int]) -> Penalty:
        return Penalty(self.statistic, self.value, attract=self.strength)


class Protect(_Valued):
    """Push a statistic away from its charged estimate: R = 0.01 / (0.0001 + gap^2), equation 12."""

    def penalty(self, sizes: Sequence[int]) -> Penalty:
        return Penalty(self.statistic, self.value, repel=0.01 * self.strength, softness=0.0001)


def _tabulate(columns: tuple[int, ...], sizes: Sequence[int], allowed: Callable[..., bool]) -> Rule:
    _check_columns(columns, sizes)
    shape = tuple(sizes[c] for c in columns)
    table = np.fromiter((allowed(*cell) for cell in np.ndindex(*shape)), dtype=bool, count=prod(shape))
    return _sorted_rule(columns, table.reshape(shape))


def _sorted_rule(columns: tuple[int, ...], allowed: BoolArray) -> Rule:
    order = np.argsort(columns)
    return Rule(tuple(columns[i] for i in order), np.ascontiguousarray(allowed.transpose(order)))


def _check_columns(columns: tuple[int, ...], sizes: Sequence[int]) -> None:
    if len(set(columns)) != len(columns) or not columns:
        raise GenerationError(f"a rule needs distinct columns, not {columns}.")
    if not all(0 <= c < len(sizes) for c in columns):
        raise GenerationError(f"a rule names columns {columns}; there are only 0..{len(sizes) - 1}.")
    if prod(sizes[c] for c in columns) > MOST_RULE_CELLS:
        raise GenerationError(
            f"a rule on columns {columns} has over {MOST_RULE_CELLS:,} combinations.",
            "Split it or use coarser bins.",
        )
