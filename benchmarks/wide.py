"""One wide column among ten others: what it costs, and whether its pairs and the others' survive it (epsilon 1).

Figures `wide.<kind>.<values>.tv_others` (two-way total variation of the pairs without the wide column), `.tv_top` (of
its pairs, its 20 most frequent values or 20 equal parts kept apart), `.cpu_seconds` and `.peak_mb`; the peers are the
pairs of ten columns alone and those of a sample of 20,000 real rows. Ten columns and 120,000 rows of the made-up
table; the wide column, ordered or nominal, follows some of them, the nominal one with frequencies of 1/rank.
"""

from __future__ import annotations

import argparse

import numpy as np

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.figures import Figures, measured
from benchmarks.support.latent import latent_table
from benchmarks.support.strategies import by_residuals, grid
from benchmarks.support.tables import CodedTable
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize

ROWS, COLUMNS, TOP = 120_000, 10, 20
VALUES = (1_000, 10_000)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--values", type=int, nargs="+", default=list(VALUES))


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    narrow = latent_table(COLUMNS, ROWS)
    alone = _others(narrow, synthesize(by_residuals(narrow, narrow.codes, 1.0), grid(narrow), ROWS, PrivPGDConfig()))
    sample = np.random.default_rng(1).choice(ROWS, 20_000, replace=False)
    for kind in ("nominal", "ordered"):
        for values in args.values:
            name = f"wide.{kind}.{values}"
            if not figures.wants(f"{name}."):
                continue
            table = with_wide(narrow, values, kind == "ordered")
            with measured() as cost:
                fake = synthesize(by_residuals(table, table.codes, 1.0), grid(table), ROWS, PrivPGDConfig())
            figures.show(f"{name}.tv_others", _others(table, fake), "ten columns", alone)
            figures.show(f"{name}.tv_top", _top(table, fake), "20,000 rows", _top(table, table.codes[sample]))
            figures.show(f"{name}.cpu_seconds", cost.cpu_seconds)
            figures.show(f"{name}.peak_mb", cost.peak_mb)


def with_wide(table: CodedTable, values: int, ordered: bool) -> CodedTable:
    """One column more, whose ranks follow those of the first ordered ones."""
    rng = np.random.default_rng(values)
    hidden = table.codes[:, 2] / table.sizes[2] + table.codes[:, 4] / table.sizes[4] + rng.normal(size=len(table.codes))
    ranks = np.argsort(np.argsort(hidden)) / len(hidden)
    frequencies = np.ones(values) if ordered else 1 / np.arange(1, values + 1)
    order = np.arange(values) if ordered else rng.permutation(values)
    edges = np.cumsum(frequencies[order] / frequencies.sum())[:-1]
    codes = np.searchsorted(edges, ranks) if ordered else order[np.searchsorted(edges, ranks)]
    return CodedTable(
        f"wide{values}",
        (*table.columns, "wide"),
        np.column_stack([table.codes, codes]),
        (*table.sizes, values),
        (*table.ordered, ordered),
        table.label,
    )


def _others(table: CodedTable, fake: np.ndarray) -> float:
    return metrics.average_total_variation(table.codes[:, :COLUMNS], fake[:, :COLUMNS], table.sizes[:COLUMNS])


def _top(table: CodedTable, rows: np.ndarray) -> float:
    """Of the pairs with the wide column, its most frequent values or, of an ordered one, 20 equal parts kept apart."""
    if table.ordered[-1]:
        of = np.arange(table.sizes[-1]) * TOP // table.sizes[-1]
    else:
        of = np.full(table.sizes[-1], TOP)
        of[np.argsort(-np.bincount(table.codes[:, -1], minlength=table.sizes[-1]))[:TOP]] = np.arange(TOP)
    distances = []
    for column, size in enumerate(table.sizes[:COLUMNS]):
        real, made = (
            np.bincount(each[:, column] * (TOP + 1) + of[each[:, -1]], minlength=size * (TOP + 1)) / len(each)
            for each in (table.codes, rows)
        )
        distances.append(np.abs(real - made).sum() / 2)
    return float(np.mean(distances))
