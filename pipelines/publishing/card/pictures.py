"""Pictures on the card: samples by class, which of them are nearly the same, how much they vary, what is blurred."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

import numpy as np

from understudy.pipelines.publishing.card.parts import CardParts, CardTable, Detail
from understudy.pipelines.publishing.likeness import MOST_LOOKED_AT, NEAR, Likeness
from understudy.pipelines.publishing.pages.page import Html, Section, mark, named, table
from understudy.pipelines.publishing.samples import SampleGrid, picture_column, picture_grid, sample_grid

LEGIBLE = 56
"""Pixels of the screen that a small picture is blown up to."""

MUCH = 0.1
"""From this share of pictures on that have one nearly the same, the card warns."""

_HEADS = (
    "class", "looked at", "differ by", "from other classes by", "variety", "nearest neighbour", "nearly the same",
    "fine detail", "to note",
)  # fmt: skip


def pictures_sections(parts: CardParts, detail: Detail) -> Iterator[Section]:
    """Nothing for tables without pictures."""
    shown = [(number, one) for number, one in enumerate(parts.tables) if one.likenesses]
    if not shown:
        return
    samples = "".join(_samples(one, f"pictures-{number}", detail) for number, one in shown)
    yield Section("Synthetic pictures", Html(samples), "The first of each class; of no real person or thing.")
    body = "".join(_variety(one) + _alike(one, f"alike-{number}", detail) for number, one in shown)
    yield Section("Pictures: what repeats, what is blurred", Html(body), _EXPLAINED)


_EXPLAINED = (
    f"From the first {MOST_LOOKED_AT} synthetic pictures of each class, compared with each other alone: a generator "
    "that repeats itself or blurs shows here, how near its pictures are to real ones does not. A difference is that of "
    "a typical number of the picture, as a part of its range. Variety is what pictures of a class differ by, as a part "
    "of what they differ by from other classes. Nearly the same: another one of the class lies within "
    f"{NEAR:.0%} of what two usually differ by. Fine detail is the share of a picture's variation in waves shorter "
    "than four pixels; pure noise has about 80%, and what is drawn decides too: a plain stroke has little. Compare it "
    "with that of other releases of the table, not between classes."
)


def _samples(one: CardTable, name: str, detail: Detail) -> str:
    """A strip for each label."""
    grid = sample_grid(one.synthetic.shown, one.synthetic.domain, thumbnail=detail.thumbnail)
    if grid is None:
        return ""
    strips = []
    for row in range(grid.rows):
        label = grid.labels[row] if grid.labels else ""
        said = f"synthetic pictures{f' of {label}' * bool(label)}"
        caption = f"<figcaption>{named(label)}</figcaption>" if label else ""
        strips.append(f'<figure class="strip">{caption}{_Cut(grid, name, row == 0).out(row, said)}</figure>')
    return "".join(strips)


def _variety(one: CardTable) -> str:
    rows = [_told(each) for each in one.likenesses]
    return table(_HEADS, rows, f"variety of the pictures{f' of {one.name}' * bool(one.name)}", sortable=True)


def _told(each: Likeness) -> tuple[str, ...]:
    repeats = each.repeated is not None and each.repeated >= MUCH
    return (
        named(each.label or "all pictures"),
        f"{each.looked_at:,}",
        *(_part(value) for value in (each.within, each.between, each.variety, each.nearest, each.repeated)),
        f"{each.fine:.1%}",
        mark("repeats itself", "no") if repeats else "nothing",
    )


def _part(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"


def _alike(one: CardTable, name: str, detail: Detail) -> str:
    """Of each class its nearest pairs, side by side, and pictures from the most blurred to the sharpest."""
    shown, domain = one.synthetic.shown, one.synthetic.domain
    tensor = picture_column(shown, domain)
    if tensor is None:
        return ""
    column = shown.column(tensor.name)
    chosen = [_chosen(each) for each in one.likenesses]
    grid = picture_grid(column, tensor, chosen, max(len(rows) for rows in chosen), detail.thumbnail)
    texts = []
    for row, each in enumerate(one.likenesses):
        cut = _Cut(grid, name, row == 0)
        of = f" of {each.label}" * bool(each.label)
        said = [
            f"pair {n} of nearly alike pictures{of}, {pair.apart:.1%} apart" for n, pair in enumerate(each.pairs, 1)
        ]
        pairs = [
            f"<figure>{cut.out(row, said[place], 2 * place, 2)}<figcaption>{pair.apart:.1%}</figcaption></figure>"
            for place, pair in enumerate(each.pairs)
        ]
        ends = " to ".join(f"{end:.1%}" for end in each.fine_ends)
        ranked = cut.out(
            row, f"pictures{of} from the most blurred to the sharpest", 2 * len(each.pairs), len(each.ranked)
        )
        texts.append(
            f'<article class="alike"><h3>{named(each.label or "All pictures")}</h3>'
            f'<div><p class="sub">{"Nearest pairs, and how far they are apart" if pairs else "One picture alone"}</p>'
            f'<div class="pairs">{"".join(pairs)}</div></div>'
            f'<div><p class="sub">From the most blurred to the sharpest: fine detail {ends}</p>'
            f'<figure class="strip">{ranked}</figure></div></article>'
        )
    return "".join(texts)


def _chosen(each: Likeness) -> np.ndarray:
    """A row of the grid: pair by pair, then the ranked ones."""
    return np.array([row for pair in each.pairs for row in (pair.one, pair.other)] + [*each.ranked])


class _Cut:
    """Pieces of one picture, which is in the page once."""

    def __init__(self, grid: SampleGrid, name: str, first: bool) -> None:
        self._grid, self._name, self._first = grid, name, first
        self._high = (grid.height + grid.gap) / grid.rows

    def out(self, row: int, said: str, column: int = 0, columns: int | None = None) -> str:
        grid, step = self._grid, self._grid.cell + self._grid.gap
        wide = grid.width if columns is None else columns * step - grid.gap
        inside = f'<use href="#{self._name}"/>'
        if self._first:
            self._first = False
            inside = f'<image id="{self._name}" href="{grid.data_uri}" width="{grid.width}" height="{grid.height}"/>'
        box = f"{step * column:g} {self._high * row:g} {wide:g} {self._high - grid.gap:g}"
        shown = wide * max(1, LEGIBLE // grid.cell)
        return f'<svg viewBox="{box}" style="width:{shown:g}px" role="img" aria-label="{escape(said)}">{inside}</svg>'
