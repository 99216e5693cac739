"""The K-marginal score of NIST's SDNist 2.4 on its national excerpt of 2019, for three sets of columns (epsilon 1).

Figures `kmarginal.<set>.<mode>`: 1000 (1 - mean total variation) of all pairs of the set's columns but PUMA, each
together with PUMA where the set has it, which is SDNist's formula (`sdnist/metrics/kmarginal.py`), on our codes: AGEP
and POVPIP are in 32 equal bins, where SDNist cuts them otherwise. Mean of the draws; `_error` is its standard error.
Modes: `default`; `focus` on PUMA, in whose groups the score is reckoned; `fourfold`, the default's with four times the
rows, whose triples scatter less about what the measurements say; `both`; `bootstrap` are real rows, drawn with
replacement. With `--sdnist-python PATH`, an interpreter that has sdnist 2.4, `_sdnist` is what its own class says of
the first draw's rows, and the peer what the formula here says of them.
"""

from __future__ import annotations

import argparse
import subprocess
from itertools import combinations
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.figures import Figures
from benchmarks.support.strategies import by_residuals, grid
from benchmarks.support.tables import CodedTable, national
from benchmarks.triples import NIST, only_columns
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize

GROUP = "PUMA"
MODES = ("default", "focus", "fourfold", "both", "bootstrap")
ITS_OWN = """
import sys, numpy, pandas, sdnist.report
from sdnist.metrics.kmarginal import KMarginal
file = numpy.load(sys.argv[1])
real, fake = (pandas.DataFrame(file[name], columns=file["names"]) for name in ("real", "fake"))
print(KMarginal(real, fake, [name for name in file["names"] if name == "PUMA"]).compute_score())
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--sdnist-python", metavar="PATH", help="interpreter that has sdnist 2.4")


def run(args: argparse.Namespace) -> None:
    figures, whole = Figures(args.only), national(args.data)
    if whole is None:
        return
    for number, names in enumerate(NIST, start=1):
        table = only_columns(whole, names.split())
        for mode in MODES:
            name = f"kmarginal.{number}.{mode}"
            if not figures.wants(name) or (mode in ("focus", "both") and GROUP not in table.columns):
                continue
            copies = [_rows(table, mode, args.epsilon, draw) for draw in range(args.draws)]
            scores = np.array([score(table, rows) for rows in copies])
            if args.sdnist_python:
                figures.show(f"{name}_sdnist", _told(args.sdnist_python, table, copies[0]), "here", float(scores[0]))
            figures.show(name, float(scores.mean()))
            if args.draws > 1:
                figures.show(f"{name}_error", float(scores.std(ddof=1) / np.sqrt(len(scores))))


def score(table: CodedTable, rows: np.ndarray) -> float:
    group = [c for c, name in enumerate(table.columns) if name == GROUP]
    others = [c for c in range(len(table.columns)) if c not in group]
    distances = []
    for pair in combinations(others, 2):
        clique = (*group, *pair)
        real, fake = (metrics.marginal(codes, clique, table.sizes) for codes in (table.codes, rows))
        distances.append(np.abs(real - fake).sum() / 2)
    return 1000 * (1 - float(np.mean(distances)))


def _told(python: str, table: CodedTable, rows: np.ndarray) -> float:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "tables.npz"
        np.savez(path, real=table.codes, fake=rows, names=np.array(table.columns))
        command = [python, "-c", ITS_OWN, str(path)]
        return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()[-1])


def _rows(table: CodedTable, mode: str, epsilon: float, draw: int) -> np.ndarray:
    many = len(table.codes)
    if mode == "bootstrap":
        return table.codes[np.random.default_rng(draw).integers(0, many, many)]
    focus = frozenset({table.columns.index(GROUP)}) if mode in ("focus", "both") else frozenset[int]()
    noisy = by_residuals(table, table.codes, epsilon, focus)
    rows = 4 * many if mode in ("fourfold", "both") else many
    return synthesize(noisy, grid(table), rows, PrivPGDConfig(), focus=focus)
