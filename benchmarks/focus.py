"""`focus` on the label: what a classifier learns from the copy of a small table at epsilon 0.2, with and without.

Figures `focus.<set>.<rows>.auc`, `.auc_spread` (standard deviation over the draws) and `.tv` (all pairs), with focus on
the label; the peer is the same without. `focus.<set>.<rows>.real.auc` is what the real rows give. A random part of the
real rows is copied, gradient boosting learns from the copy and is tested on others (delta 1e-5, ADD_REMOVE).
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.figures import Figures
from benchmarks.support.strategies import by_residuals, grid
from benchmarks.support.tables import CodedTable, load_tables
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize

EPSILON = 0.2
CASES = (("adult", 7_000), ("income_ny", 7_000), ("nist2019", 7_000), ("adult", 33_000), ("diabetes", 33_000))
MOST_TESTED = 20_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=9, help="releases a side")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    tables = {table.name: table for table in load_tables(args.data)}
    for name, rows in CASES:
        if name not in tables or not figures.wants(f"focus.{name}.{rows}."):
            continue
        table = tables[name]
        order = np.random.default_rng(5).permutation(len(table.codes))
        seen, unseen = table.codes[order[:rows]], table.codes[order[rows : rows + MOST_TESTED]]
        figures.show(f"focus.{name}.{rows}.real.auc", auc(table, seen, unseen))
        scores = [[_released(table, seen, unseen, focus) for focus in (True, False)] for _ in range(args.draws)]
        found = np.array(scores)  # draws, with and without, AUC and TV
        (ours, theirs), spread = found.mean(axis=0), found.std(axis=0, ddof=1)
        figures.show(f"focus.{name}.{rows}.auc", ours[0], "no focus", theirs[0])
        figures.show(f"focus.{name}.{rows}.auc_spread", spread[0, 0], "no focus", spread[1, 0])
        figures.show(f"focus.{name}.{rows}.tv", ours[1], "no focus", theirs[1])


def _released(table: CodedTable, seen: np.ndarray, unseen: np.ndarray, focus: bool) -> tuple[float, float]:
    columns = frozenset({table.label}) if focus else frozenset[int]()
    noisy = by_residuals(table, seen, EPSILON, columns)
    fake = synthesize(noisy, grid(table), len(seen), PrivPGDConfig(), focus=columns)
    return auc(table, fake, unseen), metrics.average_total_variation(seen, fake, table.sizes)


def auc(table: CodedTable, train: np.ndarray, test: np.ndarray) -> float:
    """Of the most common label of the test rows against the rest."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    features = [column for column in range(len(table.sizes)) if column != table.label]
    common = np.bincount(test[:, table.label]).argmax()
    known = train[:, table.label] == common
    if known.all() or not known.any():
        return 0.5
    model = HistGradientBoostingClassifier(random_state=0).fit(train[:, features], known)
    return float(roc_auc_score(test[:, table.label] == common, model.predict_proba(test[:, features])[:, 1]))
