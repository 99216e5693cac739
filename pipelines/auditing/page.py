"""One page about an audit, in Markdown, for somebody who knows nothing of the code: what was claimed, tried, found and
left out."""

from __future__ import annotations

import math
import platform
from collections import Counter
from collections.abc import Iterable
from importlib.metadata import version

from understudy.pipelines.auditing.attacks import LowerBound, could_show, power
from understudy.pipelines.auditing.one_run import OneRun
from understudy.pipelines.auditing.pieces import code_hash
from understudy.pipelines.auditing.replay import events_of, spec_of
from understudy.pipelines.auditing.report import Audited, Report
from understudy.pipelines.discovery.asking import open_columns
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import describe
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.privacy.stating import at_least, at_most

MOST_TOLD = 5
_WORDS = 300  # of an event in many parts
_MUCH = 0.75  # of what could be shown at best
_MORE = (2_000, 5_000, 10_000, 20_000, 50_000, 100_000)

NOT_COVERED = (
    "**Your data.** Every table here is made: small, hostile and public. Nothing was read of any source.",
    "**What you declared.** That bounds and values in the spec are public knowledge, that ids name people, that "
    "periods share nobody: an audit of the program cannot tell (docs/guarantees.md).",
    "**Time.** How long a release takes, and what the operating system or a database shows while it runs.",
    "**The random words themselves.** Attacks use words that are the same twice. Samplers, the operating system's "
    "generator and the one door to it are tested by `make test`.",
    "**The ledger and its cap**, which `make test` attacks by crashes, races, edits and an adaptive analyst.",
    "**Whole releases** through files, databases, object stores, commands and published bytes, resumed and retried: "
    "`understudy audit` looks at what is measured; `make audit` adds those, from a checkout.",
    "**Similarity.** Distances between synthetic and real rows certify nothing, and nothing here rests on them.",
)


WORDS = (
    "**Unit**: who is protected: a row, or a person with all rows that count as theirs.",
    "**Neighbours**: two tables, or sets of tables, that are the same but for one unit.",
    "**Epsilon, delta**: how far the chances of anything that can be seen may differ between neighbours: by a factor "
    "of at most e^epsilon, but for a chance of delta. Smaller is more private.",
    "**Noise multiplier**: the noise's standard deviation, where 1 is the most that one unit can change.",
    "**mu**: the same as epsilon and delta in one number: neighbours are as hard to tell apart as one draw of a normal "
    "distribution around 0 is from one around mu.",
)


def page(report: Report) -> str:
    """In Markdown, for somebody who knows nothing of the code."""
    verdict = (
        "**Every claim held against every attack below.** That is evidence, no proof; proofs are in docs/proofs."
        if report.holds
        else f"**Broken: {', '.join(report.broken)}.** Do not release with it, and report this page."
    )
    lines = [
        f"# Audit of {report.subject}",
        "",
        verdict,
        "",
        f"Made {report.made_at:%Y-%m-%d %H:%M} UTC in {report.seconds:,.0f} s of CPU by Understudy "
        f"{version('understudy')} (code {code_hash()[:12]}) on Python {platform.python_version()}, seed {report.seed}. "
        "Every table is made; no row of a source was read.",
        "",
        *_missing(report),
        *_in_short(report),
        *_summary(report),
        "## What is claimed",
        "Of each release: whoever sees all of it, and knows everything but one unit, cannot tell two neighbours apart "
        "better than the stated epsilon and delta allow.",
        "",
        "| release | who is protected, and how neighbours differ | epsilon, delta | because it draws |",
        "|---|---|---|---|",
        *(_claim(each) for each in report.audited),
        "",
        *(f"- {each}" for each in WORDS),
        "",
        "## Attack 1: the same release of two neighbours",
        "Two neighbours are made and go through the same release; the second is handed what the first one gave out. "
        "What enters each draw of noise may differ by as much as the noise pays for, and no more: *largest share* is "
        "the most that any pair used of it, and 1 says that the worst case was met. Everything else that can be seen "
        "may not differ at all: how often is drawn, in which shapes, what is stored, which errors come. Tables are "
        "made hostile: lone cells, farthest corners, a class of one's own, people at and over their cap, ids that are "
        "none, shared or spelled in several ways, rows that name nobody, unreadable values, unlisted words.",
        "",
        "| release | pairs | largest share | excesses | visible differences |",
        "|---|---:|---:|---:|---:|",
        *(
            f"| {each.name} | {_pairs(each)} | {at_most(each.largest) if each.largest else '0'} | {len(each.excesses)} "
            f"| {len(each.differences)} |"
            for each in report.audited
        ),
        "",
        *_told(report.audited),
        "## Attack 2: telling a worst case apart",
        "An attacker knows two neighbours (a table of nobody and one of a single unit in the farthest corner, or the "
        "farthest of some pairs where units are replaced), sees one release and says which of the two it is of, by the "
        "likelihood ratio: no attack is better. That is done as often as said. *Claimed mu* is the most that it may "
        "reach. *Pair uses* is how much of that these two tables can show: a bound over all tables is not always met "
        "by one pair. *Shown at least* is what it reached, with 99% confidence a line (Clopper and Pearson), and "
        "*share* that over the claim. *Could show* is what a perfect attack shows with so many releases: more releases "
        "show more. Shown above claimed would be a broken promise; shown far below what could be shown, noise that is "
        "larger than it must be. *Right guesses*: how often the attacker was right, give or take chance, and may be at "
        "most; a coin is right half of the time.",
        "",
        "| release | releases each | claimed mu | pair uses | shown at least | share | could show | right guesses |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
        *(_bound_line(each) for each in report.audited),
        "",
        *_canaries(report.canaries),
        *_alarms(report),
        "## What is not covered",
        *(f"- {each}" for each in NOT_COVERED),
        "",
    ]
    return "\n".join(lines)


def _in_short(report: Report) -> list[str]:
    """Of an audit of one release: what it means to a person."""
    if len(report.audited) != 1:
        return []
    [only] = report.audited
    spec, privacy = spec_of(only.subject), spec_of(only.subject).privacy
    tables = f"{len(spec.tables)} tables ({', '.join(spec.tables)})" if spec.tables is not None else "one table"
    replaced = privacy.relation is Relation.REPLACE_ONE
    hidden = f"what {spec.protects} holds" if replaced else f"the presence of {spec.protects}"
    lines = [
        f"`{spec.name}` (spec {spec.hash[:12]}) releases a copy of {tables} with the method {spec.method.name}. It "
        f"promises to hide {hidden}, at epsilon {privacy.epsilon} and delta {privacy.delta}."
    ]
    if left := open_columns(spec):
        lines.append(
            f"What {', '.join(f'`{name}`' for name in left)} can hold is left open: the first of the draws below buy "
            "that, out of the same epsilon and delta."
        )
    if isinstance(only.bound, LowerBound):
        asked = "which of two it is" if replaced else "whether these were in it"
        lines.append(
            "In words: somebody who knows every row but those of one such unit, and sees the release, may guess "
            f"rightly {asked} {power(only.bound.claimed):.1%} of the time at most; a coin is right "
            "50% of the time. The best attack there is was tried on "
            f"{2 * only.bound.releases:,} releases and was right "
            f"{_right(only.bound)} of the time, which agrees with the promise.{_few_releases(only.bound)}"
            if only.bound.holds
            else "The best attack there is guessed better than the promise allows."
        )
    else:
        lines.append(
            f"Attack 2 was not tried: {only.bound}. Attack 1 does not need that: it compares what enters the noise, "
            "number by number, with what the noise pays for."
        )
    return ["\n\n".join(lines), ""]


def _few_releases(bound: LowerBound) -> str:
    """Where a perfect attack would show little of the claim too: that a small bound is no sign of anything."""
    may = bound.claimed * bound.reach
    if _could(bound) >= _MUCH * may:
        return ""
    more = [each for each in _MORE if could_show(may, each, bound.confidence) >= _MUCH * may]
    if not more:
        return " Two tables are so much alike at this epsilon that no number of releases in reach would show more."
    return (
        f" That is all that so few releases can say at this epsilon: with `--releases {more[0]}` a perfect attack "
        f"shows a mu of {could_show(may, more[0], bound.confidence):.2f} of the {bound.claimed:.2f} that is claimed."
    )


def _missing(report: Report) -> list[str]:
    if not report.missing:
        return []
    return [
        f"**Not everything ran:** {report.missing:,} of {report.pieces:,} parts are missing. Each line says how much "
        "of it did; the same command with `--keep` goes on from there.",
        "",
    ]


def _pairs(each: Audited) -> str:
    return f"{each.pairs:,}" if each.pairs == each.asked else f"{each.pairs:,} of {each.asked:,}"


def _summary(report: Report) -> list[str]:
    """What was tried, in one table."""
    audited, bounds = report.audited, [each.bound for each in report.audited if isinstance(each.bound, LowerBound)]
    seconds = sum(each.seconds for each in audited)
    excesses, differences = (
        sum(len(each.excesses) for each in audited),
        sum(len(each.differences) for each in audited),
    )
    lines = [
        "| attack | runs | found | CPU |",
        "|---|---|---|---:|",
        f"| 1. the same release of neighbouring tables | {sum(each.pairs for each in audited):,} pairs | "
        f"{excesses} excesses, {differences} visible differences | {seconds:,.0f} s |",
    ]
    if bounds:
        best = max(bounds, key=lambda bound: bound.ratio)
        lines.append(
            f"| 2. telling a worst case apart | {sum(2 * each.releases for each in bounds):,} releases | mu of at "
            f"least {best.mu:.4f} where {best.claimed:.4f} is claimed and a perfect attack would show about "
            f"{_could(best):.4f} | {sum(each.seconds for each in bounds):,.0f} s |"
        )
    if report.canaries is not None:
        one = report.canaries
        lines.append(
            f"| 3. many canaries | {one.canaries:,} in one release | {one.mu / one.claimed:.3f} of what is claimed | "
            f"{one.seconds:,.0f} s |"
        )
    if report.alarms:
        over = sum(not each.holds for each in report.alarms)
        lines.append(
            f"| 4. what people fear | {sum(each.tries for each in report.alarms):,} attacks | {over} of "
            f"{len(report.alarms)} over the ceiling | {report.seconds_of_alarms:,.0f} s |"
        )
    return [*lines, ""]


def _could(bound: LowerBound) -> float:
    return could_show(bound.claimed * bound.reach, bound.releases, bound.confidence)


def _canaries(one: OneRun | None) -> list[str]:
    if one is None:
        return []
    return [
        "## Attack 3: many canaries in one release",
        f"{one.canaries:,} made units, each in the table or not by a fair coin, and a single release. Of the "
        f"{one.guesses:,} that the released numbers say most about, {one.right:,} were guessed right. With "
        f"{one.confidence:.0%} confidence that needs mu of at least {one.mu:.3f} where {one.claimed:.3f} is claimed "
        f"(Mahloujifar, Melis & Chaudhuri 2024), or epsilon of at least {one.epsilon:.2f} where "
        f"{one.claimed_epsilon:.2f} is claimed (Steinke, Nasr & Jagielski 2023). This is what one run can show; attack "
        "2 is tighter because it may make thousands of them.",
        "",
    ]


_FEARED = (
    "One person in the farthest corner is in the table of a small crowd, or is not; the attacker knows everybody else. "
    "*Membership, numbers*: is the person in it, by the likelihood ratio of the released numbers. *Membership, rows*: "
    "the same by the published rows alone, with as many releases of its own to learn from. *Attribute*: the value of "
    "the person's first column, all others being known, by the released numbers. *Linkage*: which of a public list of "
    "candidates is in the table, by `measured/`. Each line says how often the attacker was right, and *at most* how "
    "often it may be. *None* is the same release with the noise left out, so that one sees that the attacks work."
)
_NO_EVIDENCE = (
    "*Similarity*, the share of published rows that lie nearer to a real row than to a row of a second sample, is "
    "**not evidence**: near one half it is often called safe, and it says so of releases without any noise, whose "
    "person the first column finds every time."
)


def _alarms(report: Report) -> list[str]:
    if not report.alarms:
        return []
    attacks = list(dict.fromkeys(each.attack for each in report.alarms))
    lines = [
        "## Attack 4: what people fear",
        _FEARED,
        "",
        f"| release | epsilon | {' | '.join(attacks)} | similarity |",
        f"|---|---|{'---|' * len(attacks)}---:|",
    ]
    for near in report.similar:
        ours = {each.attack: each for each in report.alarms if (each.case, each.epsilon) == (near.case, near.epsilon)}
        cells = [f"{ours[name].rate:.0%} of {ours[name].tries:,}, at most {ours[name].ceiling:.0%}" for name in attacks]
        lines.append(f"| {near.case} | {near.epsilon} | {' | '.join(cells)} | {near.nearer:.2f} |")
    return [*lines, "", _NO_EVIDENCE, ""]


def _claim(each: Audited) -> str:
    privacy, events = spec_of(each.subject).privacy, events_of(each.subject)
    loss = composed_loss(events, float(privacy.delta), privacy.relation)
    change = "in one and not in the other" if privacy.relation == "add_remove" else "another one in its place"
    drawn = Counter(map(describe, events))
    words = "; ".join(f"{times} x {what}" if times > 1 else what for what, times in drawn.items())
    words = words if len(words) <= _WORDS else f"{words[:_WORDS]} ..."
    told = f"{at_most(loss.epsilon)}, {at_most(loss.delta)}"
    return f"| {each.name} | {spec_of(each.subject).protects}: {change} | {told} | {words} |"


def _bound_line(each: Audited) -> str:
    bound = each.bound
    if isinstance(bound, str):
        return f"| {each.name} | none: {bound} | | | | | | |"
    return (
        f"| {each.name} | {bound.releases:,} | {bound.claimed:.4f} | {bound.reach:.4f} "
        f"| {at_least(bound.mu) if bound.mu else '0'} "
        f"| {bound.ratio:.3f} | {_could(bound):.4f} "
        f"| {_right(bound)}, at most {power(bound.claimed):.1%} |"
    )


def _right(bound: LowerBound) -> str:
    """How often the attacker was right, give or take two standard errors."""
    return f"{power(bound.estimate):.1%} ± {2 * math.sqrt(1 / 8 / bound.releases):.1%}"


def _told(audited: Iterable[Audited]) -> list[str]:
    found = [f"- {each.name}: {text}" for each in audited for text in (*each.excesses, *each.differences)[:MOST_TOLD]]
    return [*found, ""] if found else []
