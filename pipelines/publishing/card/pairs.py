"""Pairs of columns on a card: how strongly they go together in the synthetic rows, and how strongly by noise alone.

Cramér's V goes from 0 to 1. Noise of standard deviation s in every cell of a table of n rows, whose cells would hold
E rows if its columns did not depend on each other, adds the sum of s^2 / E, over n and the smaller side, to V^2. Where
s is more than E, rows are fitted to margins as well, so that a cell is off by about E: the least of both is taken.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

import numpy as np

from understudy.pipelines.counting.counting import count_marginals
from understudy.pipelines.publishing.card.parts import CardParts, CardTable, Detail
from understudy.pipelines.publishing.pages.page import Html, Section, mark, named, paragraph, region, table

MOST_COLUMNS = 40
CELLS_AT_ONCE = 4_000_000
SHADES = 10
_SHOWS = {True: ("shows", "yes"), False: ("within the noise", "open")}


@dataclass(frozen=True)
class Pair:
    one: str
    other: str
    strength: float
    by_noise: float | None
    std: float | None
    shows: bool | None


def pairs_of(parts: CardParts, one_table: CardTable) -> list[Pair]:
    """Of the first columns of a table, in their order."""
    domain = one_table.synthetic.domain
    names = domain.names[:MOST_COLUMNS]
    found = []
    for (i, j), counts in _counted(one_table, len(names)):
        called = one_table.called(names[i]), one_table.called(names[j])
        fact = parts.pair_noise(*called)
        std = None if fact is None else fact.std
        noise = None if std is None else _by_noise(parts, one_table, counts, names[i], std)
        found.append(Pair(names[i], names[j], cramers_v(counts), noise, std, parts.shows_pair(*called)))
    return found


def pairs_section(parts: CardParts, found: dict[str, list[Pair]], detail: Detail) -> Section:
    bodies = []
    for one in parts.tables:
        heading = f'<h3 class="of">{named(one.name)}</h3>' if one.name else ""
        names = one.synthetic.domain.names
        if len(names) < 2:
            bodies.append(heading + paragraph("It has fewer than two columns with values to count."))
            continue
        bodies.append(heading + _map(found[one.name], names[: min(detail.wide, MOST_COLUMNS)], len(names), one.name))
        bodies.append(_list(found[one.name], detail.pairs, one.name, parts.manifest.counted))
    return Section(
        "Pairs: which columns go together",
        Html("".join(bodies)),
        "Cramér's V of the synthetic rows, from 0 (independent) to 1. Heads sort. In grey and slanted: by noise alone "
        "it could be as large, or the pair was not measured together.",
    )


def _map(pairs: list[Pair], names: tuple[str, ...], every: int, of: str) -> str:
    strengths = {(pair.one, pair.other): pair for pair in pairs}
    heads = "".join(f'<th scope="col" class="down">{named(name)}</th>' for name in names)
    rows = []
    for row in names:
        cells = "".join(
            '<td class="h10">1</td>' if row == name else _cell(strengths.get((row, name)) or strengths[name, row])
            for name in names
        )
        rows.append(f'<tr><th scope="row">{named(row)}</th>{cells}</tr>')
    label = f"association of the columns{f' of {of}' * bool(of)}"
    more = paragraph(f"Of {every} columns, the first {len(names)}.") if every > len(names) else ""
    grid = (
        f'<table class="heat sortable"><caption class="unseen">{escape(label)}</caption><thead><tr><th scope="col">'
        f"<bdi>column</bdi></th>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )
    return more + region(Html(grid), label)


def _cell(pair: Pair) -> str:
    shade = min(SHADES, math.ceil(pair.strength * SHADES - 0.5))
    kinds = [f"h{shade}"] * (shade > 0) + ["q"] * (not _stands(pair))
    kind = f' class="{" ".join(kinds)}"' if kinds else ""
    return f"<td{kind}>{f'{pair.strength:.2f}'.removeprefix('0')}</td>"


def _stands(pair: Pair) -> bool:
    if pair.shows is not None:
        return pair.shows
    return pair.by_noise is not None and pair.strength > pair.by_noise


def _list(pairs: list[Pair], most: int, of: str, counted: str) -> str:
    ranked = sorted(pairs, key=lambda pair: -pair.strength)
    rows = (
        (
            named(pair.one),
            named(pair.other),
            f"{pair.strength:.3f}",
            "" if pair.by_noise is None else f"{pair.by_noise:.3f}",
            "" if pair.std is None else f"{pair.std:,.1f}",
            mark(*_SHOWS[pair.shows])
            if pair.shows is not None
            else "not judged"
            if pair.std is not None
            else "not measured together",
        )
        for pair in ranked[:most]
    )
    heads = ("column", "and", "Cramér's V", "by noise alone, about", f"noise of a cell, in {counted}", "dependence")
    label = f"pairs of columns{f' of {of}' * bool(of)}, the strongest first"
    more = f" The strongest {most:,} of {len(pairs):,}." if len(pairs) > most else ""
    body = table(heads, rows, label, sortable=True)
    return f"<details><summary>Every pair with its noise.{more}</summary>{body}</details>"


def _counted(one: CardTable, columns: int) -> Iterator[tuple[tuple[int, int], np.ndarray]]:
    """Tables of all pairs, so many at once that they stay small. Of a table in parts: of all its rows where they were
    counted, else of those that are shown."""
    synthetic, sizes = one.synthetic, one.synthetic.domain.sizes
    seen = {} if synthetic.seen is None else synthetic.seen.counts
    waiting: list[tuple[int, int]] = []
    for pair in [(i, j) for i in range(columns) for j in range(i + 1, columns)]:
        if pair in seen:
            yield pair, seen[pair]
            continue
        waiting.append(pair)
        if sum(sizes[i] * sizes[j] for i, j in waiting) > CELLS_AT_ONCE:
            yield from zip(waiting, count_marginals([synthetic.codes], sizes, waiting), strict=True)
            waiting = []
    if waiting:
        yield from zip(waiting, count_marginals([synthetic.codes], sizes, waiting), strict=True)


def _by_noise(parts: CardParts, one: CardTable, counts: np.ndarray, column: str, std: float) -> float | None:
    """Noise is of what was counted, which a column's own noise and that of its shares tell how much there was of."""
    known, alone = one.measured.get(column), parts.noise.get(one.called(column))
    if known is None or alone is None or not alone.std:
        return None
    return noise_alone(counts, std * known.std / alone.std)


def noise_alone(counts: np.ndarray, std: float) -> float:
    """Cramér's V of noise of `std`, as a share of all rows, in every cell of such a table; 1 at most."""
    rows, columns, smaller = _margins(counts)
    if smaller < 1:
        return 0.0
    expected = np.outer(rows, columns)
    return min(1.0, math.sqrt(float(np.minimum(std**2 / expected, expected).sum()) / smaller))


def cramers_v(counts: np.ndarray) -> float:
    """Strength of association of a contingency table, from 0 (independent) to 1."""
    rows, columns, smaller = _margins(counts)
    if smaller < 1:
        return 0.0
    shares = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0] / float(counts.sum())
    expected = np.outer(rows, columns)
    return float(np.sqrt(((shares - expected) ** 2 / expected).sum() / smaller))


def _margins(counts: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Shares of rows and columns that are not empty, and one less than the fewer of them."""
    total = max(1.0, float(counts.sum()))
    rows, columns = (counts.sum(axis=axis) / total for axis in (1, 0))
    rows, columns = rows[rows > 0], columns[columns > 0]
    return rows, columns, min(len(rows), len(columns)) - 1
