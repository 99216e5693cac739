"""The covariance of sums where residuals were joined with groups of neighbours (grouped.py), beside that of the codes.

The noise of a joined residual is white with the codes' std but for the coordinates that groups see, where it is less:
    cov(f, g) = s^2 <f, g> + sum_ab (lambda_ab - s^2) f_ab g_ab,
so that what is added here to s^2 <f, g> needs the coordinates only. A joined residual also brings along noise of the
residuals of fewer columns that it leans on. As linear maps go, that is to ask those for something else: what is asked
of a pair adds to what is asked of its columns,
    f_i - alpha sum_b lambda_ab f_ab offset_b / n_j      (and likewise j),
and both to what is asked of the number of rows. So pairs come first, then columns, then the total.
Functions are in batches [o, k, ...]: between k, k' of one o covariances are wanted. Those are kept as factors, so that
who needs little of them (quantiles.py) need not have them written out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.counting.workload import Clique
from understudy.pipelines.inference.grouped import GroupedAxis, Joined

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Factor:
    """The part sum_r weight_or left_okr right_ok'r of a covariance; what is alike for all o is there once."""

    weight: FloatArray
    left: FloatArray
    right: FloatArray

    def covariance(self) -> FloatArray:
        return np.asarray((self.left * self.weight[:, None]) @ self.right.swapaxes(1, 2))


@dataclass(frozen=True, eq=False)
class Alone:
    """Functions of one column, each centred: by codes, or as `scale` times the indicator of one code."""

    scale: FloatArray
    code: npt.NDArray[np.int64] | None = None

    def coordinates(self, basis: FloatArray) -> FloatArray:
        """Along functions that are centred themselves."""
        return self.scale @ basis if self.code is None else self.scale[..., None] * basis[self.code]


class GroupNoise:
    def __init__(self, told: Residuals, groups: int, many: int) -> None:
        self._told = told
        self._shape = groups, many
        self._factors: list[Factor] = []
        self._asked: dict[int, list[tuple[GroupedAxis, FloatArray]]] = defaultdict(list)
        self.of_total: FloatArray = np.zeros((groups, many))

    def pair(self, clique: Clique, one: FloatArray, other: FloatArray) -> None:
        """Functions that are products of one of each column, [o, k or 1, coordinates] both."""
        joined = self._told.by_clique[clique]
        assert isinstance(joined, Joined)
        less = joined.less
        if one.shape[1] == 1:
            weight = np.square(one[:, 0]) @ less
            self._factors.append(Factor(weight, other, other))
        elif other.shape[1] == 1:
            weight = np.square(other[:, 0]) @ less.T
            self._factors.append(Factor(weight, one, one))
        else:
            flat = (one[:, :, :, None] * other[:, :, None, :]).reshape(*one.shape[:2], -1)
            self._factors.append(Factor(less.reshape(1, -1), flat, flat))
        if joined.leans:
            first, second = joined.axes
            offsets = first.offset / first.size, second.offset / second.size
            beside = (other * offsets[1]) @ joined.variance.T
            self._lean(clique[0], first, -first.strength * one * beside)
            self._lean(clique[1], second, -second.strength * other * ((one * offsets[0]) @ joined.variance))
            self.of_total -= ((one * offsets[0]) * beside).sum(axis=-1)

    def table(self, clique: Clique, functions: FloatArray) -> None:
        """Any functions of two columns, [o, k, coordinates, coordinates]."""
        joined = self._told.by_clique[clique]
        assert isinstance(joined, Joined)
        flat = functions.reshape(*functions.shape[:2], -1)
        self._factors.append(Factor(joined.less.reshape(1, -1), flat, flat))
        if joined.leans:
            first, second = joined.axes
            weighed = functions * joined.variance
            by_first, by_second = weighed @ (second.offset / second.size), (first.offset / first.size) @ weighed
            self._lean(clique[0], first, -first.strength * by_first)
            self._lean(clique[1], second, -second.strength * by_second)
            self.of_total -= by_first @ (first.offset / first.size)

    def _lean(self, column: int, axis: GroupedAxis, coordinates: FloatArray) -> None:
        if axis.basis is not None and coordinates.any():
            self._asked[column].append((axis, coordinates))
        elif coordinates.any():  # each code is a group
            self._asked[column].append((GroupedAxis(axis.size, np.eye(axis.size), axis.strength, axis.offset),
                                        coordinates - coordinates.mean(axis=-1, keepdims=True)))  # fmt: skip

    def finished(self, alone: Mapping[int, Alone], total: FloatArray) -> FloatArray:
        """The covariances [o, k, k], with what was asked of single columns, and of the number of rows ([o, k])."""
        groups, many = self._shape
        found = np.zeros((groups, many, many))
        for factor in self.factors(alone, total):
            found += factor.covariance()
        return found

    def factors(self, alone: Mapping[int, Alone], total: FloatArray) -> list[Factor]:
        for column in {*alone, *self._asked}:
            self._column(column, alone.get(column), self._asked[column])
        variance = self._told.by_clique[()].std ** 2
        asked = total + self.of_total
        both = np.stack(np.broadcast_arrays(asked, total), axis=-1)
        return [*self._factors, Factor(np.array([[variance, -variance]]), both, both)]

    def _column(self, column: int, own: Alone | None, asked: list[tuple[GroupedAxis, FloatArray]]) -> None:
        residual = self._told.by_clique[(column,)]
        bases = [axis.basis for axis, _ in asked if axis.basis is not None]
        variance, many = residual.std**2, range(len(asked))
        for place, ((_, one), basis) in enumerate(zip(asked, bases, strict=True)):
            alike = np.full((1, one.shape[-1]), variance)
            if own is None:
                self._factors.append(Factor(alike, one, one))
            else:  # beside what is asked of it anyway, which counts already
                beside = own.coordinates(basis)
                self._factors += [Factor(alike, one + beside, one + beside), Factor(-alike, beside, beside)]
            for other in (each for each in many if each != place):
                self._factors.append(Factor(alike, one, asked[other][1] @ (bases[other].T @ basis)))
        if not isinstance(residual, Joined):
            return
        [axis] = residual.axes
        assert axis.basis is not None
        if own is not None and own.code is not None and own.code.shape[1] == 1 and not asked:
            codes = axis.basis[own.code[:, 0]]  # alike for all k, but for the scale
            self._factors.append(Factor(np.square(codes) @ residual.less[:, None], *(own.scale[..., None],) * 2))
            self.of_total -= own.scale * ((codes * residual.variance) @ (axis.offset / axis.size))[:, None]
            return
        found = np.zeros((1, 1, len(axis.strength)))
        if own is not None:
            found = found + own.coordinates(axis.basis)
        for (_, one), basis in zip(asked, bases, strict=True):
            found = found + one @ (basis.T @ axis.basis)
        self._factors.append(Factor(residual.less[None], found, found))
        self.of_total -= (found * residual.variance) @ (axis.offset / axis.size)
