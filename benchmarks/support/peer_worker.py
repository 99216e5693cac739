"""One run of a peer, in the environment that has it: `peer_worker.py NAME [INPUT OUTPUT]`.

Started by `peers.py` with an interpreter that need not have Understudy, so it imports numpy and the peer only. INPUT
and OUTPUT are .npz files, a `Task` and a `Result`. Without them it only tries to import the peer.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import numpy as np

# What a budget that OpenDP's MST refuses is multiplied with before the next is looked at.
A_LITTLE_LESS = 1 - 1e-9
# dpmm's AIM takes hours with its own settings: fitting after each round is slow and grows with the model. QuickAIM is
# limited to the model size that its authors give for trials and fits each round briefly; the last fit is as long as
# any of theirs and goes on from the one before.
QUICK_MEGABYTES = 1.0
QUICK_STEPS, LAST_STEPS = 100, 1000


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


PACKAGES = {"opendp": opendp, "dpmm": dpmm}
NAMES = ("opendp-MST", "opendp-AIM", "dpmm-MST", "dpmm-AIM", "dpmm-QuickAIM")


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
