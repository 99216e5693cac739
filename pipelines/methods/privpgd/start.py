"""Where the particles start: a table drawn from the best tree of the targets.

Method: Chow and Liu (1968). Of all distributions that factor along a tree, the one over the spanning tree
of greatest mutual information is nearest in relative entropy, and it has the greatest entropy given that
tree's pairs: the inductive bias of graphical-model synthesisers (MST), at no cost in budget. Columns that
no pair links start independent. Draws are systematic, so each count is off its expectation by less than
one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
Int32Array = npt.NDArray[np.int32]
Pair = tuple[int, int]


def draw_from_tree(
    single: Sequence[FloatArray], pairs: Mapping[Pair, FloatArray], rows: int, rng: np.random.Generator
) -> Int32Array:
    """Codes [rows, columns]; `single` are the columns' tables, `pairs` the known 2-way tables."""
    codes = np.empty((rows, len(single)), dtype=np.int32)
    draw_the_rest(codes, single, pairs, rng)
    return codes


def draw_the_rest(
    codes: Int32Array,
    single: Sequence[FloatArray],
    pairs: Mapping[Pair, FloatArray],
    rng: np.random.Generator,
    given: frozenset[int] = frozenset(),
) -> None:
    """Fill in the columns that are not `given`, by the best tree that grows out of those that are."""
    rows = len(codes)
    for child, parent in grow_tree(pairs, len(single), given):
        if parent is None:
            codes[:, child] = draw(single[child], rows, rng)
            continue
        joint = pairs[(parent, child)] if parent < child else pairs[(child, parent)].T
        by_parent = np.argsort(codes[:, parent], kind="stable")
        bounds = np.searchsorted(codes[by_parent, parent], np.arange(joint.shape[0] + 1))
        for code in range(joint.shape[0]):
            members = by_parent[bounds[code] : bounds[code + 1]]
            if len(members):
                codes[members, child] = draw(joint[code], len(members), rng)


def grow_tree(
    pairs: Mapping[Pair, FloatArray], columns: int, given: frozenset[int] = frozenset()
) -> list[tuple[int, int | None]]:
    """(column, parent) in drawing order, by Prim's algorithm on mutual information; a root has no parent.

    Columns that are `given` are there from the start, and not in the order.
    """
    information = {pair: mutual_information(table) for pair, table in pairs.items()}
    order: list[tuple[int, int | None]] = []
    placed: set[int] = set(given)
    while len(placed) < columns:
        links = [pair for pair in information if (pair[0] in placed) != (pair[1] in placed)]
        if links:
            a, b = max(links, key=lambda pair: information[pair])
            parent, child = (a, b) if a in placed else (b, a)
            order.append((child, parent))
        else:
            child = min(set(range(columns)) - placed)
            order.append((child, None))
        placed.add(child)
    return order


def mutual_information(joint: FloatArray) -> float:
    product = np.outer(joint.sum(axis=1), joint.sum(axis=0))
    held = joint > 0.0
    return float(np.sum(joint[held] * np.log(joint[held] / product[held])))


def draw(weights: FloatArray, rows: int, rng: np.random.Generator) -> Int32Array:
    """Shuffled systematic draws; a fibre without mass is drawn uniformly."""
    total = float(weights.sum())
    edges = np.cumsum(weights)[:-1] / total if total > 0.0 else np.arange(1, len(weights)) / len(weights)
    levels = (rng.permutation(rows) + rng.random()) / rows
    return np.searchsorted(edges, levels, side="right").astype(np.int32)
