"""An audit: every release of a set is attacked, and one page says what was claimed, tried, found and left out."""

from __future__ import annotations

import datetime as dt
import platform
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import version

from understudy.pipelines.auditing.attacks import LowerBound, attacked, power
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.replay import replayed
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import describe
from understudy.pipelines.privacy.stating import at_least, at_most
from understudy.pipelines.releasing.planning import Planned

Tell = Callable[[str], None]
MOST_TOLD = 5
_WORDS = 300  # of an event in many parts

NOT_COVERED = (
    "**Your data.** Every table here is made: small, hostile and public. Nothing was read of any source.",
    "**What you declared.** That bounds and values in the spec are public knowledge, that ids name people, that "
    "periods share nobody: an audit of the program cannot tell (docs/guarantees.md).",
    "**Time.** How long a release takes, and what the operating system or a database shows while it runs.",
    "**The random words themselves.** Attacks use words that are the same twice. Samplers, the operating system's "
    "generator and the one door to it are tested by `make test`.",
    "**The ledger and its cap**, which `make test` attacks by crashes, races, edits and an adaptive analyst; and whole "
    "releases through files, databases and the published bytes, by `tests/auditing` and `make audit`.",
    "**Published rows as evidence.** Distances between synthetic and real rows certify nothing and are not shown.",
)


@dataclass(frozen=True)
class Audited:
    """What was found of one release."""

    name: str
    planned: Planned
    pairs: int
    habits: Counter[str]
    largest: float
    excesses: tuple[str, ...]
    differences: tuple[str, ...]
    seconds: float
    bound: LowerBound | str
    """The lower bound, or why nothing was told apart."""

    @property
    def holds(self) -> bool:
        return not self.excesses and not self.differences and (isinstance(self.bound, str) or self.bound.holds)


@dataclass(frozen=True)
class Report:
    subject: str
    seed: int
    audited: tuple[Audited, ...]
    seconds: float
    made_at: dt.datetime

    @property
    def holds(self) -> bool:
        return all(each.holds for each in self.audited)


def audit(
    subject: str,
    releases_of: Mapping[str, Planned],
    pairs: int,
    releases: int,
    seed: int,
    tell: Tell,
    principal: Collection[str] = (),
) -> Report:
    """Attack each release: `pairs` neighbours a method, shared by its releases, and `releases` of a worst case each; a
    twentieth of them where others are principal."""
    start, audited = time.monotonic(), []
    by_method = Counter(planned.spec.method.name for planned in releases_of.values())
    for name, planned in releases_of.items():
        share = -(-pairs // by_method[planned.spec.method.name])
        often = releases if name in principal or not principal else releases // 20
        audited.append(_audited(name, planned, share, often, seed))
        tell(one_line(audited[-1]))
    return Report(subject, seed, tuple(audited), time.monotonic() - start, dt.datetime.now(dt.UTC))


def _audited(name: str, planned: Planned, pairs: int, releases: int, seed: int) -> Audited:
    start, rng = time.monotonic(), random.Random(f"{seed} {name}")  # noqa: S311 (made tables, nothing private)
    habits, largest = Counter[str](), 0.0
    excesses: list[str] = []
    differences: list[str] = []
    for number in range(pairs):
        pair = made_pair(planned.spec, rng)
        found = replayed(planned, pair.table, pair.neighbour, rng.randrange(2**32))
        habits[pair.habit] += 1
        largest = max(largest, found.share)
        excesses += (f"pair {number}: {each}" for each in found.excesses)
        differences += (f"pair {number}: {each}" for each in found.differences)
    seconds = time.monotonic() - start
    return Audited(
        name,
        planned,
        pairs,
        habits,
        largest,
        tuple(excesses),
        tuple(differences),
        seconds,
        _bound(planned, releases, seed),
    )


def _bound(planned: Planned, releases: int, seed: int) -> LowerBound | str:
    if releases == 0:
        return "not asked for"
    if planned.spec.privacy.noise == "opendp":
        return "OpenDP draws from a source of its own"
    try:
        return attacked(planned, releases, seed=seed)
    except NotImplementedError as error:
        return str(error).split(":")[0]


def one_line(each: Audited) -> str:
    bound = each.bound
    told = bound if isinstance(bound, str) else f"mu >= {bound.mu:.4f} of {bound.claimed:.4f} ({bound.ratio:.3f})"
    word = "holds " if each.holds else "BROKEN"
    return (
        f"{word} {each.name}: {each.pairs} pairs, {len(each.excesses)} excesses, {len(each.differences)} visible "
        f"differences, {1000 * each.seconds / max(1, each.pairs):.0f} ms a pair; {told}"
    )


def page(report: Report) -> str:
    """In Markdown, for somebody who knows nothing of the code."""
    broken = [each.name for each in report.audited if not each.holds]
    verdict = (
        "**Every claim held against every attack below.** That is evidence, no proof; proofs are in docs/proofs."
        if not broken
        else f"**Broken: {', '.join(broken)}.** Do not release with it, and report this page."
    )
    pairs = sum(each.pairs for each in report.audited)
    attacks = [each.bound for each in report.audited if isinstance(each.bound, LowerBound)]
    lines = [
        f"# Audit of {report.subject}",
        "",
        verdict,
        "",
        f"Made {report.made_at:%Y-%m-%d %H:%M} UTC in {report.seconds:,.0f} s by Understudy {version('understudy')} "
        f"on Python {platform.python_version()}, seed {report.seed}: {pairs:,} pairs of neighbouring tables, "
        f"{sum(2 * each.releases for each in attacks):,} complete releases told apart.",
        "",
        "## What is claimed",
        "Of each release: whoever sees all of it, and knows everything but one unit, cannot tell two neighbouring "
        "tables apart better than the stated epsilon and delta allow. A unit is what a neighbour differs in.",
        "",
        "| release | neighbours differ in | epsilon, delta | because it draws |",
        "|---|---|---|---|",
        *(_claim(each) for each in report.audited),
        "",
        "## Attack 1: the same release of two neighbouring tables",
        "Two made tables that differ in one unit go through the same release; the second is handed what the first one "
        "gave out. What enters each draw of noise may differ by as much as the noise pays for, and no more (*largest "
        "share* 1 says that the worst case was met); everything else that can be seen may not differ at all: how often "
        "is drawn, in which shapes, what is stored, which errors come. Tables are made hostile: lone cells, farthest "
        "corners, people at and over their cap, ids that are none or spelled in several ways, unreadable values, "
        "unlisted words.",
        "",
        "| release | pairs | largest share | excesses | visible differences |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {each.name} | {each.pairs:,} | {at_most(each.largest) if each.largest else '0'} | {len(each.excesses)} "
            f"| {len(each.differences)} |"
            for each in report.audited
        ),
        "",
        *_told(report.audited),
        "## Attack 2: telling a worst case apart",
        "Nobody, against one unit in the farthest corner (the farthest of some pairs where units are replaced), as "
        "often as said, by the likelihood ratio: no test is better. *Pair uses* is how much of what is paid for these "
        "two tables use: a bound over all tables is not always met by one pair. *Shown* is what this reached, with 99% "
        "confidence a line (Clopper and Pearson); *claimed* is the most that it may reach, in the unit of Gaussian "
        "differential privacy. Shown above claimed would be a broken promise; shown far below, where the pair uses "
        "all, noise wasted. *Right guesses* is how often the best guess between the two tables can be right, where a "
        "coin is right half of the time.",
        "",
        "| release | releases each | claimed mu | pair uses | shown at least | share | estimate | right guesses |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(_bound_line(each) for each in report.audited),
        "",
        "## What is not covered",
        *(f"- {each}" for each in NOT_COVERED),
        "",
    ]
    return "\n".join(lines)


def _claim(each: Audited) -> str:
    privacy = each.planned.spec.privacy
    events = [charge.event for charge in each.planned.plan.charges]
    loss = composed_loss(events, float(privacy.delta), privacy.relation)
    change = "one more or less" if privacy.relation == "add_remove" else "one replaced"
    drawn = Counter(map(describe, events))
    words = "; ".join(f"{times} x {what}" if times > 1 else what for what, times in drawn.items())
    words = words if len(words) <= _WORDS else f"{words[:_WORDS]} ..."
    told = f"{at_most(loss.epsilon)}, {at_most(loss.delta)}"
    return f"| {each.name} | {privacy.protected_unit}, {change} | {told} | {words} |"


def _bound_line(each: Audited) -> str:
    bound = each.bound
    if isinstance(bound, str):
        return f"| {each.name} | none: {bound} | | | | | | |"
    return (
        f"| {each.name} | {bound.releases:,} | {bound.claimed:.4f} | {bound.reach:.4f} "
        f"| {at_least(bound.mu) if bound.mu else '0'} "
        f"| {bound.ratio:.3f} | {bound.estimate:.4f} | {power(bound.claimed):.1%} |"
    )


def _told(audited: Iterable[Audited]) -> list[str]:
    found = [f"- {each.name}: {text}" for each in audited for text in (*each.excesses, *each.differences)[:MOST_TOLD]]
    return [*found, ""] if found else []
