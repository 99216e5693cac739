"""An audit: every release of a set is attacked, and what was found is one value (`page` puts it into words)."""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from understudy.pipelines.auditing.alarms import EPSILONS, Alarm, Similarity, sounded
from understudy.pipelines.auditing.attacks import LowerBound, attacked
from understudy.pipelines.auditing.cases import ALARMED, many_values
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.one_run import OneRun, one_run
from understudy.pipelines.auditing.replay import Subject, compared, spec_of
from understudy.pipelines.auditing.turns import in_turn
from understudy.pipelines.releasing.planning import Planned

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Audited:
    """What was found of one release."""

    name: str
    subject: Subject
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
    canaries: OneRun | None = None
    alarms: tuple[Alarm, ...] = ()
    similar: tuple[Similarity, ...] = ()
    seconds_of_alarms: float = 0.0

    @property
    def broken(self) -> list[str]:
        """What did not hold, by name."""
        alarms = (f"{each.attack} of {each.case} at epsilon {each.epsilon}" for each in self.alarms if not each.holds)
        one = ["one release with many canaries"] if self.canaries is not None and not self.canaries.holds else []
        return [*(each.name for each in self.audited if not each.holds), *one, *alarms]

    @property
    def holds(self) -> bool:
        return not self.broken


def audit(
    subject: str,
    releases_of: Mapping[str, Subject],
    pairs: int,
    releases: int,
    seed: int,
    tell: Tell,
    principal: Collection[str] = (),
    tries: int = 0,
) -> Report:
    """Attack each release: `pairs` neighbours a method, shared by its releases, and `releases` of a worst case each; a
    fiftieth of them where others are principal. With `tries`, so many of each feared attack on every method, and one
    release with twenty canaries for each of them."""
    start, audited = time.monotonic(), []
    by_method = Counter(map(_method, releases_of.values()))
    for name, planned in releases_of.items():
        share = -(-pairs // by_method[_method(planned)])
        often = releases if name in principal or not principal else releases // 50
        audited.append(_audited(name, planned, share, often, seed))
        tell(one_line(audited[-1]))
    found = Report(subject, seed, tuple(audited), time.monotonic() - start, dt.datetime.now(dt.UTC))
    if not tries:
        return found
    with in_turn():
        canaries = one_run(many_values(20 * tries, ALARMING), 20 * tries, seed=seed)
    tell(f"one release, {canaries.canaries} canaries: mu >= {canaries.mu:.4f} of {canaries.claimed:.4f}")
    alarms: list[Alarm] = []
    similar: list[Similarity] = []
    for case in ALARMED:
        for epsilon in EPSILONS:
            with in_turn():
                told, near = sounded(case, epsilon, tries, seed)
            alarms += told
            similar.append(near)
            tell(f"{case} at {epsilon}: {', '.join(f'{each.attack} {each.rate:.0%}' for each in told)}")
    whole = time.monotonic() - start
    return replace(
        found,
        canaries=canaries,
        alarms=tuple(alarms),
        similar=tuple(similar),
        seconds=whole,
        seconds_of_alarms=whole - found.seconds,
    )


BY_THREADS = 10
"""Of so many pairs one is counted by threads."""
ALARMING = "10"
"""The epsilon at which one release with many canaries is looked at."""


def _method(subject: Subject) -> str:
    """Pairs are asked for a method. What buys its columns first counts as one of its own; so do trees and people who
    are weighed."""
    spec = spec_of(subject)
    if not isinstance(subject, Planned):
        return "discovery"
    if spec.tree is not None:
        return "trees"
    weighted = spec.method.name == "privpgd" and spec.privacy.protected_unit.entity is not None
    return "weights" if weighted else spec.method.name


def _audited(name: str, planned: Subject, pairs: int, releases: int, seed: int) -> Audited:
    start, rng = time.monotonic(), random.Random(f"{seed} {name}")  # noqa: S311 (made tables, nothing private)
    habits, largest = Counter[str](), 0.0
    excesses: list[str] = []
    differences: list[str] = []
    for number in range(pairs):
        pair = made_pair(spec_of(planned), rng)
        with in_turn(number % BY_THREADS != 0):
            found = compared(planned, pair, rng.randrange(2**32))
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


def _bound(planned: Subject, releases: int, seed: int) -> LowerBound | str:
    if releases == 0:
        return "not asked for"
    if spec_of(planned).privacy.noise == "opendp":
        return "OpenDP draws from a source of its own"
    try:
        with in_turn():
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
