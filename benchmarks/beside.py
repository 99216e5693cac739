"""Beside peers, cell by cell: set, budget, method and draw are one line of JSON in a file, which is never repeated.

`python -m benchmarks beside --data DIR --out FILE`: our own cells, and with `--peer NAME ... --peer-python PATH` those
of peers (support/peers.py). Stop it and start it again as you like. `--report` runs nothing and prints the tables of
docs/benchmarks.md from the file: means over the draws, ours and a peer's, and where ours is worse.

Every method sees the same four fifths of the rows (ADD_REMOVE, delta 1e-5) and makes as many. `tv` and `three_way` are
total variation over all pairs and over all triples or 300 of them, `counting`, `threshold` and `covariance` errors as
in papers/privpgd_metrics.py, all against the rows that were seen; `downstream` (0-1 error), `auc` and `log_loss` are
those of gradient boosting that learns the label from the copy, on the fifth that nobody saw. `planted_*` are made
tables whose label two columns make together (support/planted.py). Sets that anything was tuned on are `DESIGN`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.papers import privpgd_metrics as metrics
from benchmarks.support import peers
from benchmarks.support.planted import DESIGNS, planted
from benchmarks.support.strategies import DELTA, by_residuals, by_triples, grid
from benchmarks.support.tables import CodedTable, load_tables
from benchmarks.triples import two_and_three
from understudy.pipelines.methods.privpgd.config import PrivPGDConfig
from understudy.pipelines.methods.privpgd.engine import synthesize

EPSILONS = ("1", "2.5", "0.2")
DESIGN = ("adult", "br2000")
PLANTED_SEED = 21
ERRORS = ("tv", "three_way", "counting", "threshold", "covariance", "downstream", "log_loss")
LEARNED = ("downstream", "log_loss")
OURS = {
    "all-2way": by_residuals,
    "auto": by_triples,
    "focus": lambda table, codes, epsilon: by_residuals(table, codes, epsilon, frozenset({table.label})),
}

Key = tuple[str, str, str, int]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="lines of JSON, read and appended to")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--sets", nargs="+", help="only these, in this order; default: the smallest first")
    parser.add_argument("--epsilons", nargs="+", default=list(EPSILONS))
    parser.add_argument("--methods", nargs="+", choices=tuple(OURS), default=["all-2way"], help="our own")
    parser.add_argument("--peer", nargs="+", choices=peers.NAMES, default=[])
    parser.add_argument("--peer-python", default=sys.executable, metavar="PATH", help="interpreter that has the peers")
    parser.add_argument("--peer-limit", type=float, default=1800, metavar="SECONDS", help="stop a peer after this long")
    parser.add_argument("--report", action="store_true", help="print tables of what the file holds, and run nothing")


def run(args: argparse.Namespace) -> None:
    if args.report:
        print("\n".join(report(read_cells(args.out))))
        return
    tables = _tables(args.data, args.sets)
    for draw in range(args.draws):
        for epsilon in args.epsilons:
            for table in tables:
                for method, make in _methods(args):
                    key = table.name, epsilon, method, draw
                    if key not in read_cells(args.out):
                        _append(args.out, key, _cell(table, float(epsilon), make))


def read_cells(path: Path) -> dict[Key, dict[str, float]]:
    """Figures by set, epsilon, method and draw; a cell that failed has none."""
    lines = path.read_text().splitlines() if path.exists() else []
    cells = [json.loads(line) for line in lines]
    return {(c["set"], c["epsilon"], c["method"], c["draw"]): c["figures"] for c in cells}


def _append(path: Path, key: Key, figures: dict[str, float]) -> None:
    named = dict(zip(("set", "epsilon", "method", "draw"), key, strict=True))
    with path.open("a") as file:
        file.write(json.dumps({**named, "figures": {k: float(f"{v:.5g}") for k, v in figures.items()}}) + "\n")


def _tables(data: Path, wanted: list[str] | None) -> list[CodedTable]:
    made = [planted(design, PLANTED_SEED) for design in DESIGNS]
    found = {table.name: table for table in (*load_tables(data), *made)}
    if wanted:
        return [found[name] for name in wanted if name in found]
    return sorted(found.values(), key=lambda table: table.codes.size)


Make = Callable[[CodedTable, np.ndarray, float], tuple[np.ndarray, float] | None]


def _methods(args: argparse.Namespace) -> Iterator[tuple[str, Make]]:
    for name in args.methods:
        yield name, _own(name)
    for name in args.peer:
        yield name, _peer(peers.Peer(name, args.peer_python, args.peer_limit))


def _own(name: str) -> Make:
    def make(table: CodedTable, seen: np.ndarray, epsilon: float) -> tuple[np.ndarray, float]:
        start = time.process_time()
        focus = frozenset({table.label}) if name == "focus" else frozenset[int]()
        noisy = OURS[name](table, seen, epsilon)
        fake = synthesize(noisy, grid(table), len(seen), PrivPGDConfig(), focus=focus)
        return fake, time.process_time() - start

    return make


def _peer(peer: peers.Peer) -> Make:
    def make(table: CodedTable, seen: np.ndarray, epsilon: float) -> tuple[np.ndarray, float] | None:
        result = peer.run(peers.Task(seen, table.sizes, epsilon, DELTA, len(seen)))
        return None if result is None else (result.codes, result.seconds)

    return make


def _cell(table: CodedTable, epsilon: float, make: Make) -> dict[str, float]:
    order = np.random.default_rng(1).permutation(len(table.codes))
    cut = len(order) // 5
    seen, unseen = table.codes[order[cut:]], table.codes[order[:cut]]
    made = make(table, seen, epsilon)
    if made is None:
        return {}
    fake, seconds = made
    two, three = two_and_three(table, seen, fake)
    rng = np.random.default_rng(2)
    counting = metrics.draw_counting_queries(seen, table.sizes, rng)
    threshold = metrics.draw_threshold_queries(seen, table.sizes, rng)
    return {
        "tv": two,
        "three_way": three,
        "counting": metrics.query_error(counting, seen, fake),
        "threshold": metrics.query_error(threshold, seen, fake),
        "covariance": metrics.covariance_error(seen, fake, table.sizes),
        **learned(replace(table, codes=fake), unseen),
        "seconds": seconds,
    }


def learned(copy: CodedTable, unseen: np.ndarray) -> dict[str, float]:
    """What gradient boosting makes of the label, on rows that nobody saw; AUC of the most common value."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.metrics import roc_auc_score

    label, features = copy.label, [c for c in range(len(copy.sizes)) if c != copy.label]
    truth, known = unseen[:, label], copy.codes[:, label]
    common = np.bincount(truth).argmax()
    chances = np.full((len(truth), copy.sizes[label]), 0.0)
    if len(np.unique(known)) > 1:
        model = HistGradientBoostingClassifier(random_state=0).fit(copy.codes[:, features], known)
        chances[:, model.classes_] = model.predict_proba(unseen[:, features])
    else:
        chances[:, known[0]] = 1.0
    told = np.clip(chances[np.arange(len(truth)), truth], 1e-6, 1.0)
    return {
        "downstream": float(np.mean(chances.argmax(axis=1) != truth)),
        "auc": float(roc_auc_score(truth == common, chances[:, common])),
        "log_loss": float(-np.mean(np.log(told))),
        "downstream_error": float(np.std(chances.argmax(axis=1) != truth) / np.sqrt(len(truth))),
        "log_loss_error": float(np.std(np.log(told)) / np.sqrt(len(truth))),
    }


def report(cells: dict[Key, dict[str, float]]) -> Iterator[str]:
    """For every peer: means of both, ours / theirs, bold where ours is worse by more than a standard error."""
    draws: dict[tuple[str, str, str], list[dict[str, float]]] = defaultdict(list)
    for (name, epsilon, method, _), figures in cells.items():
        if figures:
            draws[name, epsilon, method].append(figures)
    methods = list(dict.fromkeys(method for _, _, method in draws))
    for peer in (method for method in methods if method != "all-2way"):
        shared = [key for key in draws if key[2] == peer and (*key[:2], "all-2way") in draws]
        if not shared:
            continue
        worse = 0
        yield f"**{peer}** (ours / theirs)\n"
        yield "| | epsilon | " + " | ".join((*ERRORS, "auc", "s")) + " | draws |"
        yield "|" + "---|" * (len(ERRORS) + 5)
        for name, epsilon, _ in sorted(shared, key=lambda key: (key[0], -float(key[1]))):
            ours, theirs = draws[name, epsilon, "all-2way"], draws[name, epsilon, peer]
            line = []
            for kind in (*ERRORS, "auc", "seconds"):
                mine, other = (np.array([each[kind] for each in side]) for side in (ours, theirs))
                lost = kind in ERRORS and mine.mean() > other.mean() + _uncertain(kind, ours, theirs)
                worse += lost
                text = f"{mine.mean():.3g} / {other.mean():.3g}"
                line.append(f"**{text}**" if lost else text)
            title = f"{name} (design)" if name in DESIGN else name
            yield f"| {title} | {epsilon} | " + " | ".join(line) + f" | {len(ours)}, {len(theirs)} |"
        yield f"\nWorse by more than a standard error: {worse} of {len(shared) * len(ERRORS)} figures.\n"


def _uncertain(kind: str, *sides: list[dict[str, float]]) -> float:
    """The standard error of a difference: between draws, and for what is learned of the test rows too."""
    square = 0.0
    for side in sides:
        values = np.array([each[kind] for each in side])
        square += float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0
    if kind in LEARNED:
        square += float(np.mean([each[f"{kind}_error"] for each in sides[0]])) ** 2
    return float(np.sqrt(square))
