"""PrivPGD: accuracy, time and memory on real tables at epsilon 2.5, 1 and 0.2 (delta 1e-5, ADD_REMOVE).

Figures `privpgd.slice.*`, `privpgd.<set>.<epsilon>.*`, `privpgd.<set>.real.*` and `.constant.*` (the ends of
the scale of the downstream error), `privpgd.adaptive.<set>.<epsilon>.*`, `privpgd.cost.*` and `privpgd.large.*`.
Every table is counted, noised and generated as the flow does it: the residuals of all 2-way marginals, or marginals
that are chosen after a tenth of the budget went to 1-way ones; rounded Gaussian noise from the operating system.
"""

from __future__ import annotations

import argparse
import sys
from itertools import combinations

import numpy as np

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support import peers
from benchmarks.support.figures import Figures, measured
from benchmarks.support.strategies import DELTA, by_residuals, count, grid
from benchmarks.support.tables import CodedTable, adult_slice, load_tables
from understudy.pipelines.counting.adaptive import measure_adaptively, plan_rounds
from understudy.pipelines.counting.lifted import Residuals
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize
from understudy.pipelines.methods.privpgd.problem import GridColumn, Noisy, NoisyMarginal
from understudy.pipelines.methods.privpgd.projection import project_to_simplex
from understudy.pipelines.methods.privpgd.rounds import ONE_WAY_SHARE, default_rounds, quick_copy
from understudy.pipelines.methods.privpgd.targets import build_targets
from understudy.pipelines.privacy.noise.rounded import operating_system_randomness
from understudy.pipelines.privacy.relation import Budget, Relation, Unit

EPSILONS = ("2.5", "1", "0.2")
PARTICLES = 100_000
SLICE_PARTICLES, SLICE_SIGMA = 20_000, 8.95
HELD_OUT = 0.2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    held_out = "score all metrics of one run that sees four fifths of the rows; always so beside a peer"
    parser.add_argument("--held-out", action="store_true", help=held_out)
    parser.add_argument(
        "--epochs", type=int, default=PrivPGDConfig.epochs, help="passes of transport over the marginals"
    )
    parser.add_argument("--redraws", type=int, default=PrivPGDConfig.redraws, help="redraws of all codes after it")
    parser.add_argument("--peer", nargs="+", choices=peers.NAMES, default=[], help="also run these")
    parser.add_argument("--peer-python", default=sys.executable, metavar="PATH", help="interpreter that has the peers")
    parser.add_argument("--peer-limit", type=float, default=3600, metavar="SECONDS", help="stop a peer after this long")


def run(args: argparse.Namespace) -> None:
    figures = Figures(args.only)
    others = [peers.Peer(name, args.peer_python, args.peer_limit) for name in args.peer]
    try:
        for peer in others:
            peer.check_installed()
    except peers.PeerError as failure:
        sys.exit(str(failure))
    config = PrivPGDConfig(particles=PARTICLES, epochs=args.epochs, redraws=args.redraws)
    _warm_up()
    if figures.wants("privpgd.slice.") and (table := adult_slice(args.data)) is not None:
        _slice(figures, table)
    for table in load_tables(args.data) if _wants_tables(figures) else []:
        _downstream_without_privacy(figures, table)
        for epsilon in EPSILONS:
            if figures.wants(f"privpgd.{table.name}.{epsilon}."):
                if others or args.held_out:
                    _held_out_table(figures, table, epsilon, others, config)
                else:
                    _whole_table(figures, table, epsilon, config)
            if figures.wants(f"privpgd.adaptive.{table.name}.{epsilon}."):
                _adaptive_table(figures, table, epsilon, config)
    _cost(figures)
    if figures.wants("privpgd.large."):
        _large(figures)


def _wants_tables(figures: Figures) -> bool:
    return not figures.only.startswith(("privpgd.slice", "privpgd.cost", "privpgd.large"))


def _slice(figures: Figures, table: CodedTable) -> None:
    rng = np.random.default_rng(0)
    noisy = []
    for pair in combinations(range(len(table.sizes)), 2):
        exact = len(table.codes) * metrics.marginal(table.codes, pair, table.sizes)
        noisy.append(NoisyMarginal(pair, np.rint(exact + SLICE_SIGMA * rng.normal(size=exact.shape)), SLICE_SIGMA))
    with measured() as cost:
        fake = synthesize(noisy, grid(table), SLICE_PARTICLES, PrivPGDConfig(particles=SLICE_PARTICLES))
    figures.show("privpgd.slice.tv", metrics.average_total_variation(table.codes, fake, table.sizes))
    figures.show("privpgd.slice.sw1", _sw1(table.codes, fake, table))
    figures.show("privpgd.slice.cpu_seconds", cost.cpu_seconds)


def _whole_table(figures: Figures, table: CodedTable, epsilon: str, config: PrivPGDConfig) -> None:
    """Five metrics against the whole table; the downstream error from a second run that never saw the test rows."""
    name = f"privpgd.{table.name}.{epsilon}"
    with measured() as cost:
        noisy = by_residuals(table, table.codes, float(epsilon))
        fake = _generate(table, noisy, config)
    for metric, value in _scores(table, table.codes, fake).items():
        figures.show(f"{name}.{metric}", value)
    if figures.wants(f"{name}.three_way_tv"):
        three_way = metrics.average_total_variation(table.codes, fake, table.sizes, order=3)
        figures.show(f"{name}.three_way_tv", three_way)
    if figures.wants(f"{name}.projected_tv") or figures.wants(f"{name}.targets_tv"):
        _before_generation(figures, name, table, noisy)
    figures.show(f"{name}.seconds", cost.seconds)
    figures.show(f"{name}.peak_mb", cost.peak_mb)
    if figures.wants(f"{name}.downstream"):
        seen, unseen = _split(table)
        figures.show(f"{name}.downstream", _downstream(table, unseen, _privpgd(table, seen, float(epsilon), config)))


def _adaptive_table(figures: Figures, table: CodedTable, epsilon: str, config: PrivPGDConfig) -> None:
    """As `_held_out_table`, of marginals chosen round by round instead of all pairs."""
    name = f"privpgd.adaptive.{table.name}.{epsilon}"
    seen, unseen = _split(table)
    columns = len(table.sizes)
    pairs = list(combinations(range(columns), 2))
    rounds = min(default_rounds(columns), len(pairs))
    with measured() as cost:
        budget = Budget(float(epsilon), DELTA)
        plan = plan_rounds(columns, pairs, rounds, ONE_WAY_SHARE, budget, Relation.ADD_REMOVE, Unit())
        bought, _ = measure_adaptively(
            plan,
            lambda cliques: count(table, seen, cliques),
            quick_copy(grid(table)),
            lambda _, sold: sold.draw(operating_system_randomness()),
        )
        fake = _generate(table, [NoisyMarginal(*marginal) for marginal in bought.marginals], config)
    scores = {**_scores(table, seen, fake), "downstream": _downstream(table, unseen, fake), "seconds": cost.seconds}
    for metric, value in scores.items():
        figures.show(f"{name}.{metric}", value)


def _before_generation(figures: Figures, name: str, table: CodedTable, noisy: Residuals) -> None:
    """Total variation of the estimated pairs, each projected by itself, and of the targets that are made of them."""
    pairs = [clique for clique in noisy.asked if len(clique) == 2]
    real = {pair: metrics.marginal(table.codes, pair, table.sizes) for pair in pairs}
    projected = {pair: project_to_simplex(np.ravel(noisy.marginal(pair) / len(table.codes))) for pair in pairs}
    targets = build_targets(noisy, grid(table), None).pairs
    for metric, tables in (("projected_tv", projected), ("targets_tv", targets)):
        distances = [np.abs(np.ravel(tables[pair]) - exact.ravel()).sum() / 2 for pair, exact in real.items()]
        figures.show(f"{name}.{metric}", float(np.mean(distances)))


def _held_out_table(
    figures: Figures, table: CodedTable, epsilon: str, others: list[peers.Peer], config: PrivPGDConfig
) -> None:
    """Every metric of one run a side: five against the rows it saw, the downstream error against the rest."""
    name = f"privpgd.{table.name}.{epsilon}"
    seen, unseen = _split(table)

    def all_scores(fake: np.ndarray) -> dict[str, float]:
        return {**_scores(table, seen, fake), "downstream": _downstream(table, unseen, fake)}

    with measured() as cost:
        fake = _privpgd(table, seen, float(epsilon), config)
    ours = {**all_scores(fake), "seconds": cost.seconds}
    figures.show(f"{name}.peak_mb", cost.peak_mb)
    if not others:
        for metric, value in ours.items():
            figures.show(f"{name}.{metric}", value)
    for peer in others:
        result = peer.run(peers.Task(seen, table.sizes, float(epsilon), DELTA, PARTICLES))
        theirs = {**all_scores(result.codes), "seconds": result.seconds} if result else {}
        for metric, value in ours.items():
            figures.show(f"{name}.{metric}", value, peer.name, theirs.get(metric))


def _downstream_without_privacy(figures: Figures, table: CodedTable) -> None:
    """What the real rows give, and what the more common label alone does: the ends of the scale."""
    name = f"privpgd.{table.name}"
    seen, unseen = _split(table)
    if figures.wants(f"{name}.real.downstream"):
        figures.show(f"{name}.real.downstream", _downstream(table, unseen, seen))
    if figures.wants(f"{name}.constant.downstream"):
        most_common = np.bincount(seen[:, table.label]).argmax()
        figures.show(f"{name}.constant.downstream", np.mean(unseen[:, table.label] != most_common))


def _split(table: CodedTable) -> tuple[np.ndarray, np.ndarray]:
    """Four fifths of the rows, to be seen, and the rest."""
    order = np.random.default_rng(1).permutation(len(table.codes))
    cut = int(HELD_OUT * len(order))
    return table.codes[order[cut:]], table.codes[order[:cut]]


def _downstream(table: CodedTable, unseen: np.ndarray, fake: np.ndarray) -> float:
    return metrics.downstream_error(fake, unseen, table.sizes, table.label)


def _privpgd(table: CodedTable, codes: np.ndarray, epsilon: float, config: PrivPGDConfig) -> np.ndarray:
    return _generate(table, by_residuals(table, codes, epsilon), config)


def _generate(table: CodedTable, noisy: Noisy, config: PrivPGDConfig) -> np.ndarray:
    return synthesize(noisy, grid(table), PARTICLES, config)


def _scores(table: CodedTable, real: np.ndarray, fake: np.ndarray) -> dict[str, float]:
    rng = np.random.default_rng(2)
    sizes = table.sizes
    counting = metrics.draw_counting_queries(real, sizes, rng)
    threshold = metrics.draw_threshold_queries(real, sizes, rng)
    return {
        "tv": metrics.average_total_variation(real, fake, sizes),
        "sw1": _sw1(real, fake, table),
        "covariance": metrics.covariance_error(real, fake, sizes),
        "counting": metrics.query_error(counting, real, fake),
        "threshold": metrics.query_error(threshold, real, fake),
    }


def _sw1(real: np.ndarray, fake: np.ndarray, table: CodedTable) -> float:
    return metrics.average_sliced_w1(real, fake, table.sizes, np.random.default_rng(3))


def _cost(figures: Figures) -> None:
    """CPU seconds with one thing varied at a time from 50,000 particles, 12 columns (66 marginals), 16 codes
    each.
    """
    grids = {
        "particles": [(rows, 12, 16) for rows in (25_000, 50_000, 100_000, 200_000)],
        "marginals": [(50_000, columns, 16) for columns in (6, 12, 24)],
        "cells": [(50_000, 12, codes) for codes in (8, 16, 32, 64)],
    }
    for varied, cases in grids.items():
        for rows, columns, codes in cases:
            amount = {"particles": rows, "marginals": columns * (columns - 1) // 2, "cells": codes**2}[varied]
            name = f"privpgd.cost.{varied}.{amount}.cpu_seconds"
            if figures.wants(name):
                marginals, grid_columns = _made_up(columns, codes)
                with measured() as cost:
                    synthesize(marginals, grid_columns, rows, PrivPGDConfig(particles=rows), seed=1)
                figures.show(name, cost.cpu_seconds)


def _large(figures: Figures) -> None:
    """1,000,000 particles and 40 columns (780 marginals) of 16 codes, from start to finish."""
    marginals, columns = _made_up(40, 16)
    with measured() as cost:
        synthesize(marginals, columns, 1_000_000, PrivPGDConfig(particles=1_000_000), seed=1)
    figures.show("privpgd.large.seconds", cost.seconds)
    figures.show("privpgd.large.cpu_seconds", cost.cpu_seconds)
    figures.show("privpgd.large.peak_mb", cost.peak_mb)


def _made_up(columns: int, codes: int) -> tuple[list[NoisyMarginal], list[GridColumn]]:
    """Noisy 2-way marginals of 50,000 rows that share one hidden factor."""
    rng = np.random.default_rng(columns)
    factor = rng.random((50_000, 1))
    real = np.clip((factor + 0.25 * rng.normal(size=(50_000, columns))) * codes, 0, codes - 1).astype(int)
    sizes = [codes] * columns
    marginals = []
    for pair in combinations(range(columns), 2):
        exact = 50_000 * metrics.marginal(real, pair, sizes)
        marginals.append(NoisyMarginal(pair, exact + 20.0 * rng.normal(size=exact.shape), 20.0))
    return marginals, [GridColumn(codes, True)] * columns


def _warm_up() -> None:
    """Compile or load the kernels, so that no figure pays for it."""
    marginals, columns = _made_up(3, 4)
    nominal = [*columns[:2], GridColumn(4, False)]
    synthesize(marginals, nominal, 100, PrivPGDConfig(particles=100, epochs=1), seed=1)
