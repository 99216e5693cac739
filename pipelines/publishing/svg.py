"""Small charts as inline SVG, so that a card is one file that needs nothing else and prints well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from understudy.pipelines.privacy.stating import at_most

MEASURED = "#9aa5b1"
SYNTHETIC = "#0b6e75"
INK = "#52606d"


def bar_chart(
    labels: Sequence[str],
    synthetic: np.ndarray,
    measured: np.ndarray | None,
    measured_std: float,
    *,
    width: int = 330,
    height: int = 164,
) -> str:
    """Synthetic shares as bars; measured shares as ticks with a two-standard-deviation whisker."""
    # Room for the highest share above, and for slanted names below and left of the first bar.
    top, bottom, left, right = 14, 42, 44, 4
    plot_height, plot_width = height - top - bottom, width - left - right
    peak = max(
        float(synthetic.max(initial=0.0)),
        float(measured.max(initial=0.0)) if measured is not None else 0.0,
        1e-9,
    )
    step = plot_width / max(1, len(labels))

    def y(share: float) -> float:
        return top + plot_height * (1 - min(max(share, 0.0), peak) / peak)

    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" xmlns="http://www.w3.org/2000/svg">']
    for index, share in enumerate(synthetic):
        x = left + index * step
        parts.append(
            f'<rect x="{x + step * 0.1:.1f}" y="{y(share):.1f}" width="{step * 0.8:.1f}" '
            f'height="{top + plot_height - y(share):.1f}" fill="{SYNTHETIC}" opacity="0.85">'
            f"<title>{escape(labels[index])}: {share:.2%}</title></rect>"
        )
        if measured is not None:
            parts.append(_whisker(x + step / 2, float(measured[index]), measured_std, step, y))
    parts.append(
        f'<line x1="{left}" x2="{width - right}" y1="{top + plot_height}" y2="{top + plot_height}" stroke="{INK}"/>'
    )
    every = max(1, math.ceil(len(labels) * 34 / plot_width))
    for index in range(0, len(labels), every):
        x = left + (index + 0.5) * step
        text = escape(labels[index] if len(labels[index]) <= 12 else labels[index][:11] + "…")
        parts.append(
            f'<text x="{x:.1f}" y="{top + plot_height + 11}" font-size="8.5" fill="{INK}" text-anchor="end" '
            f'transform="rotate(-32 {x:.1f} {top + plot_height + 11})">{text}</text>'
        )
    parts.append(
        f'<text x="{width - right}" y="{top - 4}" font-size="8.5" fill="{INK}" text-anchor="end">{peak:.1%}</text>'
    )
    return "".join([*parts, "</svg>"])


def _whisker(x: float, share: float, std: float, step: float, y: object) -> str:
    assert callable(y)
    half = min(step * 0.45, 5)
    return (
        f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{y(share - 2 * std):.1f}" y2="{y(share + 2 * std):.1f}" '
        f'stroke="{MEASURED}" stroke-width="1.2"/>'
        f'<line x1="{x - half:.1f}" x2="{x + half:.1f}" y1="{y(share):.1f}" y2="{y(share):.1f}" '
        'stroke="#e07a1f" stroke-width="1.8"/>'
    )


def heat_map(matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str], *, cell: int = 26, numbers: bool) -> str:
    """A matrix of values in [0, 1] as shaded cells, row names left and column names above."""
    margin = 8 + 6 * max((len(name) for name in rows), default=0)
    header = 10 + 5 * max((len(name) for name in columns), default=0)
    width, height = margin + cell * len(columns) + 40, header + cell * len(rows) + 4
    shown = f"max-width: {2 * width}px"  # few columns need no wide page
    parts = [f'<svg viewBox="0 0 {width} {height}" style="{shown}" role="img" xmlns="http://www.w3.org/2000/svg">']
    for column, name in enumerate(columns):
        x = margin + cell * (column + 0.5)
        parts.append(
            f'<text x="{x}" y="{header - 4}" font-size="10" fill="{INK}" '
            f'transform="rotate(-45 {x} {header - 4})">{escape(name)}</text>'
        )
    for row, name in enumerate(rows):
        y = header + cell * row
        parts.append(
            f'<text x="{margin - 5}" y="{y + cell * 0.65}" font-size="10" fill="{INK}" '
            f'text-anchor="end">{escape(name)}</text>'
        )
        for column, value in enumerate(matrix[row]):
            x = margin + cell * column
            shade = min(1.0, max(0.0, float(value)))
            parts.append(
                f'<rect x="{x}" y="{y}" width="{cell - 1}" height="{cell - 1}" fill="{SYNTHETIC}" '
                f'fill-opacity="{0.04 + 0.96 * shade:.3f}"><title>{escape(name)} and {escape(columns[column])}: '
                f"{value:.3f}</title></rect>"
            )
            if numbers:
                ink = "#fff" if shade > 0.5 else INK
                parts.append(
                    f'<text x="{x + cell / 2 - 0.5}" y="{y + cell * 0.62}" font-size="8.5" fill="{ink}" '
                    f'text-anchor="middle">{value:.2f}</text>'
                )
    return "".join([*parts, "</svg>"])


def budget_gauge(before: float, after: float, cap: str, *, width: int = 640) -> str:
    """What the account had spent, what this release added (composed), and the cap as it was written."""

    def x(epsilon: float) -> float:
        return min(epsilon / float(cap), 1.0) * width

    return (
        f'<svg viewBox="0 0 {width} 44" role="img" xmlns="http://www.w3.org/2000/svg">'
        f'<rect x="0" y="4" width="{width}" height="16" rx="3" fill="#e4e7eb"/>'
        f'<rect x="0" y="4" width="{x(after):.1f}" height="16" rx="3" fill="{SYNTHETIC}"/>'
        f'<rect x="0" y="4" width="{x(before):.1f}" height="16" rx="3" fill="{MEASURED}"/>'
        f'<text x="0" y="38" font-size="11" fill="{INK}">spent {at_most(after)} of {escape(cap)} '
        f"(before this release: {at_most(before)})</text>"
        f'<text x="{width}" y="38" font-size="11" fill="{INK}" text-anchor="end">epsilon cap {escape(cap)}</text></svg>'
    )


def tree_drawing(nodes: Sequence[tuple[str, int, str]]) -> str:
    """Boxes below each other, each further right than its parent: (name, depth, what is said of it), parents first."""
    step, high, wide, indent = 58, 42, 420, 44
    deepest = max((depth for _, depth, _ in nodes), default=0)
    width, height = wide + indent * deepest + 2, step * len(nodes)
    words = "; ".join(f"{'below it, ' * bool(depth)}{name}: {said}" for name, depth, said in nodes)
    parts = [
        f'<svg viewBox="0 0 {width} {height}" style="max-width: {width}px" role="img" '
        f'aria-label="{escape(words)}" xmlns="http://www.w3.org/2000/svg">'
    ]
    above: dict[int, float] = {}
    for place, (name, depth, said) in enumerate(nodes):
        x, y = 1 + indent * depth, 1 + step * place
        if depth:
            start = above[depth - 1]
            parts.append(
                f'<path d="M {x - indent / 2} {start} V {y + high / 2} H {x}" fill="none" stroke="{MEASURED}"/>'
            )
        above[depth] = y + high
        parts.append(
            f'<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="6" fill="none" stroke="{SYNTHETIC}"/>'
            f'<text x="{x + 12}" y="{y + 18}" font-size="14" font-weight="600" fill="{SYNTHETIC}">{escape(name)}</text>'
            f'<text x="{x + 12}" y="{y + 34}" font-size="12" fill="{INK}">{escape(said)}</text>'
        )
    return "".join([*parts, "</svg>"])


def step_chart(labels: Sequence[str], values: Sequence[float], limit: float, title: str, *, width: int = 900) -> str:
    """A line that rises at each label, and the limit it must stay below. As a text: the last value and the limit."""
    height, left, right, top, bottom = 190, 52, 8, 14, 26
    highest = max(limit, max((value for value in values if math.isfinite(value)), default=0.0), 1e-9)
    step = (width - left - right) / max(1, len(values))

    def y(value: float) -> float:
        return top + (height - top - bottom) * (1 - min(value, highest) / highest)

    points = [f"M {left} {y(0.0):.1f}"]
    for place, value in enumerate(values):
        points.append(f"V {y(value):.1f} H {left + step * (place + 1):.1f}")
    said = f"{title}: {at_most(values[-1]) if values else 0} of {at_most(limit)} after {len(values)} charges"
    every = max(1, math.ceil(len(labels) * 78 / (width - left - right)))
    names = "".join(
        f'<text x="{left + step * place:.1f}" y="{height - 8}" font-size="11" fill="{INK}">'
        f"{escape(labels[place])}</text>"
        for place in range(0, len(labels), every)
    )
    return (
        f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(said)}" '
        f'xmlns="http://www.w3.org/2000/svg">'
        f'<line x1="{left}" x2="{width - right}" y1="{y(limit):.1f}" y2="{y(limit):.1f}" stroke="#b3261e" '
        f'stroke-dasharray="6 4"/><text x="{left - 6}" y="{y(limit) + 4:.1f}" font-size="11" fill="{INK}" '
        f'text-anchor="end">{at_most(limit)}</text>'
        f'<line x1="{left}" x2="{width - right}" y1="{y(0.0):.1f}" y2="{y(0.0):.1f}" stroke="{INK}"/>'
        f'<text x="{left - 6}" y="{y(0.0):.1f}" font-size="11" fill="{INK}" text-anchor="end">0</text>'
        f'<path d="{" ".join(points)}" fill="none" stroke="{SYNTHETIC}" stroke-width="2.5"/>{names}</svg>'
    )
