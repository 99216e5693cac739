"""The Gaussian method: error of moments, of generated tables and of models trained on them; cost of moments.

Figures `gaussian.adult.<eps>.*` (six numeric columns), `gaussian.pums.<n>.<eps>.*` (six numeric columns of
New York and Florida workers, n rows drawn with replacement) and `gaussian.moments.*` (10 million rows of 20
columns). Delta is 1e-5, the relation ADD_REMOVE. The peer is the same Gaussian fitted without privacy, or
numpy's X.T @ X for time. `cov_error` is the Frobenius distance of the released covariance from the true one
over the latter's norm, columns scaled by their public bounds; `scaled_cov_error` the same with columns in
units of their own deviation; `table_cov_error` that of a generated table as large as the real one;
`downstream_error` the classification error of gradient boosting trained on a generated table (label
conditioned) and tested on held-out real rows.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from sklearn.ensemble import HistGradientBoostingClassifier
from threadpoolctl import threadpool_limits

from benchmarks.support.figures import Figures, measured
from understudy.pipelines.methods.gaussian.layout import Layout
from understudy.pipelines.methods.gaussian.method import GaussianMethod
from understudy.pipelines.methods.gaussian.moments import MAX_GRID, exact_products
from understudy.pipelines.methods.gaussian.noisy_moments import estimates_of
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.coding.encode import encode
from understudy.pipelines.table.domain import TableDomain

EPSILONS = ("0.2", "1", "2.5")
SIZES = (10**3, 10**4, 10**5, 10**6)
PEER = "Gaussian fit without privacy"
MODES = {"": "", "fixed.": ", centre: fixed", "copula.": ", mode: copula"}


@dataclass(frozen=True)
class Numbers:
    """A real table: numeric columns with public bounds, and a label to predict."""

    rows: pa.Table
    bounds: dict[str, tuple[int, int]]
    label: str
    labels: tuple[str, str]

    def spec(self, epsilon: str, options: str = "", with_label: bool = False) -> ReleaseSpec:
        columns = "".join(
            f"  {name}: {{type: integer, min: {low}, max: {high}, bins: 64}}\n"
            for name, (low, high) in self.bounds.items()
        )
        if with_label:
            columns += f"  {self.label}: {{type: category, values: ['{self.labels[0]}', '{self.labels[1]}']}}\n"
            options += f", label: {self.label}"
        return parse_spec(
            f"name: bench\nsource: {{uri: rows.parquet, snapshot: one}}\n"
            f"privacy: {{account: a, epsilon: {epsilon}, delta: 1e-5}}\ncolumns:\n{columns}"
            f"method: {{name: gaussian{options}}}\npublish: {{to: releases/}}\n"
        )

    def scaled(self, table: pa.Table) -> np.ndarray:
        """The numeric columns on [-1, 1] by their public bounds, clipped."""
        parts = []
        for name, (low, high) in self.bounds.items():
            values = table.column(name).to_numpy().astype(np.float64)
            parts.append(np.clip((2 * values - low - high) / (high - low), -1, 1))
        return np.stack(parts, axis=1)


class Memory:
    """A private table that is already in memory."""

    def __init__(self, rows: pa.Table, domain: TableDomain) -> None:
        self.rows, self.domain = rows, domain

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self.rows.to_batches(250_000))

    def counts(self, cliques: Sequence[tuple[int, ...]]) -> list[np.ndarray]:
        columns = encode(self.rows, self.domain).columns
        found = []
        for clique in cliques:
            shape = tuple(self.domain.sizes[i] for i in clique)
            cells = np.ravel_multi_index([columns[i].astype(np.int64) for i in clique], shape)
            found.append(np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape))
        return found


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--repeats", type=int, default=5, help="releases that a figure is the mean of")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only or "")
    if figures.wants("gaussian.moments"):
        show_moments(figures)
    if figures.wants("gaussian.adult") and (table := adult(args.data)) is not None:
        show_accuracy(figures, "gaussian.adult", table, args.repeats)
    if figures.wants("gaussian.pums") and (table := pums(args.data)) is not None:
        rng = np.random.default_rng(0)
        for size in SIZES:
            rows = table.rows.take(pa.array(rng.integers(0, table.rows.num_rows, size)))
            sample = Numbers(rows, table.bounds, table.label, table.labels)
            if figures.wants(f"gaussian.pums.{size}"):
                show_accuracy(figures, f"gaussian.pums.{size}", sample, args.repeats)


def adult(data: Path) -> Numbers | None:
    path = data / "adult" / "adult_raw.csv.gz"
    if not path.exists():
        return None
    bounds = {
        "age": (17, 90),
        "fnlwgt": (0, 1_500_000),
        "educational-num": (1, 16),
        "capital-gain": (0, 99_999),
        "capital-loss": (0, 5_000),
        "hours-per-week": (1, 99),
    }
    frame = pd.read_csv(path)[[*bounds, "income"]]
    return Numbers(pa.Table.from_pandas(frame, preserve_index=False), bounds, "income", ("<=50K", ">50K"))


def pums(data: Path) -> Numbers | None:
    """Workers of New York and Florida; the label is an income above 50,000."""
    paths = [data / "pums2024" / f"{state}.parquet" for state in ("ny", "fl")]
    if not all(path.exists() for path in paths):
        return None
    bounds = {
        "AGEP": (16, 99),
        "SCHL": (1, 24),
        "WKHP": (1, 99),
        "WKWN": (1, 52),
        "JWMNP": (1, 200),
        "POVPIP": (0, 501),
    }
    frame = pd.concat([pd.read_parquet(path, columns=[*bounds, "PINCP"]) for path in paths]).dropna()
    frame["rich"] = np.where(frame["PINCP"] > 50_000, "yes", "no")
    frame = frame[[*bounds, "rich"]].astype(dict.fromkeys(bounds, "int64"))
    return Numbers(pa.Table.from_pandas(frame, preserve_index=False), bounds, "rich", ("no", "yes"))


def show_accuracy(figures: Figures, prefix: str, table: Numbers, repeats: int) -> None:
    real = table.scaled(table.rows)
    truth = np.cov(real.T, bias=True)
    plain = np.mean([errors(truth, covariance_of(fit_and_draw(real, seed))) for seed in range(repeats)], axis=0)
    for epsilon in EPSILONS:
        for part, options in MODES.items():
            name = f"{prefix}.{epsilon}.{part}"
            if not figures.wants(name):
                continue
            released, made, seconds, cpu = [], [], [], []
            for _ in range(repeats):
                with measured() as cost:
                    estimate, synthetic = release(table, table.spec(epsilon, options), table.rows.num_rows)
                seconds.append(cost.seconds)
                cpu.append(cost.cpu_seconds)
                made.append(errors(truth, covariance_of(table.scaled(synthetic)))[0])
                if estimate is not None:
                    released.append(errors(truth, estimate))
            if released:
                error, scaled = np.mean(released, axis=0)
                figures.show(f"{name}cov_error", float(error), PEER, 0.0)
                figures.show(f"{name}scaled_cov_error", float(scaled), PEER, 0.0)
            figures.show(f"{name}table_cov_error", float(np.mean(made)), PEER, float(plain[0]))
            figures.show(f"{name}seconds", float(np.mean(seconds)))
            figures.show(f"{name}cpu_seconds", float(np.mean(cpu)))
    show_downstream(figures, prefix, table)


def show_downstream(figures: Figures, prefix: str, table: Numbers) -> None:
    order = np.random.default_rng(1).permutation(table.rows.num_rows)
    cut = len(order) // 5
    test, train = table.rows.take(pa.array(order[:cut])), table.rows.take(pa.array(order[cut:]))
    size = min(train.num_rows, 30_000)
    training = Numbers(train, table.bounds, table.label, table.labels)
    plain = downstream_error(training, fit_classes(training, size), test)
    best = downstream_error(training, train.slice(0, size), test)
    for epsilon in EPSILONS:
        for part, options in MODES.items():
            name = f"{prefix}.{epsilon}.{part}downstream_error"
            if figures.wants(name):
                _, made = release(training, training.spec(epsilon, options, with_label=True), size)
                figures.show(name, downstream_error(training, made, test), PEER, plain)
    figures.show(f"{prefix}.real.downstream_error", best)


def release(table: Numbers, spec: ReleaseSpec, rows: int) -> tuple[np.ndarray | None, pa.Table]:
    """One release as the flow makes it; the released covariance, where the mode has one, and the table."""
    domain, method = TableDomain.of(spec), GaussianMethod()
    measurement = method.measure(Memory(table.rows, domain), spec, method.plan(spec, domain), buy)
    estimate = None
    if "sums" in measurement.arrays and spec.method.options.get("label") is None:
        estimate = estimates_of(measurement, domain)[1][0].numeric_covariance
    return estimate, method.generate(measurement, spec, domain, rows, lambda done, total, note: None)


def buy(charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
    return mechanism.draw(operating_system_randomness())


def errors(truth: np.ndarray, found: np.ndarray) -> tuple[float, float]:
    scale = 1 / np.sqrt(np.diag(truth))
    standard = scale[:, None] * scale
    norm = np.linalg.norm
    return (
        float(norm(found - truth) / norm(truth)),
        float(norm((found - truth) * standard) / norm(truth * standard)),
    )


def covariance_of(rows: np.ndarray) -> np.ndarray:
    return np.cov(rows.T, bias=True)


def fit_and_draw(rows: np.ndarray, seed: int, count: int | None = None) -> np.ndarray:
    rng = np.random.default_rng(seed)
    drawn = rng.multivariate_normal(rows.mean(axis=0), covariance_of(rows), count or len(rows), method="cholesky")
    return np.clip(drawn, -1, 1)


def fit_classes(table: Numbers, size: int) -> pa.Table:
    """The peer for downstream error: one Gaussian a class, fitted and sampled without privacy."""
    labels = np.array(table.rows.column(table.label).to_pylist())
    rows, parts, names = table.scaled(table.rows), [], []
    for value in table.labels:
        mine = rows[labels == value]
        count = max(1, round(size * len(mine) / len(rows)))
        parts.append(fit_and_draw(mine, 0, count))
        names += [value] * count
    drawn = np.concatenate(parts)
    columns = {
        name: pa.array(np.rint(low + (drawn[:, i] + 1) / 2 * (high - low)).astype(np.int64))
        for i, (name, (low, high)) in enumerate(table.bounds.items())
    }
    return pa.table({**columns, table.label: names})


def downstream_error(table: Numbers, made: pa.Table, test: pa.Table) -> float:
    labels = np.array(made.column(table.label).to_pylist())
    if len(set(labels)) < 2:
        return float(np.mean(np.array(test.column(table.label).to_pylist()) != labels[0]))
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(table.scaled(made), labels)
        return float(1 - model.score(table.scaled(test), np.array(test.column(table.label).to_pylist())))


def show_moments(figures: Figures, blocks: int = 40, block_rows: int = 250_000, width: int = 20) -> None:
    """10 million rows x 20 doubles:

    Eight batches in memory, each used five times, so that the data fit beside us.
    """
    names = [f"x{i}" for i in range(width)]
    rng = np.random.default_rng(0)
    held = [pa.record_batch([rng.normal(size=block_rows) for _ in names], names=names) for _ in range(8)]
    columns = "".join(f"  {name}: {{type: number, min: -5, max: 5}}\n" for name in names)
    spec = parse_spec(
        "name: bench\nsource: {uri: rows.parquet, snapshot: one}\nprivacy: {account: a, epsilon: 1, delta: 1e-5}\n"
        f"columns:\n{columns}method: {{name: gaussian}}\npublish: {{to: releases/}}\n"
    )
    layout = Layout.of(TableDomain.of(spec), None, MAX_GRID)
    exact_products(held[:1], layout)  # compiles
    with measured() as ours:
        total = exact_products((held[i % len(held)] for i in range(blocks)), layout)
    if total[0, 0, 0] != blocks * block_rows:
        raise AssertionError("rows were lost")
    matrix = np.concatenate([np.stack([c.to_numpy() for c in batch.columns], axis=1) for batch in held])
    peers = []
    for threads in (1, 2):  # on a busy machine BLAS threads wait for each other, so the better of the two counts
        with threadpool_limits(threads, user_api="blas"), measured() as cost:
            for _ in range(blocks // len(held)):
                matrix.T @ matrix
        peers.append(cost)
    peer = min(peers, key=lambda cost: cost.seconds)
    del matrix
    name = "numpy X.T @ X in memory"
    figures.show("gaussian.moments.seconds", ours.seconds, name, peer.seconds)
    figures.show("gaussian.moments.cpu_seconds", ours.cpu_seconds, name, peer.cpu_seconds)
    figures.show("gaussian.moments.peak_mb", ours.peak_mb)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        pq.write_table(pa.Table.from_batches(held), path, compression="none", use_dictionary=False)
        del held
        with measured() as streamed:
            exact_products(parquet_batches(path, blocks // 8), layout)
        with measured() as ten_times:
            exact_products(parquet_batches(path, 10 * blocks // 8), layout)
    figures.show("gaussian.moments.parquet_seconds", streamed.seconds)
    figures.show("gaussian.moments.parquet_cpu_seconds", streamed.cpu_seconds)
    figures.show("gaussian.moments.parquet_peak_mb", streamed.peak_mb)
    figures.show("gaussian.moments.100m_parquet_seconds", ten_times.seconds)
    figures.show("gaussian.moments.100m_parquet_cpu_seconds", ten_times.cpu_seconds)
    figures.show("gaussian.moments.100m_parquet_peak_mb", ten_times.peak_mb)


def parquet_batches(path: Path, times: int) -> Iterator[pa.RecordBatch]:
    for _ in range(times):
        with pq.ParquetFile(path, pre_buffer=False) as file:
            yield from file.iter_batches(131_072)
