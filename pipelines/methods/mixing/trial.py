"""Trying orders on a public table that resembles the private one: what the signal-to-noise rule can only predict.

Guarantee. None is needed and none is given: every row here is public, so nothing is charged and the noise may come from
any generator. Never pass the private table: a choice made on it is a release that nobody accounts for, which is how
the paper finds its l.
How. Half of the public rows, drawn again up to the number of rows the spec declares, are released as the method would
release them, at the spec's own budget and each order in turn; one Gaussian a class, fitted to the synthetic records,
is scored on the other half.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from understudy.pipelines.counting.weights import EntityWeights
from understudy.pipelines.methods.mixing.method import MixingMethod
from understudy.pipelines.methods.mixing.options import mixing_options
from understudy.pipelines.methods.unit_values import read_vectors
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.noise.rounded import RandomSource
from understudy.pipelines.spec.model import MethodSpec, ReleaseSpec
from understudy.pipelines.table.domain import TableDomain


@dataclass(frozen=True)
class Trial:
    """One order, and how well records released with it teach to tell classes apart."""

    order: int
    accuracy: float


@dataclass(frozen=True)
class PublicTable:
    """A public stand-in with the columns of the spec, in the shape of a private table."""

    domain: TableDomain
    table: pa.Table

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.select(self.domain.names).to_batches()

    def counts(self, cliques: Sequence[tuple[int, ...]], weights: EntityWeights | None = None) -> list[np.ndarray]:
        raise NotImplementedError("mixing counts nothing")


class _NumpyWords:
    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def words(self, count: int) -> np.ndarray:
        return self._rng.integers(0, 2**64, count, dtype=np.uint64)


def try_orders(spec: ReleaseSpec, public: pa.Table, orders: Sequence[int], seed: int = 0) -> list[Trial]:
    """A line for each order. Costs no budget; give the best one as `method.order`."""
    domain = TableDomain.of(spec)
    options = mixing_options(spec, domain)
    rng = np.random.default_rng(seed)
    shuffled = rng.permutation(public.num_rows)
    known, held_out = np.array_split(shuffled, 2)
    stand_in = PublicTable(domain, public.take(rng.choice(known, options.rows)))
    test = read_vectors(PublicTable(domain, public.take(held_out)), options.label)
    trials = []
    for order in orders:
        changed = MethodSpec.model_validate({**spec.method.options, "name": spec.method.name, "order": order})
        tried = spec.model_copy(update={"method": changed})
        records, labels = _released(tried, stand_in, _NumpyWords(rng))
        trials.append(Trial(order, discriminant_accuracy(records, labels, np.nan_to_num(test[0]), test[1])))
    return trials


def _released(spec: ReleaseSpec, table: PublicTable, randomness: RandomSource) -> tuple[np.ndarray, np.ndarray]:
    method = MixingMethod()

    def purchase(charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        return mechanism.draw(randomness)

    measured = method.measure(table, spec, method.plan(spec, table.domain), purchase)
    made = method.generate(measured, spec, table.domain, None, lambda done, steps, note: None)
    return read_vectors(PublicTable(table.domain, made), spec.method.options["label"])


def discriminant_accuracy(
    train: np.ndarray, train_labels: np.ndarray, test: np.ndarray, test_labels: np.ndarray, ridge: float = 0.2
) -> float:
    """Accuracy of one Gaussian a class (quadratic discriminant) in the leading directions of the training set.

    `ridge` times the mean variance of those directions is added to every class's covariance: no class is thought to
    be flat where its records happen to be.
    """
    middle = train.mean(axis=0, dtype=np.float64)
    values, vectors = np.linalg.eigh(np.cov(train.T))
    leading = vectors[:, -min(100, len(values)) :]
    known, asked = (train - middle) @ leading, (test - middle) @ leading
    classes = np.unique(train_labels)
    scores = np.empty((len(classes), len(asked)))
    for k, label in enumerate(classes):
        members = known[train_labels == label]
        covariance = np.cov(members.T) + ridge * values[-leading.shape[1] :].mean() * np.eye(leading.shape[1])
        lower = np.linalg.cholesky(covariance)
        away = np.linalg.solve(lower, (asked - members.mean(axis=0)).T)
        scores[k] = -0.5 * np.square(away).sum(axis=0) - np.log(np.diag(lower)).sum()
    return float((classes[scores.argmax(axis=0)] == test_labels).mean())
