"""The first screen of a card: what this table is, how private, how good, and what it is not for."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.privacy.stating import at_most
from understudy.pipelines.publishing.manifest import Manifest, TableGrade
from understudy.pipelines.publishing.pages.page import Html, Section, inline, mark, named, panel, table

KINDS = {"good": "yes", "usable with care": "open", "noise": "no"}
MEANT = {
    "good": "Numbers of groups that are large enough may be quoted.",
    "usable with care": "Quote numbers with their intervals (understudy ask), and none of small groups.",
    "noise": "Do not use it for anything but trying out software: its numbers are mostly noise.",
}
MOST_NAMED = 5


def first_screen(manifest: Manifest) -> Html:
    panels = (
        panel("What this is", _what(manifest)),
        panel("How private", _private(manifest)),
        panel("How good", _good(manifest)),
        panel("What it is not for", Html(f"<ul>{''.join(f'<li>{line}</li>' for line in _not_for(manifest))}</ul>")),
    )
    return Html(f'<div class="panels">{"".join(panels)}</div>')


def verdict_section(manifest: Manifest) -> list[Section]:
    """Nothing where no verdict is given."""
    verdict = manifest.verdict
    if verdict is None:
        return []
    body = f'<div class="two">{_grades("column", verdict.columns)}{_grades("pair", verdict.worst_pairs)}</div>'
    remark = (
        f"{verdict.sentence} The typical error is that of one cell by noise alone, one standard deviation. Standard "
        "errors that a statistics package computes from the rows leave out the noise: ask the release for intervals "
        "(understudy ask, also for regressions)."
    )
    return [Section("Verdict by column and pair", Html(body), remark)]


def quality_sections(manifest: Manifest) -> Iterator[Section]:
    """How much of each column was understood; nothing where that was not bought."""
    if manifest.quality:
        yield _quality(manifest)
    if manifest.unlisted:
        lines = "".join(
            f"<li>{named(fact.column)}: {_part(fact.share)} (noise {fact.std:.2%}) is <code>other</code></li>"
            for fact in manifest.unlisted
        )
        yield Section(
            "Values that were not found",
            Html(f"<ul>{lines}</ul>"),
            "What these columns can hold was discovered, once. Rarer and newer values are not told apart.",
        )
    if manifest.left_out:
        yield Section(
            "Columns that are missing",
            Html(f"<p>{', '.join(named(name) for name in manifest.left_out)}</p>"),
            "What they hold was to be discovered, and nothing of it stood above the noise: few rows share a value, or "
            "it is written in a way that has to be declared.",
        )


def _what(manifest: Manifest) -> Html:
    many = f" in {len(manifest.tables)} tables" if manifest.tables else ""
    return Html(
        f'<p><span class="large">{manifest.rows:,} rows</span>{len(manifest.columns)} columns{many}, made by method '
        f"{escape(manifest.method)} from snapshot <bdi>{escape(manifest.snapshot)}</bdi>.</p>"
        "<p><b>Every row here and in the release is synthetic.</b> It has the columns and types of the real table and, "
        "up to a known noise, its statistics.</p>"
    )


def _private(manifest: Manifest) -> Html:
    guarantee = manifest.guarantee
    change = "Adding or removing" if guarantee.relation is Relation.ADD_REMOVE else "Replacing"
    factor = math.exp(guarantee.epsilon) if guarantee.epsilon < 50 else math.inf
    told = f" ({at_most(factor, 2)} times)" if math.isfinite(factor) else ""
    return Html(
        f'<p><span class="large">epsilon {at_most(guarantee.epsilon, 3)}</span>'
        f"delta {at_most(guarantee.delta, 2)}, for {named(guarantee.unit)}.</p>"
        f"<p>{change} it changes the probability of anything published by at "
        f"most a factor of e<sup>{at_most(guarantee.epsilon, 3)}</sup>{told}, up to delta.</p>"
    )


def _good(manifest: Manifest) -> Html:
    verdict = manifest.verdict
    if verdict is None:
        return Html(
            '<p><span class="large">no verdict</span>'
            f"{escape(manifest.method)} measures no tables of counts that one could be given from. How close the rows "
            "are to what was measured is below.</p>"
        )
    grade = f'<span class="large {KINDS.get(verdict.grade, "")}">Verdict: {escape(verdict.grade)}</span>'
    counted = _counted("column", verdict.columns)
    of = manifest.counted
    return Html(
        f"<p>{grade}{escape(MEANT.get(verdict.grade, ''))}</p>"
        f"<p>{counted} The smallest group to quote at 10% error has {verdict.smallest_group:,} {of}.</p>"
    )


def _counted(what: str, tables: Sequence[TableGrade]) -> str:
    if not tables:
        return ""
    told = [
        f"{sum(one.grade == grade for one in tables)} {grade}"
        for grade in KINDS
        if any(one.grade == grade for one in tables)
    ]
    return escape(f"Of {len(tables)} {what}s {', '.join(told)}.")


def _not_for(manifest: Manifest) -> Iterator[Html]:
    """Each with what to do instead, where there is something."""
    yield Html("Finding a person or deciding about one: no row is of a real one.")
    verdict = manifest.verdict
    if verdict is not None:
        yield Html(f"Numbers of groups below {verdict.smallest_group:,} {manifest.counted} without an interval.")
        yield from _lost("Columns that are noise: ", [one.table for one in verdict.columns if one.grade == "noise"])
    yield from _lost("Columns of which much was not read: ", [one.column for one in manifest.quality if one.alarming])
    yield Html("Standard errors and tests computed from its rows: <code>understudy ask</code> knows the noise.")
    if not manifest.tables:
        yield Html("Joining with other tables: ids are fresh or left out.")


def _lost(what: str, names: Sequence[str]) -> Iterator[Html]:
    if names:
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        yield Html(f"{what}{', '.join(named(name) for name in names[:MOST_NAMED])}{more}.")


def _grades(what: str, tables: Sequence[TableGrade]) -> str:
    if not tables:
        return ""
    shows = any(one.stands_out is not None for one in tables)
    heads = (what, "verdict", "typical error", *(("dependence",) if shows else ()))
    rows = (
        (
            named(one.table),
            mark(one.grade, KINDS.get(one.grade, "")),
            _off(one.off),
            *(("shows" if one.stands_out else "within the noise",) if shows else ()),
        )
        for one in tables
    )
    body = table(heads, rows, f"verdict by {what}", sortable=True)
    return f"<div><h3>{what.capitalize()}s, the worst first</h3>{body}</div>"


def _quality(manifest: Manifest) -> Section:
    facts = manifest.quality
    of = "rows" if manifest.counted == "rows" else "entities, each of which counts once whatever its rows"
    alarming = [fact.column for fact in facts if fact.alarming]
    names = ", ".join(named(name) for name in alarming)
    told = f'<p class="alarm">Much of {names} was not understood: do not rely on it.</p>' if alarming else ""
    rows = [
        (named(fact.column), *(_part(share) for share in fact.shares.values()), f"{fact.std:.2%}") for fact in facts
    ]
    places = [place for place, fact in enumerate(facts) if fact.alarming]
    body = table(
        ("column", *facts[0].shares, "noise (std)"), rows, "how much was understood", sortable=True, alarming=places
    )
    return Section(
        "How much was understood", Html(told + body), inline(f"Noisy shares of {of}, bought with the measurement.")
    )


def _part(share: float) -> str:
    return f"{min(max(share, 0.0), 1.0):.1%}"


def _off(part: float) -> str:
    return f"{part:.1%}" if part < 1 else f"{part:.1f} times"
