"""An audit: every release of a set is attacked, and what was found is one value (`page` puts it into words).

It runs in pieces (`pieces`), the same share of every release before more of any, so that an audit that is stopped has
looked at all of them, says how much, and can go on.
"""

from __future__ import annotations

import datetime as dt
import random
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from understudy.pipelines.auditing.alarms import EPSILONS, Alarm, Similarity, sounded
from understudy.pipelines.auditing.attacks import LowerBound, attacked
from understudy.pipelines.auditing.cases import ALARMED, many_values
from understudy.pipelines.auditing.made import made_pair
from understudy.pipelines.auditing.one_run import OneRun, one_run
from understudy.pipelines.auditing.pieces import PAIRS_A_PIECE, Alarms, Bounded, Canaries, Kept, Key, Piece, Replayed
from understudy.pipelines.auditing.replay import Subject, compared, spec_of
from understudy.pipelines.auditing.turns import in_turn
from understudy.pipelines.releasing.planning import Planned

Tell = Callable[[str], None]
BY_THREADS = 10
"""Of so many pairs one is counted by threads."""
ALARMING = "10"
"""The epsilon at which one release with many canaries is looked at."""
MANY = 50
"""Releases that are not principal are told apart so many times less often."""
NOT_YET = "did not run yet"


@dataclass(frozen=True)
class Plan:
    """What is attacked and how often: `pairs` neighbours a method, shared by its releases; `releases` of a worst case
    of each, fewer where others are principal; `tries` of each feared attack, and twenty canaries for each of them."""

    name: str
    subjects: Mapping[str, Subject]
    pairs: int
    releases: int
    seed: int
    principal: Collection[str] = ()
    tries: int = 0

    def share(self, name: str) -> int:
        """The pairs of one release."""
        by_method = Counter(map(_method, self.subjects.values()))
        return -(-self.pairs // by_method[_method(self.subjects[name])])

    def often(self, name: str) -> int:
        return self.releases if name in self.principal or not self.principal else self.releases // MANY


@dataclass(frozen=True)
class Audited:
    """What was found of one release."""

    name: str
    subject: Subject
    pairs: int
    asked: int
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
    missing: int = 0
    """Pieces that did not run."""
    pieces: int = 0

    @property
    def broken(self) -> list[str]:
        """What did not hold, by name."""
        alarms = (f"{each.attack} of {each.case} at epsilon {each.epsilon}" for each in self.alarms if not each.holds)
        one = ["one release with many canaries"] if self.canaries is not None and not self.canaries.holds else []
        return [*(each.name for each in self.audited if not each.holds), *one, *alarms]

    @property
    def holds(self) -> bool:
        return not self.broken


def audit(plan: Plan, tell: Tell, keep: Path | None = None, minutes: float | None = None) -> Report:
    """Attack each release, until all is done, the time is up or somebody interrupts. What is in the file `keep` is
    not done again."""
    kept = Kept(keep, {"of": sorted(plan.subjects), "seed": plan.seed, "pairs": plan.pairs, "releases": plan.releases})
    end, wanted = time.monotonic() + 60 * (minutes or 10**9), list(_pieces(plan))
    if kept.found:
        tell(f"{len(kept.found):,} of {len(wanted):,} parts have run before")
    told = set()
    try:
        for key in wanted:
            if key not in kept.found:
                if time.monotonic() > end:
                    break
                kept.add(_run(plan, key))
            if len(key) > 1 and key[1] in plan.subjects and key[1] not in told and _is_done(plan, key[1], kept.found):
                told.add(key[1])
                tell(one_line(_audited(plan, key[1], kept.found)))
    except KeyboardInterrupt:
        tell("stopped")
    return _report(plan, kept.found, [key for key in wanted if key not in kept.found], len(wanted))


def _pieces(plan: Plan) -> Iterator[Key]:
    """In their order: what is principal first, then a part of everything, then the rest."""
    parts = {name: -(-plan.share(name) // PAIRS_A_PIECE) for name in plan.subjects}
    yield from (("bound", name) for name in plan.principal if name in plan.subjects)
    yield from (("pairs", name, "0") for name in plan.subjects if parts[name])
    yield from (("bound", name) for name in plan.subjects if name not in plan.principal)
    if plan.tries:
        yield ("canaries",)
        yield from (("alarms", case, epsilon) for case in ALARMED for epsilon in EPSILONS)
    for number in range(1, max(parts.values(), default=0)):
        yield from (("pairs", name, str(number)) for name in plan.subjects if number < parts[name])


def _run(plan: Plan, key: Key) -> Piece:
    match key:
        case ("pairs", name, number):
            start = int(number) * PAIRS_A_PIECE
            pairs = min(PAIRS_A_PIECE, plan.share(name) - start)
            return _replayed(name, plan.subjects[name], int(number), pairs, plan.seed)
        case ("bound", name):
            return Bounded(name, _bound(plan.subjects[name], plan.often(name), plan.seed))
        case ("alarms", case, epsilon):
            began = time.process_time()
            with in_turn():
                found, near = sounded(case, epsilon, plan.tries, plan.seed)
            return Alarms(case, epsilon, tuple(found), near, time.process_time() - began)
    with in_turn():
        return Canaries(one_run(many_values(20 * plan.tries, ALARMING), 20 * plan.tries, seed=plan.seed))


def _replayed(name: str, planned: Subject, number: int, pairs: int, seed: int) -> Replayed:
    start, rng = time.process_time(), random.Random(f"{seed} {name} {number}")  # noqa: S311 (made tables, nothing private)
    habits, largest = Counter[str](), 0.0
    excesses: list[str] = []
    differences: list[str] = []
    for each in range(pairs):
        pair = made_pair(spec_of(planned), rng)
        with in_turn(each % BY_THREADS != 0):
            found = compared(planned, pair, rng.randrange(2**32))
        habits[pair.habit] += 1
        largest = max(largest, found.share)
        excesses += (f"pair {number}.{each}: {text}" for text in found.excesses)
        differences += (f"pair {number}.{each}: {text}" for text in found.differences)
    seconds = time.process_time() - start
    return Replayed(name, number, pairs, dict(habits), largest, tuple(excesses), tuple(differences), seconds)


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


def _is_done(plan: Plan, name: str, found: Collection[Key]) -> bool:
    parts = -(-plan.share(name) // PAIRS_A_PIECE)
    return ("bound", name) in found and all(("pairs", name, str(number)) in found for number in range(parts))


def _audited(plan: Plan, name: str, found: Mapping[Key, Piece]) -> Audited:
    pieces = [each for each in found.values() if isinstance(each, Replayed) and each.case == name]
    bound = found.get(("bound", name))
    return Audited(
        name,
        plan.subjects[name],
        sum(each.pairs for each in pieces),
        plan.share(name),
        sum((Counter(each.habits) for each in pieces), Counter[str]()),
        max((each.largest for each in pieces), default=0.0),
        tuple(text for each in pieces for text in each.excesses),
        tuple(text for each in pieces for text in each.differences),
        sum(each.seconds for each in pieces),
        bound.bound if isinstance(bound, Bounded) else NOT_YET,
    )


def _report(plan: Plan, found: Mapping[Key, Piece], missing: Collection[Key], pieces: int) -> Report:
    audited = tuple(_audited(plan, name, found) for name in plan.subjects)
    alarms = [each for each in found.values() if isinstance(each, Alarms)]
    canaries = found.get(("canaries",))
    one = canaries.found if isinstance(canaries, Canaries) else None
    of_alarms = sum(each.seconds for each in alarms)
    return Report(
        subject=plan.name,
        seed=plan.seed,
        audited=audited,
        seconds=_seconds(audited) + of_alarms + (one.seconds if one is not None else 0.0),
        made_at=dt.datetime.now(dt.UTC),
        canaries=one,
        alarms=tuple(alarm for each in alarms for alarm in each.alarms),
        similar=tuple(each.similar for each in alarms),
        seconds_of_alarms=of_alarms,
        missing=len(missing),
        pieces=pieces,
    )


def _seconds(audited: Iterable[Audited]) -> float:
    return sum(each.seconds + (0.0 if isinstance(each.bound, str) else each.bound.seconds) for each in audited)


def one_line(each: Audited) -> str:
    bound = each.bound
    told = bound if isinstance(bound, str) else f"mu >= {bound.mu:.4f} of {bound.claimed:.4f} ({bound.ratio:.3f})"
    word = "holds " if each.holds else "BROKEN"
    return (
        f"{word} {each.name}: {each.pairs} pairs, {len(each.excesses)} excesses, {len(each.differences)} visible "
        f"differences, {1000 * each.seconds / max(1, each.pairs):.0f} ms a pair; {told}"
    )
