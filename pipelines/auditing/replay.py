"""Record and replay: a table and its neighbour go through the same release, and whatever may be seen is compared.

D is measured with recorded randomness. D' is measured with what D's release *gave out* handed back at every purchase,
so that each later question is asked after the same history: that is the setting in which adaptive composition needs
every step to hold by itself. Compared are

- what enters each draw, in the noise's own measure, with what its event pays for (`moves`);
- the draws: their number, stages, events, shapes and types, and for noise that is simply added the number of words
  asked for and the noise itself, which must be the same numbers;
- what all draws cost together, with what the spec declares;
- everything that is stored beside them (facts), and what the method makes of it all;
- whether it ends: an exception that one table causes and the other does not tells them apart, and so does its text.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

import numpy as np

from understudy.pipelines.auditing.discovered import discovered
from understudy.pipelines.auditing.moves import moved
from understudy.pipelines.auditing.values import Pair, Tables
from understudy.pipelines.auditing.words import ReplayedWords, same_copies, with_words
from understudy.pipelines.canonical import canonical_json
from understudy.pipelines.counting.adaptive import RoundNoise
from understudy.pipelines.counting.mechanism import MarginalNoise
from understudy.pipelines.counting.residuals import ResidualNoise, differences
from understudy.pipelines.counting.triples import TriplesNoise
from understudy.pipelines.discovery.asking import nominal_events
from understudy.pipelines.discovery.mechanism import DiscoveryNoise
from understudy.pipelines.methods.gaussian.mechanism import MomentNoise
from understudy.pipelines.methods.gaussian.pairs import ProductNoise
from understudy.pipelines.methods.kernel.mechanism import EMBEDDING, OnceNoise
from understudy.pipelines.methods.mixing.statistics import StatisticsDesign
from understudy.pipelines.methods.tree.measure import measure_tree
from understudy.pipelines.privacy.accounting import composed_loss
from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.mechanism import Mechanism, PlannedCharge
from understudy.pipelines.privacy.relation import Relation
from understudy.pipelines.releasing.domains import Unusable, assumed_spec
from understudy.pipelines.releasing.measuring import counted_here, counted_tree, given_source, given_tree
from understudy.pipelines.releasing.planning import Planned, plan_release
from understudy.pipelines.sources.base import Source
from understudy.pipelines.sources.tree.opening import TreeSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.protection import PrivacySpec

ADDED = (MarginalNoise, ResidualNoise, MomentNoise, ProductNoise, OnceNoise, StatisticsDesign)
"""Noises that are a sum of exact numbers and draws: the same words then give the same draws, whatever the numbers."""


CHOOSING = (RoundNoise, TriplesNoise, DiscoveryNoise)
"""Noises whose draw also chooses what is released, so that the shapes of a second draw may be others."""

Opened = Callable[[Any, ReleaseSpec], Source | TreeSource]
Subject = Planned | ReleaseSpec
"""What is audited: a release as it was planned; or a spec that leaves columns open, and is planned once these were
bought."""


def spec_of(subject: Subject) -> ReleaseSpec:
    return subject.spec if isinstance(subject, Planned) else subject


def events_of(subject: Subject) -> list[Event]:
    """What is charged, all in all; of a spec that leaves columns open at most, whatever is found."""
    if isinstance(subject, Planned):
        return [charge.event for charge in subject.plan.charges]
    after = plan_release(assumed_spec(subject)).plan.charges
    return [*nominal_events(subject), *(charge.event for charge in after)]


@dataclass(frozen=True)
class Step:
    """One purchase as an onlooker sees it, and the exact numbers that nobody sees."""

    charge: PlannedCharge
    mechanism: Mechanism[Any]
    released: Measurement
    calls: tuple[int, ...]

    @cached_property
    def event(self) -> Event:
        """Of what is drawn: computed once, since it is compared often."""
        return self.mechanism.event


@dataclass(frozen=True)
class Outcome:
    """What one pair of neighbours showed. `share` is the largest part of what was paid for that was used."""

    share: float
    excesses: tuple[str, ...]
    differences: tuple[str, ...]

    @property
    def holds(self) -> bool:
        return not self.excesses and not self.differences


class Recorder:
    """Sells to D, and remembers."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self.steps: list[Step] = []

    def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        released, calls = drawn(mechanism, self._seed + len(self.steps))
        self.steps.append(Step(charge, mechanism, released, calls))
        return released


class Replayer(Recorder):
    """Sells to D' what D was sold. Its own draw is only looked at, where anybody looks."""

    def __init__(self, seed: int, recorded: list[Step], draws: bool = True) -> None:
        super().__init__(seed)
        self._recorded, self._draws = recorded, draws

    def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement:
        place = len(self.steps)
        before = self._recorded[place] if place < len(self._recorded) else None
        if before is not None and not self._draws:
            self.steps.append(Step(charge, mechanism, before.released, before.calls))
        else:
            super().__call__(charge, mechanism)
        return self.steps[-1].released if before is None else before.released


def drawn(mechanism: Mechanism[Any], seed: int) -> tuple[Measurement, tuple[int, ...]]:
    """What the mechanism gives with these words, and what it asked for."""
    words = ReplayedWords(seed)
    released = replace(mechanism, noise=with_words(mechanism.noise)).draw(words)
    return released, tuple(words.calls)


def given(tables: Tables, spec: ReleaseSpec) -> Source | TreeSource:
    """As a Python program would pass them."""
    return given_source(tables, spec) if spec.tree is None else given_tree(tables, spec)


def measured(subject: Subject, table: Tables, purchase: Recorder, opened: Opened = given) -> Measurement | str:
    """The release's private part; or how it failed."""
    try:
        planned = subject if isinstance(subject, Planned) else discovered(subject, table, purchase, opened)
        with closing(opened(table, planned.spec)) as source:
            if isinstance(source, TreeSource):
                [charge] = planned.plan.charges
                return measure_tree(counted_tree(source, planned), planned.plan.design, charge, purchase)
            return planned.method.measure(counted_here(source, planned), planned.spec, planned.plan, purchase)
    except Unusable as refusal:  # a function of what was released, as the next question would be
        return Measurement("refused", {"told": str(refusal)}, {})
    except Exception as error:  # whatever one table can cause is an outcome
        return f"{type(error).__name__}: {error}"


def compared(planned: Subject, pair: Pair, seed: int, opened: Opened = given) -> Outcome:
    """What a made pair shows. Rows that are nobody's may move nothing at all."""
    found = replayed(planned, pair.table, pair.neighbour, seed, opened)
    if pair.nothing_moves and found.share > 0:
        return replace(found, excesses=(*found.excesses, "rows that are nobody's count"))
    return found


def replayed(planned: Subject, table: Tables, neighbour: Tables, seed: int, opened: Opened = given) -> Outcome:
    """`opened` makes a source of made tables: by default as a Python program would pass them."""
    one = Recorder(seed)
    with same_copies(seed):
        first = measured(planned, table, one, opened)
    other = Replayer(seed, one.steps)
    with same_copies(seed):
        second = measured(planned, neighbour, other, opened)
    differences = [*_ended(first, second), *_flow(one.steps, other.steps)]
    shares, excesses = [Fraction(0)], _beyond_what_is_declared(spec_of(planned).privacy, one.steps)
    for step, twin in zip(one.steps, other.steps, strict=False):
        if step.event != twin.event or type(step.mechanism.noise) is not type(twin.mechanism.noise):
            continue  # told already
        share = moved(step.mechanism.noise, step.mechanism.exact, twin.mechanism.exact)
        shares.append(share)
        if share > 1:
            excesses.append(f"{step.charge.stage}: {float(share) ** 0.5:.6g} times what its event pays for")
        differences += _draws(step, twin)
    return Outcome(float(max(shares)) ** 0.5, tuple(excesses), tuple(differences))


def _beyond_what_is_declared(privacy: PrivacySpec, steps: list[Step]) -> list[str]:
    """Every event may hold what it claims, and all of them still cost more than was promised."""
    cost = _cost(tuple(step.event for step in steps), float(privacy.delta), privacy.relation)
    declared = f"where {privacy.epsilon:f} is declared"
    return [f"all that is drawn costs epsilon {cost}, {declared}"] if Decimal(repr(cost)) > privacy.epsilon else []


@lru_cache(maxsize=64)
def _cost(events: tuple[Event, ...], delta: float, relation: Relation) -> float:
    """Pairs of one release come to the same few histories."""
    return composed_loss(events, delta, relation).epsilon


def _ended(first: Measurement | str, second: Measurement | str) -> list[str]:
    if isinstance(first, str) or isinstance(second, str):
        return [f"a measurement failed: {each}" for each in (first, second) if isinstance(each, str)]
    if told(first) != told(second):
        return ["the measurements differ although the same numbers were released"]
    return []


def told(measurement: Measurement) -> tuple[Any, ...]:
    """All of a measurement that may be seen, in one comparable value."""
    arrays = {name: (array.dtype.str, array.shape, array.tobytes()) for name, array in measurement.arrays.items()}
    return measurement.kind, canonical_json(dict(measurement.facts)), arrays


def _flow(one: list[Step], other: list[Step]) -> list[str]:
    found = []
    if [step.charge for step in one] != [step.charge for step in other]:
        found.append(f"other purchases: {len(one)} and {len(other)}")
    for step, twin in zip(one, other, strict=False):
        stage = step.charge.stage
        if step.event != twin.event:
            found.append(f"{stage}: another event")
        if step.event != step.charge.event:
            found.append(f"{stage}: the event of what is drawn is not the one that is charged")
        if canonical_json(dict(step.mechanism.facts)) != canonical_json(dict(twin.mechanism.facts)):
            found.append(f"{stage}: other facts are stored")
        chosen = isinstance(step.mechanism.noise, CHOOSING)
        if not chosen and _shapes(step.released.arrays) != _shapes(twin.released.arrays):
            found.append(f"{stage}: draws of another shape")
    return found


def _shapes(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[str, tuple[int, ...]]]:
    return {name: (array.dtype.str, array.shape) for name, array in arrays.items()}


def _draws(step: Step, twin: Step) -> list[str]:
    """Of noise that is added: as many words, whole numbers, and the very same noise."""
    noise, stage = step.mechanism.noise, step.charge.stage
    if not isinstance(noise, ADDED):
        return []
    found = []
    if step.calls != twin.calls:
        found.append(f"{stage}: another number of words was asked for")
    if not all(np.issubdtype(array.dtype, np.integer) for array in step.released.arrays.values()):
        found.append(f"{stage}: something is released in floats")
    elif _shapes(step.released.arrays) == _shapes(twin.released.arrays):
        exact, others = (released_without_noise(noise, each.mechanism.exact) for each in (step, twin))
        for name, array in step.released.arrays.items():
            if not np.array_equal(array - exact[name], twin.released.arrays[name] - others[name]):
                found.append(f"{stage}: the noise of {name} depends on the table")
    return found


def released_without_noise(noise: Any, exact: Any) -> Mapping[str, np.ndarray]:
    """What noise that is added would release if it were none."""
    match noise:
        case MarginalNoise():
            return {name: np.asarray(counts, np.int64) for name, counts in exact.items()}
        case ResidualNoise():
            names = list(exact)
            found = {
                name: differences(math.prod(shape) * np.asarray(exact[name], np.int64).reshape(shape)).reshape(-1)
                for name, shape in zip(names, noise.shapes, strict=False)
            }
            return found | {name: np.asarray(exact[name], np.int64) for name in names[len(noise.shapes) :]}
        case MomentNoise() | ProductNoise():
            return {block.name: block.query(exact) for block in noise.blocks}
        case OnceNoise():
            return {EMBEDDING: exact}
        case _:
            return {"statistics": exact}
