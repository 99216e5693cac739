"""One run of a peer, in the environment that has it: `peer_worker.py NAME [INPUT OUTPUT]`.

Started by `peers.py` with an interpreter that need not have Understudy, so it imports numpy and the peer only. INPUT
and OUTPUT are .npz files, a `Task` and a `Result`. Without them it only tries to import the peer.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

# What a budget that OpenDP's MST refuses is multiplied with before the next is looked at.
A_LITTLE_LESS = 1 - 1e-9
# dpmm's AIM takes hours with its own settings: fitting after each round is slow and grows with the model. QuickAIM is
# limited to the model size that its authors give for trials and fits each round briefly; the last fit is as long as
# any of theirs and goes on from the one before.
QUICK_MEGABYTES = 1.0
QUICK_STEPS, LAST_STEPS = 100, 1000
# AIM on mbi: megabytes of a model that fits in reasonable time, and steps of fitting a round, from the round before.
AIM_MEGABYTES, AIM_STEPS = 4.0, 100


@dataclass(frozen=True, eq=False)
class Task:
    """Codes below the public `sizes`, one record a unit (ADD_REMOVE); `rows` records are to be generated."""

    codes: np.ndarray
    sizes: tuple[int, ...]
    epsilon: float
    delta: float
    rows: int

    @property
    def names(self) -> list[str]:
        return [f"c{i}" for i in range(len(self.sizes))]


@dataclass(frozen=True, eq=False)
class Result:
    """Generated codes, and the wall-clock seconds from the codes in memory to them; imports are not counted."""

    codes: np.ndarray
    seconds: float


Generator = Callable[[Task], np.ndarray]


def write_task(path: Path, task: Task) -> None:
    np.savez(path, codes=task.codes, sizes=task.sizes, epsilon=task.epsilon, delta=task.delta, rows=task.rows)


def read_task(path: Path) -> Task:
    with np.load(path) as file:
        sizes = tuple(int(size) for size in file["sizes"])
        return Task(file["codes"], sizes, float(file["epsilon"]), float(file["delta"]), int(file["rows"]))


def write_result(path: Path, result: Result) -> None:
    np.savez(path, codes=result.codes, seconds=result.seconds)


def read_result(path: Path) -> Result:
    with np.load(path) as file:
        return Result(file["codes"], float(file["seconds"]))


def opendp(algorithm: str) -> Generator:
    """OpenDP's `MST` or `AIM` on mbi. It accounts in zCDP."""
    # The extra packages of OpenDP are imported when first used; they are imported here so that missing ones show.
    import mbi  # noqa: F401
    import opendp.prelude as dp
    import pandas  # noqa: F401
    import polars as pl
    import pyarrow  # noqa: F401

    dp.enable_features("contrib")

    def generate(task: Task) -> np.ndarray:
        frame = pl.LazyFrame({name: task.codes[:, i] for i, name in enumerate(task.names)})
        keys = {name: list(range(size)) for name, size in zip(task.names, task.sizes, strict=True)}
        rho = rho_that_splits(zcdp_within(task.epsilon, task.delta), len(task.sizes) - 1)
        context = dp.Context.compositor(
            data=frame, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho, delta=0.0)
        )
        query = context.query(rho=rho, delta=0.0)
        release = query.contingency_table(keys=keys, algorithm=getattr(dp.mbi, algorithm)()).release()
        # Values outside the keys have a cell of their own and come out as nulls; such rows have no code.
        return release.synthesize(rows=task.rows).select(task.names).drop_nulls().to_numpy()

    return generate


def dpmm(algorithm: str) -> Generator:
    """dpmm's `MST` or `AIM` with its own defaults, or `QuickAIM`, on one core."""
    import pandas as pd
    from dpmm import models

    def generate(task: Task) -> np.ndarray:
        common = {
            "epsilon": task.epsilon,
            "delta": task.delta,
            "domain": dict(zip(task.names, task.sizes, strict=True)),
            "n_jobs": 1,
        }
        frame = pd.DataFrame(task.codes, columns=task.names)
        if algorithm == "QuickAIM":
            model = models.AIMGM(**common, n_iters=QUICK_STEPS, max_model_size=QUICK_MEGABYTES)
            model.fit(frame, marginals_only=True)
            chosen = model.generator
            chosen.engine.iters = LAST_STEPS
            chosen.model, chosen.fit_state = chosen.engine.estimate(chosen.measures), "trained"
        else:
            model = getattr(models, f"{algorithm}GM")(**common)
            model.fit(frame)
        return model.generate(task.rows)[task.names].to_numpy()

    return generate


def mbi(algorithm: str) -> Generator:
    """MST or AIM as their papers describe them, on mbi 2's estimator: its package has the estimator alone.

    MST: McKenna, Miklau and Sheldon 2021. AIM: McKenna, Mullins, Sheldon and Miklau 2022, for all pairs. Floating-point
    noise, for comparison only. zCDP, converted tightly.
    """
    import jax

    jax.config.update("jax_enable_x64", True)
    import mbi as package

    steps = {"MST": _mst, "AIM": _aim}[algorithm]

    def generate(task: Task) -> np.ndarray:
        return steps(package, task, zcdp_within(task.epsilon, task.delta), np.random.default_rng())

    return generate


class _Fitted:
    """Counts with Gaussian noise of zCDP's price, and the model that mbi fits to all of them."""

    def __init__(self, package: Any, task: Task, rng: np.random.Generator) -> None:
        self.package, self.task, self.rng = package, task, rng
        self.domain = package.Domain(task.names, task.sizes)
        self.seen: list[Any] = []
        self.model: Any = None

    def count(self, clique: Sequence[int]) -> np.ndarray:
        shape = [self.task.sizes[column] for column in clique]
        cells = np.ravel_multi_index([self.task.codes[:, column] for column in clique], shape)
        return np.bincount(cells, minlength=math.prod(shape)).astype(np.float64)

    def measure(self, clique: Sequence[int], rho: float) -> float:
        std = math.sqrt(1 / (2 * rho))
        noisy = self.count(clique) + std * self.rng.normal(size=math.prod(self.task.sizes[c] for c in clique))
        names = tuple(self.task.names[column] for column in clique)
        self.seen.append(self.package.LinearMeasurement(noisy, names, stddev=std))
        return std

    def fit(self, steps: int) -> None:
        estimator = self.package.estimation.MirrorDescent()
        self.model = estimator.estimate(self.domain, self.seen, iters=steps, warm_start=self.model)

    def told(self, clique: Sequence[int]) -> np.ndarray:
        return np.asarray(self.model.project(tuple(self.task.names[c] for c in clique)).datavector())

    def choose(self, scores: Mapping[tuple[int, ...], float], rho: float, sensitivity: float) -> tuple[int, ...]:
        """The exponential mechanism at this price, by Gumbel noise."""
        scale = math.sqrt(8 * rho) / (2 * sensitivity)
        return max(scores, key=lambda each: scale * scores[each] + self.rng.gumbel())

    def rows(self) -> np.ndarray:
        data = self.model.synthetic_data(self.task.rows).to_dict()
        return np.stack([np.asarray(data[name]) for name in self.task.names], axis=1)


def _mst(package: Any, task: Task, rho: float, rng: np.random.Generator) -> np.ndarray:
    """A third of the budget each for columns, for choosing a tree of pairs, and for these."""
    columns = range(len(task.sizes))
    fitted = _Fitted(package, task, rng)
    for column in columns:
        fitted.measure((column,), rho / (3 * len(columns)))
    fitted.fit(LAST_STEPS)
    scores = {pair: float(np.abs(fitted.count(pair) - fitted.told(pair)).sum()) for pair in combinations(columns, 2)}
    part = list(columns)  # of the forest that each column lies in
    for _ in range(len(columns) - 1):
        open_pairs = {pair: score for pair, score in scores.items() if part[pair[0]] != part[pair[1]]}
        one, other = fitted.choose(open_pairs, rho / (3 * (len(columns) - 1)), 1.0)
        fitted.measure((one, other), rho / (3 * (len(columns) - 1)))
        part = [part[one] if each == part[other] else each for each in part]
    fitted.fit(LAST_STEPS)
    return fitted.rows()


def _aim(package: Any, task: Task, rho: float, rng: np.random.Generator) -> np.ndarray:
    """Rounds that choose the marginal that is worst off for its noise, at most 16 a column, and measure it."""
    columns, pairs = range(len(task.sizes)), list(combinations(range(len(task.sizes)), 2))
    candidates = [*combinations(columns, 1), *pairs]
    worth = {each: float(sum(len(set(each) & set(pair)) for pair in pairs)) for each in candidates}
    rounds = 16 * len(columns)
    std, choosing = math.sqrt(rounds / (2 * 0.9 * rho)), 0.1 * rho / rounds
    fitted, spent = _Fitted(package, task, rng), 0.0
    for column in columns:
        fitted.measure((column,), 1 / (2 * std**2))
        spent += 1 / (2 * std**2)
    fitted.fit(AIM_STEPS)
    while spent < rho:
        if rho - spent < 2 * (1 / (2 * std**2) + choosing):  # the last round takes what is left
            std, choosing = math.sqrt(1 / (2 * 0.9 * (rho - spent))), 0.1 * (rho - spent)
        spent += 1 / (2 * std**2) + choosing
        chosen = [tuple(task.names.index(name) for name in each.clique) for each in fitted.seen]
        small = [each for each in candidates if _megabytes(fitted, [*chosen, each]) <= AIM_MEGABYTES * spent / rho]
        bias = math.sqrt(2 / math.pi) * std
        scores = {
            each: worth[each]
            * (float(np.abs(fitted.count(each) - fitted.told(each)).sum()) - bias * _cells(task, each))
            for each in small or combinations(columns, 1)
        }
        best = fitted.choose(scores, choosing, max(worth.values()))
        before = fitted.told(best)
        fitted.measure(best, 1 / (2 * std**2))
        fitted.fit(AIM_STEPS)
        if float(np.abs(fitted.told(best) - before).sum()) <= bias * _cells(task, best):
            std, choosing = std / 2, 4 * choosing
    fitted.fit(LAST_STEPS)
    return fitted.rows()


def _cells(task: Task, clique: Sequence[int]) -> int:
    return math.prod(task.sizes[column] for column in clique)


def _megabytes(fitted: _Fitted, cliques: Sequence[Sequence[int]]) -> float:
    names = [tuple(fitted.task.names[column] for column in clique) for clique in cliques]
    return float(fitted.package.junction_tree.hypothetical_model_size(fitted.domain, names))


PACKAGES = {"opendp": opendp, "dpmm": dpmm, "mbi": mbi}
NAMES = ("opendp-MST", "opendp-AIM", "dpmm-MST", "dpmm-AIM", "dpmm-QuickAIM", "mbi-MST", "mbi-AIM")


def zcdp_within(epsilon: float, delta: float) -> float:
    """The greatest rho whose conversion at `epsilon` (Canonne, Kamath and Steinke 2020, Proposition 12) is at most
    `delta`.
    """
    low, high = 0.0, epsilon + 1.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if _zcdp_delta(middle, epsilon) <= delta else (low, middle)
    return low


def _zcdp_delta(rho: float, epsilon: float) -> float:
    alphas = 1.0 + np.geomspace(1e-3, 1e4, 4000)
    log_delta = (alphas - 1) * (alphas * rho - epsilon) + alphas * np.log1p(-1 / alphas) - np.log(alphas - 1)
    return float(np.exp(min(0.0, log_delta.min())))


def rho_that_splits(rho: float, choices: int) -> float:
    """`rho`, or the next below it whose split by OpenDP 0.16's MST OpenDP itself accepts.

    Its MST gives half of rho to one-way marginals and a tenth of the rest to `choices` equal choices, one unit in the
    last place less each. It then adds them up with upward rounding and at most budgets refuses the sum by a few units.
    """
    while not _splits(rho, choices):
        rho *= A_LITTLE_LESS
    return rho


def _splits(rho: float, choices: int) -> bool:
    pairs = _two_below(rho - rho * 0.5)
    choosing = _two_below(pairs - pairs * 0.9)
    choice = math.nextafter(choosing / choices, 0.0)
    total = 0.0
    for _ in range(choices):
        total = _add_upwards(total, choice)
    return total <= choosing


def _two_below(number: float) -> float:
    return math.nextafter(math.nextafter(number, 0.0), 0.0)


def _add_upwards(one: float, other: float) -> float:
    """The least float that is not below the exact sum."""
    total = one + other
    return total if Fraction(total) >= Fraction(one) + Fraction(other) else math.nextafter(total, math.inf)


def timed(generate: Generator, task: Task) -> Result:
    start = time.perf_counter()
    codes = generate(task)
    return Result(codes.astype(np.int64), time.perf_counter() - start)


def main(name: str, *files: str) -> None:
    package, algorithm = name.split("-")
    generate = PACKAGES[package](algorithm)
    if files:
        source, target = map(Path, files)
        write_result(target, timed(generate, read_task(source)))


if __name__ == "__main__":
    main(*sys.argv[1:])
