"""`marginals: auto` beside `all-2way` and `all-3way`: planted labels, and errors of two, three and four columns.

Figures `triples.planted.<design>.<marginals>.auc` and `.real.auc`: gradient boosting learns a label that was planted
(support/planted.py) from the copy and is tested on real rows that the copy never saw. `triples.<set>.<epsilon>.tv` and
`.three_way_tv`: errors of the published table over all pairs, and over all triples or 300 of them; the peer is
`all-2way`. `triples.flat.<set>.<epsilon>.*`: the same of a set without structure of three columns: a copy of the real
one made of its pairs takes its place. `triples.nist.<n>.k3` and `.k4`: 1000 (1 - mean total variation) of all triples
and fours of the columns that SDNist's K-marginal score is asked for. Delta 1e-5, ADD_REMOVE.
Constants were chosen on Adult, BR2000 and planted tables of seed 1 (design); all else reports.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from itertools import combinations

import numpy as np

from benchmarks.focus import auc
from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support.figures import Figures
from benchmarks.support.planted import DESIGNS, ROWS, planted
from benchmarks.support.strategies import by_residuals, by_triples, grid
from benchmarks.support.tables import CodedTable, load_tables, people
from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize

EPSILONS = ("2.5", "1", "0.2")
FLAT = ("adult", "br2000", "nltcs", "diabetes", "income_ny")
FLAT_EPSILON = 100.0
MOST_TRIPLES = 300
NIST = (
    "AGEP SEX MSP RAC1P HOUSING_TYPE OWN_RENT EDU PINCP_DECILE DVET DEYE",
    "PUMA SEX MSP HISP RAC1P OWN_RENT INDP_CAT EDU PINCP_DECILE",
    "PUMA AGEP SEX MSP HISP RAC1P NOC NPF OWN_RENT PINCP_DECILE POVPIP",
)

Measure = Callable[[CodedTable, np.ndarray, float], Residuals]
MODES: dict[str, Measure] = {
    "auto": by_triples,
    "all-2way": by_residuals,
    "all-3way": lambda table, codes, epsilon: by_residuals(table, codes, epsilon, order=3),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--draws", type=int, default=3, help="releases of each kind")
    parser.add_argument("--seed", type=int, default=11, help="of the first planted table; one for each draw")
    parser.add_argument("--all", action="store_true", help="also all-3way on the real sets, which takes long")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    for design in DESIGNS:
        if figures.wants(f"triples.planted.{design}."):
            _planted(figures, design, range(args.seed, args.seed + args.draws))
    tables = load_tables(args.data) + [table for table in (people(args.data),) if table is not None]
    modes = ("auto", "all-2way", "all-3way") if args.all else ("auto", "all-2way")
    for table in tables:
        for epsilon in EPSILONS:
            if figures.wants(f"triples.{table.name}.{epsilon}."):
                _errors(figures, f"triples.{table.name}.{epsilon}", table, epsilon, args.draws, modes)
    for table in tables:
        if table.name in FLAT and figures.wants(f"triples.flat.{table.name}."):
            flat = _copy(table, by_residuals, table.codes, FLAT_EPSILON)
            for epsilon in EPSILONS:
                if figures.wants(f"triples.flat.{table.name}.{epsilon}."):
                    _errors(figures, f"triples.flat.{table.name}.{epsilon}", _with(table, flat), epsilon, args.draws)
    national = [table for table in tables if table.name == "nist2019"]
    for number, names in enumerate(NIST if national else (), start=1):
        if figures.wants(f"triples.nist.{number}."):
            _nist(figures, f"triples.nist.{number}", only_columns(national[0], names.split()), args.draws, modes)


def _planted(figures: Figures, design: str, seeds: range) -> None:
    found: dict[str, list[tuple[float, float, float]]] = {mode: [] for mode in MODES}
    real = []
    for seed in seeds:
        table = planted(design, seed)
        seen, unseen = table.codes[:ROWS], table.codes[ROWS:]
        real.append(auc(table, seen, unseen))
        for mode, measure in MODES.items():
            fake = _copy(table, measure, seen, 1.0)
            found[mode].append((auc(table, fake, unseen), *two_and_three(table, seen, fake)))
    name = f"triples.planted.{design}"
    figures.show(f"{name}.real.auc", float(np.mean(real)))
    for mode, scores in found.items():
        for figure, values in zip(("auc", "tv", "three_way_tv"), np.array(scores).T, strict=True):
            figures.show(f"{name}.{mode}.{figure}", float(values.mean()))
            figures.show(f"{name}.{mode}.{figure}_worst", float(values.min() if figure == "auc" else values.max()))


def _errors(
    figures: Figures,
    name: str,
    table: CodedTable,
    epsilon: str,
    draws: int,
    modes: tuple[str, ...] = ("auto", "all-2way"),
) -> None:
    """Draw by draw in turns, so that what else the machine does falls on all alike."""
    scores = np.array(
        [
            [
                two_and_three(table, table.codes, _copy(table, MODES[mode], table.codes, float(epsilon)))
                for mode in modes
            ]
            for _ in range(draws)
        ]
    )
    _show(figures, name, ("tv", "three_way_tv"), modes, scores)


def _nist(figures: Figures, name: str, table: CodedTable, draws: int, modes: tuple[str, ...]) -> None:
    def scored(mode: str) -> list[float]:
        fake = _copy(table, MODES[mode], table.codes, 1.0)
        return [1000 * (1 - metrics.average_total_variation(table.codes, fake, table.sizes, order=k)) for k in (3, 4)]

    _show(figures, name, ("k3", "k4"), modes, np.array([[scored(mode) for mode in modes] for _ in range(draws)]))


def _show(figures: Figures, name: str, kinds: tuple[str, str], modes: tuple[str, ...], scores: np.ndarray) -> None:
    means, errors = scores.mean(axis=0), scores.std(axis=0, ddof=1) / np.sqrt(len(scores))
    for place, kind in enumerate(kinds):
        figures.show(f"{name}.{kind}", means[0, place], "all-2way", means[1, place])
        figures.show(f"{name}.{kind}_error", errors[0, place], "all-2way", errors[1, place])
        if len(modes) > 2:
            figures.show(f"{name}.all-3way.{kind}", means[2, place])


def _copy(table: CodedTable, measure: Measure, codes: np.ndarray, epsilon: float) -> np.ndarray:
    return synthesize(measure(table, codes, epsilon), grid(table), len(codes), PrivPGDConfig())


def two_and_three(table: CodedTable, codes: np.ndarray, fake: np.ndarray) -> tuple[float, float]:
    triples = list(combinations(range(len(table.sizes)), 3))
    if len(triples) > MOST_TRIPLES:
        some = np.random.default_rng(0).choice(len(triples), MOST_TRIPLES, replace=False)
        triples = [triples[place] for place in some]
    distances = [
        np.abs(metrics.marginal(codes, t, table.sizes) - metrics.marginal(fake, t, table.sizes)).sum() / 2
        for t in triples
    ]
    return metrics.average_total_variation(codes, fake, table.sizes), float(np.mean(distances))


def _with(table: CodedTable, codes: np.ndarray) -> CodedTable:
    return CodedTable(table.name, table.columns, codes.astype(np.int64), table.sizes, table.ordered, table.label)


def only_columns(table: CodedTable, names: list[str]) -> CodedTable:
    kept = [table.columns.index(name) for name in names]
    sizes, ordered = tuple(table.sizes[c] for c in kept), tuple(table.ordered[c] for c in kept)
    return CodedTable(table.name, tuple(names), table.codes[:, kept], sizes, ordered, 0)
