"""Numeric tables with a label: the same release by `privpgd`, `gaussian` (moments, and copula), `kernel` and `mixing`.

`numeric.{adult,pums}.{eps}.{method}.*` at delta 1e-5 under ADD_REMOVE, six integer columns and a label of two values,
default options: `mean_error` and `cov_error` (columns in units of their own deviation; Frobenius, relative), `one_way`
and `two_way` (mean total variation over columns and pairs, label included, numbers in 16 bins of their public range),
`auc` of gradient boosting trained on the copy and asked about held-out real rows, `seconds` of the release with its
generation. Each release sees four fifths of the rows; errors are against those, the AUC is on the other fifth.
`.real.auc` is that of the rows themselves. Nothing is chosen by these figures: every method runs at its defaults.
"""

from __future__ import annotations

import argparse
import tempfile

import numpy as np
import pyarrow as pa
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score
from threadpoolctl import threadpool_limits

import understudy
from benchmarks.gaussian import Numbers, adult, covariance_of, errors, pums
from benchmarks.papers.privpgd_metrics import average_total_variation
from benchmarks.support.figures import Figures, measured

TABLES = {"adult": adult, "pums": pums}
EPSILONS = ("1", "10")
BINS = 16
MOST_ROWS = 30_000
"""Rows of a copy, and of the real table where a classifier is trained on it."""


def methods(label: str, rows: int) -> dict[str, dict[str, object]]:
    return {
        "privpgd": {"name": "privpgd"},
        "gaussian": {"name": "gaussian", "label": label},
        "copula": {"name": "gaussian", "label": label, "mode": "copula"},
        "kernel": {"name": "kernel", "label": label, "rows": rows},
        "mixing": {"name": "mixing", "label": label, "rows": rows, "balance": "sizes"},
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=int, default=1, help="releases that a figure is the mean of")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    for name, load in TABLES.items():
        if not figures.wants(f"numeric.{name}.") or (table := load(args.data)) is None:
            continue
        order = np.random.default_rng(1).permutation(table.rows.num_rows)
        cut = len(order) // 5
        test, seen = (table.rows.take(pa.array(part)) for part in (order[:cut], order[cut:]))
        if figures.wants(f"numeric.{name}.real.auc"):
            figures.show(f"numeric.{name}.real.auc", _auc(table, seen.slice(0, MOST_ROWS), test))
        for epsilon in EPSILONS:
            for method, options in methods(table.label, seen.num_rows).items():
                if figures.wants(f"numeric.{name}.{epsilon}.{method}."):
                    _show(figures, f"numeric.{name}.{epsilon}.{method}", table, seen, test, epsilon, options, args.runs)


def _show(
    figures: Figures,
    name: str,
    table: Numbers,
    seen: pa.Table,
    test: pa.Table,
    epsilon: str,
    options: dict[str, object],
    runs: int,
) -> None:
    found: list[dict[str, float]] = []
    for _ in range(runs):
        with measured() as cost:
            made = _released(table, seen, epsilon, options)
        found.append({**_errors(table, seen, made), "auc": _auc(table, made, test), "seconds": cost.seconds})
    for measure in found[0]:
        figures.show(f"{name}.{measure}", float(np.mean([one[measure] for one in found])))


def _released(table: Numbers, seen: pa.Table, epsilon: str, options: dict[str, object]) -> pa.Table:
    numbers = {
        name: {"type": "integer", "min": low, "max": high, "bins": 64} for name, (low, high) in table.bounds.items()
    }
    spec = {
        "name": "numeric",
        "snapshot": "1",
        "privacy": {"account": "numeric", "epsilon": float(epsilon), "delta": 1e-5},
        "columns": {**numbers, table.label: {"type": "category", "values": list(table.labels)}},
        "method": options,
    }
    with tempfile.TemporaryDirectory() as home:
        return understudy.Synthesizer(spec, cap=(100, 1e-4), home=home).fit(seen).sample(MOST_ROWS)


def _errors(table: Numbers, seen: pa.Table, made: pa.Table) -> dict[str, float]:
    real, fake = table.scaled(seen), table.scaled(made)
    spread = real.std(axis=0)
    sizes = (*[BINS] * len(table.bounds), len(table.labels))
    codes, other = _codes(table, seen), _codes(table, made)
    return {
        "mean_error": float((np.abs(fake.mean(axis=0) - real.mean(axis=0)) / spread).mean()),
        "cov_error": errors(covariance_of(real), covariance_of(fake))[1],
        "one_way": average_total_variation(codes, other, sizes, order=1),
        "two_way": average_total_variation(codes, other, sizes, order=2),
    }


def _codes(table: Numbers, rows: pa.Table) -> np.ndarray:
    binned = np.minimum(((table.scaled(rows) + 1) / 2 * BINS).astype(np.int64), BINS - 1)
    labels = np.array(rows.column(table.label).to_pylist()) == table.labels[1]
    return np.column_stack([binned, labels.astype(np.int64)])


def _auc(table: Numbers, made: pa.Table, test: pa.Table) -> float:
    train, asked = (np.array(part.column(table.label).to_pylist()) == table.labels[1] for part in (made, test))
    if len(np.unique(train)) < 2:
        return 0.5
    with threadpool_limits(1):
        model = HistGradientBoostingClassifier(max_iter=60, random_state=0).fit(table.scaled(made), train)
        return float(roc_auc_score(asked, model.predict_proba(table.scaled(test))[:, 1]))
