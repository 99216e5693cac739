"""Charts that need no script and no request, for pages.

What is plotted is one stretched SVG path; every label is text of the page, so that none is cut off and all can be read
at the size of the page, whatever its width.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.pages.page import Html, named

STEP = 10
"""Units of the drawing for each bar."""

HIGH = 1000
_NICE = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)


def histogram(
    shares: np.ndarray, ends: tuple[str, str, str], said: str, measured: np.ndarray | None = None, std: float = 0.0
) -> Html:
    """Shares of neighbouring bins; what was measured as a mark, with two standard deviations of its noise to each side.

    `ends` are what is written below: at the left, in the middle, at the right. `said` is the chart in words.
    """
    highest = max([float(shares.max(initial=0.0)), *([] if measured is None else [float(measured.max(initial=0.0))])])
    top = nice(highest)

    def y(share: float) -> int:
        return round(HIGH * (1 - min(max(share, 0.0), top) / top))

    bars = "".join(
        f"M{STEP * place + 1} {HIGH}V{y(share)}h{STEP - 2}V{HIGH}z"
        for place, share in enumerate(shares.tolist())
        if y(share) < HIGH
    )
    marks = spreads = ""
    for place, share in enumerate([] if measured is None else measured.tolist()):
        x = STEP * place + STEP // 2
        spreads += f"M{x} {y(share - 2 * std)}V{y(share + 2 * std)}"
        marks += f"M{x - 3} {y(share)}h6"
    axis = "".join(f"<span>{escape(percent(top * part))}</span>" for part in (1, 0.5, 0))
    along = "".join(f"<span>{named(text)}</span>" for text in ends)
    return Html(
        f'<div class="plot"><div class="up" aria-hidden="true">{axis}</div>'
        f'<svg viewBox="0 0 {STEP * max(1, len(shares))} {HIGH}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(said)}"><path class="bars" d="{bars}"/><path class="spread" d="{spreads}"/>'
        f'<path class="middle" d="{marks}"/></svg><div class="along" aria-hidden="true">{along}</div></div>'
    )


def bar(share: float, top: float, measured: float | None = None, std: float = 0.0) -> Html:
    """A bar beside its number; what was measured as a span of two standard deviations to each side."""

    def part(value: float) -> float:
        return 100 * min(max(value, 0.0), top) / top

    low, high = part((measured or 0.0) - 2 * std), part((measured or 0.0) + 2 * std)
    told = "" if measured is None else f'<b style="left:{low:.1f}%;width:{high - low:.1f}%"></b>'
    return Html(f'<div class="track"><i style="width:{part(share):.1f}%"></i>{told}</div>')


def nice(value: float) -> float:
    """The least round number that is not below."""
    if value <= 0:
        return 0.01
    power = 10.0 ** math.floor(math.log10(value))
    return next((part * power for part in _NICE if part * power >= value * (1 - 1e-9)), 10 * power)


def percent(share: float) -> str:
    if share == 0:
        return "0"
    if share < 0.0001:
        return "< 0.01%"
    return f"{share:.2%}" if 0 < share < 0.01 else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"


def budget_gauge(before: float, after: float, cap: str) -> Html:
    """What the account had spent, what this release added (composed), and the cap as it was written."""

    def part(epsilon: float) -> float:
        return 100 * min(epsilon / float(cap), 1.0)

    said = f"spent {at_most(after)} of {cap} (before this release: {at_most(before)})"
    return Html(
        f'<div class="gauge" role="img" aria-label="{escape(said)}"><i style="width:{part(after):.1f}%"></i>'
        f'<b style="width:{part(before):.1f}%"></b></div><p class="sub">{escape(said)}; epsilon cap {escape(cap)}</p>'
    )


def tree_drawing(nodes: Sequence[tuple[str, int, str]]) -> Html:
    """Boxes below each other, each further right than its parent: (name, depth, what is said of it), parents first
    and what is below them right after."""
    text, depth = '<ul class="tree">', 0
    for place, (name, level, said) in enumerate(nodes):
        if level > depth:
            text += "<ul>"
        elif place:
            text += "</li>" + "</ul></li>" * (depth - level)
        text += f"<li><div><b>{named(name)}</b> <span>{escape(said)}</span></div>"
        depth = level
    return Html(text + "</li></ul>" * (depth + 1))


def step_chart(labels: Sequence[str], values: Sequence[float], limit: float, title: str) -> Html:
    """A line that rises at each label, and the limit it must stay below. In words: the last value and the limit."""
    highest = max(limit, max((value for value in values if math.isfinite(value)), default=0.0), 1e-9)

    def y(value: float) -> int:
        return round(HIGH * (1 - min(value, highest) / highest))

    line = f"M0 {HIGH}" + "".join(f"V{y(value)}h{STEP}" for value in values)
    wide = STEP * max(1, len(values))
    said = f"{title}: {at_most(values[-1]) if values else 0} of {at_most(limit)} after {len(values)} charges"
    ends = [labels[0], labels[len(labels) // 2] if len(labels) > 2 else "", labels[-1]] if labels else []
    along = "".join(f"<span>{escape(text)}</span>" for text in ends)
    return Html(
        f'<div class="plot"><div class="up" aria-hidden="true"><span>{at_most(highest)}</span><span>0</span></div>'
        f'<svg viewBox="0 0 {wide} {HIGH}" preserveAspectRatio="none" role="img" aria-label="{escape(said)}">'
        f'<path class="limit" d="M0 {y(limit)}H{wide}"/><path class="line" d="{line}"/></svg>'
        f'<div class="along" aria-hidden="true">{along}</div></div>'
    )
