"""Columns of the focus are written last: drawn from what all others say of them, and with as little chance as can be.

Method. Of greatest entropy given the rest of a row, and marginals that pair a column with others, is the logistic model
with a term for every cell of those marginals. Its terms are fitted to the targets, given the rows as they stand, by
iterative scaling (Darroch and Ratcliff 1972), one marginal at a time: a row lies in one cell of each, so that every
step is in closed form. What the noise left unknown of a marginal is not followed to the end: a term costs its square
(`EASE` times that variance over the column's own), as if drawn from a normal around 0. Otherwise terms of columns that
depend on each other take up the noise, and a classifier learns it.
Then every row's code is drawn from the model, and single codes move while that brings counts nearer: those of the
marginals to their targets, and those of the column with any two others to what the model expects of these rows. Chance
remains in more than two columns and the focus, where nobody looks; in fewer it would be noise on top of noise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt
from numba import njit

from understudy.pipelines.methods.privpgd.constraints import Penalty, Rule
from understudy.pipelines.methods.privpgd.polish import build_fibres, build_scores
from understudy.pipelines.methods.privpgd.polish_kernel import sweep
from understudy.pipelines.methods.privpgd.targets import Target

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

EASE = 3.0
PASSES = 40
CLOSE_ENOUGH = 2e-4  # of the rows, a marginal
FITTED_NUMBERS = 5_000_000  # of rows by codes; more rows than that holds tell the same terms
MOST_CELLS, CELLS_IN_ALL, MOST_TRIPLES = 200_000, 8_000_000, 300
LEAST_RIDGE = 1e-12
STEEPEST = 6.0


@dataclass(frozen=True, eq=False)
class Relation:
    """A target with the column: [cells of the other columns, codes of the column], and the ridge of its terms."""

    others: tuple[int, ...]
    shape: tuple[int, ...]
    probabilities: FloatArray
    ridge: float

    def cells(self, codes: npt.NDArray[np.int32]) -> IntArray:
        return np.asarray(np.ravel_multi_index([codes[:, c] for c in self.others], self.shape), dtype=np.int64)


def write_last(
    codes: npt.NDArray[np.int32],
    column: int,
    targets: Sequence[Target],
    sizes: Sequence[int],
    sweeps: int,
    rng: np.random.Generator,
    rules: Sequence[Rule] = (),
    penalties: Sequence[Penalty] = (),
) -> None:
    """In place. Rows that obey the rules go on doing so."""
    own = [target for target in targets if column in target.columns and len(target.columns) > 1]
    relations = [_relation(target, column) for target in own]
    if not relations or not sweeps or not len(codes) or sizes[column] < 2:
        return
    kept = codes[:, column].copy()
    rows = max(FITTED_NUMBERS // sizes[column], 1)
    some = codes if len(codes) <= rows else codes[rng.permutation(len(codes))[:rows]]
    terms = fitted_terms(some, relations)
    triples = _triples(relations, sizes, sizes[column])
    expected = [np.zeros((sizes[a] * sizes[b], sizes[column])) for a, b in triples]
    for first in range(0, len(codes), rows):
        part = codes[first : first + rows]
        model = chances(part, relations, terms)
        for (a, b), table in zip(triples, expected, strict=True):
            _add_up(part[:, a].astype(np.int64) * sizes[b] + part[:, b], model, table)
        beyond = rng.random((len(part), 1)) > np.cumsum(model, axis=1)
        part[:, column] = np.minimum(beyond.sum(axis=1), sizes[column] - 1)
    broken = np.zeros(len(codes), dtype=np.bool_)
    for rule in rules:
        broken |= rule.broken_by(codes)
    codes[broken, column] = kept[broken]
    wanted = [*own, *(_expected(t, column, e / len(codes), sizes) for t, e in zip(triples, expected, strict=True))]
    frozen = frozenset(range(len(sizes))) - {column}
    fibres, scores = build_fibres(codes, wanted, rules, sizes, frozen=frozen), build_scores(codes, penalties, sizes)
    widths, only = np.array(sizes, dtype=np.int64), np.array([column])
    for _ in range(sweeps):
        moved = sweep(codes, rng.permutation(len(codes)), only, widths, fibres, scores)
        if moved * 1000 <= len(codes):
            break


def _relation(target: Target, column: int) -> Relation:
    place = target.columns.index(column)
    table = np.moveaxis(target.probabilities, place, -1)
    flat = table.reshape(-1, table.shape[-1])
    own = flat.sum(axis=0)
    spread = max(float((own * (1.0 - own)).sum()), LEAST_RIDGE)
    ridge = EASE * target.noise_variance * flat.size / spread
    return Relation(tuple(c for c in target.columns if c != column), table.shape[:-1], flat, ridge)


def fitted_terms(codes: npt.NDArray[np.int32], relations: Sequence[Relation]) -> list[FloatArray]:
    """The model's terms t, like the relations' tables: over these rows, expected counts + ridge t = those wanted."""
    rows = len(codes)
    cells = [relation.cells(codes) for relation in relations]
    # The other columns are as they are: targets say how their cells are shared.
    wanted = [
        _shares(relation.probabilities) * np.bincount(own, minlength=len(relation.probabilities))[:, None]
        for relation, own in zip(relations, cells, strict=True)
    ]
    terms = [np.zeros_like(table) for table in wanted]
    model = np.full((rows, wanted[0].shape[1]), 1.0 / wanted[0].shape[1])
    for _ in range(PASSES):
        gap = 0.0
        for relation, own, target, term in zip(relations, cells, wanted, terms, strict=True):
            ridge = rows * relation.ridge + LEAST_RIDGE
            now = np.zeros_like(target)
            _add_up(own, model, now)
            gap += float(np.abs(now + ridge * term - target).sum())
            step = _step(now, term, target, ridge)
            term += step
            _tilt(own, model, np.exp(step))
        if gap <= CLOSE_ENOUGH * rows * len(relations):
            break
    return terms


def _step(now: FloatArray, term: FloatArray, target: FloatArray, ridge: float) -> FloatArray:
    """d with now exp(d) + ridge (term + d) = target, cell by cell: Newton, from where it converges from above."""
    least = 1e-9 * max(float(target.sum()), 1.0) / target.size
    step = np.log(np.maximum(target - ridge * term, least) / np.maximum(now, 1e-300))
    step = np.clip(step, -STEEPEST / 2, STEEPEST / 2)
    for _ in range(6):
        grown = now * np.exp(step)
        step = np.clip(step - (grown + ridge * (term + step) - target) / (grown + ridge), -STEEPEST, STEEPEST)
    told = (now > 0.0) & (target.sum(axis=1, keepdims=True) > 0.0)
    return np.asarray(np.where(told, step, 0.0))


def chances(codes: npt.NDArray[np.int32], relations: Sequence[Relation], terms: Sequence[FloatArray]) -> FloatArray:
    """[rows, codes of the column]: what the model gives each code in each row."""
    model: FloatArray = np.full((len(codes), terms[0].shape[1]), 1.0 / terms[0].shape[1])
    for relation, term in zip(relations, terms, strict=True):
        _tilt(relation.cells(codes), model, np.exp(term - term.max(axis=1, keepdims=True)))
    return model


def _shares(table: FloatArray) -> FloatArray:
    sums = table.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(table, sums, out=np.zeros_like(table), where=sums > 0.0))


def _triples(relations: Sequence[Relation], sizes: Sequence[int], codes: int) -> list[tuple[int, int]]:
    """Pairs of the columns that the focus is told beside, the smallest tables first, as far as they can be kept."""
    told = sorted({relation.others[0] for relation in relations if len(relation.others) == 1})
    known = {relation.others for relation in relations}
    pairs = [pair for pair in combinations(told, 2) if pair not in known]
    found, cells = [], 0
    for pair in sorted(pairs, key=lambda pair: (sizes[pair[0]] * sizes[pair[1]], pair))[:MOST_TRIPLES]:
        size = sizes[pair[0]] * sizes[pair[1]] * codes
        if size > MOST_CELLS or cells + size > CELLS_IN_ALL:
            break
        cells += size
        found.append(pair)
    return found


def _expected(pair: tuple[int, int], column: int, table: FloatArray, sizes: Sequence[int]) -> Target:
    a, b = pair
    columns = tuple(sorted((a, b, column)))
    shaped = np.moveaxis(table.reshape(sizes[a], sizes[b], -1), -1, columns.index(column))
    return Target(columns, np.ascontiguousarray(shaped), 1.0, 0.0)


@njit(cache=True, nogil=True)
def _add_up(cells: np.ndarray, model: np.ndarray, found: np.ndarray) -> None:
    """Add the rows of `model` up by cell."""
    for row in range(len(cells)):
        for code in range(model.shape[1]):
            found[cells[row], code] += model[row, code]


@njit(cache=True, nogil=True)
def _tilt(cells: np.ndarray, model: np.ndarray, factor: np.ndarray) -> None:
    """Multiply every row of `model` by its cell's factors, and make it sum to 1 again."""
    for row in range(len(cells)):
        total = 0.0
        for code in range(model.shape[1]):
            model[row, code] *= factor[cells[row], code]
            total += model[row, code]
        for code in range(model.shape[1]):
            model[row, code] = model[row, code] / total if total > 0.0 else 1.0 / model.shape[1]
