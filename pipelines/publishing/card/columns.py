"""Columns on a card: how they are spread, beside what was measured, and how far each may be believed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from understudy.pipelines.publishing.card.parts import CardParts, CardTable, Detail, MeasuredColumn
from understudy.pipelines.publishing.manifest import QualityFact
from understudy.pipelines.publishing.pages.charts import bar, histogram, percent
from understudy.pipelines.publishing.pages.page import Html, Section, inline, mark, named
from understudy.pipelines.table.columns import DomainColumn

MOST_LISTED = 12
"""Categories with a bar of their own; of more, the most frequent."""

LONGEST = 60
ODD = ("null", "unreadable", "below", "above", "other")
"""What may have become of values that were not fine; told where it stands out of its noise."""

_KEY = Html(
    '<span class="key"><span><i></i>synthetic rows</span> <span><i class="m"></i>noisy measurement, where one was '
    "bought, with two standard deviations of its noise to each side</span></span>"
)


@dataclass
class _Left:
    """Rows of numbers that may still be written below charts."""

    numbers: int

    def takes(self, wanted: int) -> bool:
        if wanted > self.numbers:
            return False
        self.numbers -= wanted
        return True


def columns_section(parts: CardParts, detail: Detail) -> Section:
    left = _Left(detail.numbers)
    figures = "".join(
        (f'<h3 class="of">{named(table.name)}</h3>' if table.name else "") + _figures(parts, table, left)
        for table in parts.tables
    )
    body = f'<div class="figures">{figures}</div>' if figures else "<p>It has no columns with values to count.</p>"
    return Section("Columns: synthetic against measured", Html(body), _KEY)


def _figures(parts: CardParts, table: CardTable, left: _Left) -> str:
    level = "h4" if table.name else "h3"
    quality = {fact.column: fact for fact in parts.manifest.quality}
    figures = []
    for column, shares in zip(table.synthetic.domain.columns, table.shares, strict=True):
        known = table.measured.get(column.name)
        numbers = _numbers(column, shares, known) if left.takes(column.size) else ""
        facts = _facts(parts, table, column, known, quality.get(table.called(column.name)))
        figures.append(
            f"<article><{level}>{named(column.name)}</{level}>{_chart(column, shares, known)}{facts}{numbers}</article>"
        )
    return "".join(figures)


def _chart(column: DomainColumn, shares: np.ndarray, known: MeasuredColumn | None) -> Html:
    """Bins in their order; whatever has no place in it, and lists of values, as bars with their names."""
    labels, many = column.code_labels(), column.value_codes
    if column.kind in ("category", "boolean"):
        return _bars(column, labels, shares, known, list(range(column.size)))
    measured = None if known is None else known.shares[:many]
    low, high = (_edge(column, end) for end in (0, -1))
    middle = labels[many // 2].removeprefix("= ") if many > 2 else ""
    most = int(np.argmax(shares[:many])) if many else 0
    said = f"{column.name}: {many} bins from {low} to {high}, the fullest at {labels[most]} with {shares[most]:.1%}"
    chart = histogram(shares[:many], (low, _short(middle), high), said, measured, known.std if known else 0.0)
    rest = list(range(many, column.size))
    return Html(chart + _bars(column, labels, shares, known, rest)) if rest else chart


def _edge(column: DomainColumn, end: int) -> str:
    from understudy.pipelines.table.columns import value_text

    value = column.ends[end]
    return value_text(column.kind, value)


def _bars(
    column: DomainColumn,
    labels: Sequence[str],
    shares: np.ndarray,
    known: MeasuredColumn | None,
    codes: list[int],
) -> Html:
    shown, rest = codes, list[int]()
    if len(codes) > MOST_LISTED:
        ranked = sorted(codes, key=lambda code: -float(shares[code]))
        shown, rest = ranked[: MOST_LISTED - 1], ranked[MOST_LISTED - 1 :]
    measured, std = (None, 0.0) if known is None else (known.shares, known.std)
    top = max([1e-9, *(float(shares[code]) for code in shown)])
    if measured is not None:
        top = max([top, *(float(measured[code]) for code in shown)])
    rows = "".join(
        _bar_row(
            named(_short(labels[code])),
            float(shares[code]),
            top,
            None if measured is None else float(measured[code]),
            std,
            still=code >= column.value_codes,
        )
        for code in shown
    )
    if rest:
        together = float(sum(shares[code] for code in rest))
        rows += (
            f'<tr><th scope="row" class="still">{len(rest):,} rarer ones</th><td></td><td>{_told(together)}</td></tr>'
        )
    return Html(f'<table class="shares" aria-label="Shares of {escape(column.name)}"><tbody>{rows}</tbody></table>')


def _bar_row(name: Html, share: float, top: float, measured: float | None, std: float, still: bool) -> str:
    kind = ' class="still"' if still else ""
    return f'<tr><th scope="row"{kind}>{name}</th><td>{bar(share, top, measured, std)}</td><td>{_told(share)}</td></tr>'


def _facts(
    parts: CardParts, table: CardTable, column: DomainColumn, known: MeasuredColumn | None, quality: QualityFact | None
) -> str:
    """How fine it is, which values are exact, how noisy, and how much of it was understood."""
    called = table.called(column.name)
    fit = next((each for each in parts.manifest.fitness if each.column == called), None)
    told: list[str] = []
    if fit is not None:
        exact = f"; exactly {', '.join(fit.exact[:6])}{' ...' * (len(fit.exact) > 6)}" if fit.exact else ""
        told.append(_short(fit.resolution, 200) + _short(exact, 200))
    if known is not None:
        told.append(f"noise of a share ± {known.std:.2%}")
    if quality is not None:
        odd = [cell for cell in ODD if quality.shares.get(cell, 0) > 2 * quality.std]
        shares = ", ".join(f"{cell} {_part(quality.shares[cell])}" for cell in odd)
        told.append(f"{shares or 'none null, unreadable or out of range'} (± {quality.std:.2%})")
        if quality.alarming:
            told.append(mark("much of it was not understood", "no"))
    if fit is not None and fit.caution:
        told.append(mark(fit.caution, "caution"))
    return f'<p class="sub">{" · ".join(inline(each) for each in told)}</p>' if told else ""


def _numbers(column: DomainColumn, shares: np.ndarray, known: MeasuredColumn | None) -> str:
    head = "<th>value</th><th>synthetic</th>" + ("<th>measured</th>" if known is not None else "")
    rows = "".join(
        f"<tr><td>{named(_short(label))}</td><td>{shares[code]:.3%}</td>"
        + (f"<td>{known.shares[code]:.3%}</td>" if known is not None else "")
        + "</tr>"
        for code, label in enumerate(column.code_labels())
    )
    label = escape(f"numbers of {column.name}")
    return (
        f'<details><summary>Numbers<span class="unseen"> of {named(column.name)}</span></summary><div class="wide" '
        f'role="region" tabindex="0" aria-label="{label}"><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody>'
        "</table></div></details>"
    )


def _told(share: float) -> str:
    return escape(percent(share))


def _part(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0):.1%}"


def _short(text: str, longest: int = LONGEST) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
