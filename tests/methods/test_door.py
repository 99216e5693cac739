"""The door proves the noise: in every method and every mode, what will be drawn is compared with what is charged.

Each case is a whole release through the real ledger and store. Every mechanism that it buys is then offered to the
door of an empty ledger again, with a difference in the last bit: of the event that is charged, of the event that was
planned, or of the noise itself. Each is refused before T1, with no charge in the ledger and no word drawn.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, singledispatch
from pathlib import Path
from tempfile import TemporaryDirectory
from types import FrameType
from typing import Any, Literal, get_args, get_origin

import numpy as np
import pyarrow as pa
import pytest

from understudy.pipelines.counting.adaptive import RoundNoise
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.counting.mechanism import MarginalNoise
from understudy.pipelines.counting.residuals import ResidualNoise
from understudy.pipelines.counting.triples import TriplesNoise
from understudy.pipelines.errors import NoiseMismatch
from understudy.pipelines.methods import registry
from understudy.pipelines.methods.base import MethodPlan, PrivateTable
from understudy.pipelines.methods.gaussian.mechanism import MomentNoise
from understudy.pipelines.methods.gaussian.options import GaussianOptions
from understudy.pipelines.methods.gaussian.pairs import ProductNoise
from understudy.pipelines.methods.gaussian.sampling_noise import SampleNoise
from understudy.pipelines.methods.kernel import design as kernel_design
from understudy.pipelines.methods.kernel.mechanism import OnceNoise, StepsNoise
from understudy.pipelines.methods.kernel.options import KernelOptions
from understudy.pipelines.methods.mixing import design as mixing_design
from understudy.pipelines.methods.mixing.mechanism import SliceNoise
from understudy.pipelines.methods.mixing.options import MixingOptions
from understudy.pipelines.methods.mixing.statistics import StatisticsDesign
from understudy.pipelines.methods.privpgd.options import PrivPGDOptions
from understudy.pipelines.methods.privpgd.statistics import StatisticOptions
from understudy.pipelines.privacy import accounting
from understudy.pipelines.privacy.events import Event, from_json, to_json
from understudy.pipelines.privacy.filters import needed_filter
from understudy.pipelines.privacy.ledger.ledger import ChargeRequest, Ledger
from understudy.pipelines.privacy.ledger.spend import Purchases
from understudy.pipelines.privacy.ledger.store import MeasurementStore
from understudy.pipelines.privacy.mechanism import Mechanism, Noise, PlannedCharge
from understudy.pipelines.privacy.noise import calibration
from understudy.pipelines.privacy.noise.rounded import RandomSource, operating_system_randomness
from understudy.pipelines.privacy.relation import Budget
from understudy.pipelines.releasing.approving import requests_of
from understudy.pipelines.sources.memory import ArrowSource
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.plugins import METHODS, names
from understudy.pipelines.spec.reading import parse_spec
from understudy.pipelines.table.domain import TableDomain

SPEC = """
name: flowers
source: {{uri: flowers.parquet, snapshot: "1"}}
privacy: {{account: garden, epsilon: 2, delta: 1e-6{privacy}}}
columns:
  length: {{type: number, min: 0, max: 10, bins: 4}}
  width: {{type: number, min: 0, max: 5, bins: 3}}
  who: {{type: identifier}}
  {kind}
method: {{name: {method}}}
publish: {{to: releases/}}
"""
KIND = "kind: {type: category, values: [rose, daisy]}"
PRIVPGD, GAUSSIAN = "privpgd", "gaussian"
KERNEL = "kernel, label: kind, rows: 60, frequencies: 20"
MIXING = "mixing, label: kind, rows: 60, records: 40"
SIZES = ", class_sizes: {rose: 30, daisy: 30}, centre: bounds"
STATISTICS = ", statistics: {s: {where: {kind: [rose]}, use: keep}, t: {where: {length: {max: 3}}, use: hide}}"
REPLACE, OPENDP = ", relation: replace_one", ", noise: opendp"
QUALITY = ", quality: 0.02"
ENTITY = ", unit: {entity: who, max_rows: 3}"

# method, privacy
CASES: dict[str, tuple[str, str]] = {
    "privpgd": (PRIVPGD, ""),
    "privpgd replaced": (PRIVPGD, REPLACE),
    "privpgd all-1way": (PRIVPGD + ", marginals: all-1way", ""),
    "privpgd all-2way by cells": (PRIVPGD + ", marginals: all-2way, split: cells", ""),
    "privpgd all-3way": (PRIVPGD + ", marginals: all-3way", ""),
    "privpgd auto": (PRIVPGD + ", marginals: auto", ""),
    "privpgd auto replaced": (PRIVPGD + ", marginals: auto" + STATISTICS, REPLACE),
    "privpgd auto opendp": (PRIVPGD + ", marginals: auto", OPENDP + QUALITY),
    "privpgd auto entities": (PRIVPGD + ", marginals: auto", ENTITY),
    "privpgd focus": (PRIVPGD + ", focus: [kind]", ""),
    "privpgd list": (PRIVPGD + ", marginals: [[length, kind], [width]]", ""),
    "privpgd statistics": (PRIVPGD + STATISTICS, ""),
    "privpgd opendp": (PRIVPGD, OPENDP),
    "privpgd opendp statistics": (PRIVPGD + STATISTICS, OPENDP + REPLACE),
    "privpgd adaptive": (PRIVPGD + ", marginals: adaptive, rounds: 2, candidates: all-2way", ""),
    "privpgd adaptive singles": (PRIVPGD + ", marginals: adaptive, rounds: 1, candidates: all-1way", ""),
    "privpgd adaptive triples": (PRIVPGD + ", marginals: adaptive, rounds: 1, candidates: all-3way", REPLACE),
    "privpgd entities": (PRIVPGD, ENTITY),
    "privpgd entities replaced": (PRIVPGD + STATISTICS + ", count: entities", QUALITY + REPLACE + ENTITY),
    "privpgd entities opendp": (PRIVPGD, OPENDP + ENTITY),
    "privpgd rows of entities": (PRIVPGD + STATISTICS + ", count: rows", QUALITY + ENTITY),
    "privpgd adaptive entities": (PRIVPGD + ", marginals: adaptive, rounds: 1", ENTITY + REPLACE),
    "privpgd quality": (PRIVPGD + STATISTICS, QUALITY + REPLACE),
    "privpgd quality opendp": (PRIVPGD, QUALITY + OPENDP),
    "privpgd quality entities": (PRIVPGD, QUALITY + ENTITY),
    "privpgd adaptive quality": (PRIVPGD + ", marginals: adaptive, rounds: 1", QUALITY),
    "gaussian learned": (GAUSSIAN + ", mode: noisy-moments, centre: learned", ""),
    "gaussian learned replaced": (GAUSSIAN, REPLACE),
    "gaussian learned by class": (GAUSSIAN + ", label: kind", REPLACE),
    "gaussian fixed": (GAUSSIAN + ", centre: fixed", ""),
    "gaussian fixed replaced": (GAUSSIAN + ", centre: fixed", REPLACE),
    "gaussian fixed entities": (GAUSSIAN + ", centre: fixed", ENTITY + REPLACE),
    "gaussian copula entities": (GAUSSIAN + ", mode: copula", ENTITY),
    "gaussian copula": (GAUSSIAN + ", mode: copula", ""),
    "gaussian copula by class": (GAUSSIAN + ", mode: copula, label: kind", REPLACE),
    "gaussian sampling-noise": (GAUSSIAN + ", mode: sampling-noise, rows: 9, batches: 2", ""),
    "gaussian sampling-noise replaced": (GAUSSIAN + ", mode: sampling-noise, rows: 9", REPLACE),
    "kernel once": (KERNEL + ", release: once", ""),
    "kernel once replaced": (KERNEL, REPLACE),
    "kernel once entities": (KERNEL, ENTITY),
    "kernel public sizes": (KERNEL + ", class_sizes: {rose: 30, daisy: 30}", ""),
    "kernel steps": (KERNEL + ", release: steps, rate: 0.1, steps: 7", ""),
    "mixing": (MIXING + ", order: 4, sampler: poisson, centre: bought, scale: bounds, balance: equal", ""),
    "mixing auto": (MIXING + ", order: auto", ""),
    "mixing fixed size": (MIXING + ", order: 4, sampler: fixed", ""),
    "mixing by sizes": (MIXING + ", order: 4, balance: sizes", ""),
    "mixing bought scales and noisy labels": (MIXING + ", order: 4, scale: bought, label_noise: 0.5", ""),
    "mixing at once": (MIXING + ", order: 4" + SIZES, ""),
}
OPTIONS = {"privpgd": PrivPGDOptions, "gaussian": GaussianOptions, "kernel": KernelOptions, "mixing": MixingOptions}


class Words:
    """Reproducible words that tell whether any were asked for."""

    def __init__(self) -> None:
        self.rng, self.asked = np.random.default_rng(0), 0

    def words(self, count: int) -> np.ndarray:
        self.asked += count
        return self.rng.integers(0, 2**64, count, dtype=np.uint64)


@dataclass(frozen=True)
class Bought:
    """One purchase of a release: its charge, its mechanism, and the request that paid for it."""

    charge: PlannedCharge
    mechanism: Mechanism[Any]
    request: ChargeRequest


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several slices and chunks, and a short sweep."""
    shrink(monkeypatch.setattr)


def shrink(setattr_: Callable[[Any, str, Any], None]) -> None:
    setattr_(mixing_design, "SLICE_NUMBERS", 2 * 2 * 15)
    setattr_(mixing_design, "ORDERS", (4, 8))
    setattr_(kernel_design, "CHUNK_STEPS", 4)


def spec_of(case: str) -> ReleaseSpec:
    method, privacy = CASES[case]
    return parse_spec(SPEC.format(method=method, privacy=privacy, kind="" if "sampling-noise" in case else KIND))


def flowers(spec: ReleaseSpec, domain: TableDomain) -> PrivateTable:
    rng = np.random.default_rng(0)
    rows = pa.table(
        {
            "length": rng.uniform(0, 10, 60),
            "width": rng.normal(2, 0.4, 60),
            "kind": rng.choice(["rose", "daisy"], 60),
            "who": rng.integers(0, 12, 60),
        }
    )
    return LocalTable(ArrowSource(rows), domain, spec.privacy.protected_unit, b"k" * 32)


def ledger_at(folder: Path, spec: ReleaseSpec) -> Ledger:
    """With the filter that the release needs."""
    ledger, cap, relation = Ledger(f"sqlite:///{folder / 'ledger.db'}"), Budget("50", "1e-5"), spec.privacy.relation
    plan = registry.method_named(spec.method.name).plan(spec, TableDomain.of(spec))
    rule = needed_filter([charge.event for charge in plan.charges], cap, relation)
    ledger.open_account("garden", relation, spec.privacy.protected_unit, cap, "test", rule)
    return ledger


def plan_of(case: str) -> tuple[ReleaseSpec, TableDomain, MethodPlan[Any]]:
    spec = spec_of(case)
    domain = TableDomain.of(spec)
    return spec, domain, registry.method_named(spec.method.name).plan(spec, domain)


@lru_cache(maxsize=64)
def released(case: str) -> tuple[ReleaseSpec, MethodPlan[Any], tuple[Bought, ...], int]:
    """A whole release through the real door: what it bought, and how many charges the ledger has."""
    spec, domain, plan = plan_of(case)
    requests = {request.stage: request for request in requests_of(spec, plan)}
    bought: list[Bought] = []
    with TemporaryDirectory() as name:
        ledger = ledger_at(Path(name), spec)
        randomness: RandomSource = operating_system_randomness() if "opendp" in case else Words()
        purchases = Purchases(
            ledger, MeasurementStore(Path(name) / "kept"), lambda charge: requests[charge.stage], randomness
        )

        def buy(charge: PlannedCharge, mechanism: Mechanism[Any]) -> Any:
            bought.append(Bought(charge, mechanism, requests[charge.stage]))
            return purchases(charge, mechanism)

        registry.method_named(spec.method.name).measure(flowers(spec, domain), spec, plan, buy)
        return spec, plan, tuple(bought), len(ledger.charges("garden"))


@pytest.mark.parametrize("case", CASES)
def test_the_real_thing_passes_and_buys_what_was_planned(case: str) -> None:
    _, plan, bought, charges = released(case)
    assert [one.charge for one in bought] == list(plan.charges)
    assert charges == len(plan.charges) >= 1


@pytest.mark.parametrize("case", CASES)
def test_a_difference_in_the_last_bit_is_refused_before_the_charge(case: str, tmp_path: Path) -> None:
    spec, _, bought, _ = released(case)
    ledger = ledger_at(tmp_path, spec)
    store = MeasurementStore(tmp_path / "kept")
    tried = 0
    for one in bought:
        for charge, mechanism, request in differing(one):
            words = Words()
            door = Purchases(ledger, store, lambda _, request=request: request, words)
            with pytest.raises(NoiseMismatch, match="Nothing was charged and nothing was drawn"):
                door(charge, mechanism)
            assert (ledger.charges("garden"), store.mids(), words.asked) == ([], [], 0)
            tried += 1
    assert tried >= 5 * len(bought)


def differing(one: Bought) -> Iterator[tuple[PlannedCharge, Mechanism[Any], ChargeRequest]]:
    for event in nudged(one.charge.event):
        yield one.charge, one.mechanism, replace(one.request, event=event)
        yield replace(one.charge, event=event), one.mechanism, one.request
        yield replace(one.charge, event=event), one.mechanism, replace(one.request, event=event)
    for noise in weakened(one.mechanism.noise):
        yield one.charge, replace(one.mechanism, noise=noise), one.request


def nudged(event: Event) -> list[Event]:
    """The event with one number one double higher or lower, each number in turn; of a long curve a few orders."""
    tree = to_json(event)
    places = list(numbers_in(tree))
    if len(places) > 12:
        places = [places[0], places[len(places) // 2], places[-2], places[-1]]
    made = []
    for path in places:
        for towards in (-math.inf, math.inf):
            changed = to_json(event)
            *way, last = path
            inner: Any = changed
            for key in way:
                inner = inner[key]
            value = inner[last]
            whole = int(math.copysign(1, towards))
            inner[last] = value + whole if isinstance(value, int) else math.nextafter(value, towards)
            try:
                made.append(from_json(changed))
            except ValueError:  # no event at all, such as 0 releases
                continue
    assert all(other != event for other in made)
    return made


def numbers_in(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(tree, int | float):
        yield path
    elif isinstance(tree, dict | list):
        for key, value in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from numbers_in(value, (*path, key))


@singledispatch
def weakened(noise: Noise[Any]) -> Iterator[Noise[Any]]:
    """The same noise, less of it by as little as doubles allow. A new kind of noise must say how."""
    raise NotImplementedError(type(noise).__name__)


def less(std: float) -> float:
    return math.nextafter(std, 0)


@weakened.register
def _(noise: MarginalNoise) -> Iterator[Any]:
    yield replace(noise, stds=tuple(map(less, noise.stds)))
    yield replace(noise, unit=replace(noise.unit, entity="who", max_rows=noise.unit.max_rows + 1))


@weakened.register
def _(noise: ResidualNoise) -> Iterator[Any]:
    beside = noise.beside and replace(noise.beside, stds=tuple(map(less, noise.beside.stds)))
    yield replace(noise, stds=tuple(map(less, noise.stds)), beside=beside)
    yield replace(noise, unit=replace(noise.unit, entity="who", max_rows=noise.unit.max_rows + 1))
    yield replace(noise, shapes=tuple((*shape[:-1], shape[-1] + 1) if shape else shape for shape in noise.shapes))
    if noise.beside is not None:  # it has a small share, so that a double of it alone is lost in the sum
        yield replace(noise, beside=replace(noise.beside, stds=tuple(s * (1 - 2.0**-40) for s in noise.beside.stds)))


@weakened.register
def _(noise: TriplesNoise) -> Iterator[Any]:
    for first in weakened(noise.first):
        yield replace(noise, first=first)
    yield replace(noise, scores_multiplier=less(noise.scores_multiplier))
    yield replace(noise, further_multiplier=less(noise.further_multiplier))


@weakened.register
def _(noise: RoundNoise) -> Iterator[Any]:
    yield replace(noise, counts=replace(noise.counts, stds=tuple(map(less, noise.counts.stds))))
    yield replace(noise, choice_epsilon=noise.choice_epsilon + Fraction(1, 10**6))


@weakened.register
def _(noise: MomentNoise) -> Iterator[Any]:
    # A sliver of 2^-50 more is drawn than is claimed, so one double less is still what the event says.
    blocks = tuple(replace(block, std=block.std * (1 - 2.0**-48)) for block in noise.blocks)
    yield replace(noise, blocks=blocks)
    yield replace(noise, shape=replace(noise.shape, slots=noise.shape.slots + 1))


@weakened.register
def _(noise: ProductNoise) -> Iterator[Any]:
    yield replace(noise, blocks=tuple(replace(block, std=less(block.std)) for block in noise.blocks))
    yield replace(noise, radius=math.nextafter(noise.radius, math.inf) * (1 + 2.0**-50))


@weakened.register
def _(noise: SampleNoise) -> Iterator[Any]:
    yield replace(noise, rows=noise.rows + 1)
    yield replace(noise, pseudo=noise.pseudo - 1)


@weakened.register(OnceNoise)
@weakened.register(StepsNoise)
def _(noise: Any) -> Iterator[Any]:
    for design in less_of(noise.design):
        yield replace(noise, design=design)
    if isinstance(noise, StepsNoise):
        yield replace(noise, steps=noise.steps + 1)
        yield replace(noise, design=replace(noise.design, rate=math.nextafter(noise.design.rate, 1)))


@weakened.register
def _(noise: StatisticsDesign) -> Iterator[Any]:
    yield from less_of(noise)


@weakened.register
def _(noise: SliceNoise) -> Iterator[Any]:
    for design in less_of(noise.design):
        yield replace(noise, design=design)
    yield replace(noise, mixtures=noise.mixtures + 1)


def less_of(design: Any) -> Iterator[Any]:
    """The design, handing its sampler a sigma one double smaller than the one it was made with."""
    sigma = less(design.sigma)
    kind = type(design)
    weaker = type(kind.__name__, (kind,), {"sigma": property(lambda self: sigma)})
    yield weaker(**{field.name: getattr(design, field.name) for field in dataclasses.fields(design)})


def test_only_mechanisms_are_sold(tmp_path: Path) -> None:
    spec, plan, bought, _ = released("privpgd")
    ledger, words = ledger_at(tmp_path, spec), Words()
    door = Purchases(ledger, MeasurementStore(tmp_path / "kept"), lambda _: bought[0].request, words)
    for thing in (lambda randomness: {}, bought[0].mechanism.noise, bought[0].mechanism.draw):
        with pytest.raises(TypeError, match="only a Mechanism is sold"):
            door(plan.charges[0], thing)  # type: ignore[arg-type]
    assert (ledger.charges("garden"), words.asked) == ([], 0)


def test_facts_that_cannot_be_stored_cost_nothing(tmp_path: Path) -> None:
    spec, plan, bought, _ = released("privpgd")
    ledger, words = ledger_at(tmp_path, spec), Words()
    door = Purchases(ledger, MeasurementStore(tmp_path / "kept"), lambda _: bought[0].request, words)
    with pytest.raises(TypeError):
        door(plan.charges[0], bought[0].mechanism.remembering(strange={1, 2}))
    assert (ledger.charges("garden"), words.asked) == ([], 0)


def test_a_mechanism_does_not_show_its_exact_numbers() -> None:
    _, _, bought, _ = released("privpgd")
    assert repr(bought[0].mechanism).startswith("Mechanism('residuals', Gaussian(")
    assert "array" not in repr(bought[0].mechanism)


# Every mode there is


def test_every_method_is_here() -> None:
    assert set(names(METHODS)) == set(OPTIONS) == {spec_of(case).method.name for case in CASES}


@pytest.mark.parametrize("method", OPTIONS)
def test_every_mode_is_here(method: str) -> None:
    """Each named value of each option is used by a case: a new one fails here until it has a case of its own."""
    given = [spec_of(case).method.options for case in CASES if spec_of(case).method.name == method]
    for name, field in OPTIONS[method].model_fields.items():
        wanted = set(literals(field.annotation))
        used = {value for options in given if isinstance(value := options.get(name, field.default), str)}
        assert wanted <= used, f"method.{name}: no case has {', '.join(map(str, wanted - used))}"


def test_every_use_of_a_statistic_sampler_and_relation_is_here() -> None:
    assert set(literals(StatisticOptions.model_fields["use"].annotation)) == {"keep", "hide"}
    privacies = [spec_of(case).privacy for case in CASES]
    field = type(privacies[0]).model_fields["noise"]
    assert set(literals(field.annotation)) <= {privacy.noise for privacy in privacies}
    assert {privacy.relation for privacy in privacies} == set(type(privacies[0].relation))


def literals(annotation: Any) -> Iterator[str]:
    if get_origin(annotation) is Literal:
        yield from get_args(annotation)
    else:
        for inner in get_args(annotation):
            yield from literals(inner)


# Decided once


def calls_of(functions: dict[Any, str], run: Callable[[], Any]) -> tuple[Any, list[str]]:
    seen: list[str] = []

    def watch(frame: FrameType, happening: str, _: Any) -> None:
        if happening == "call" and frame.f_code in functions:
            seen.append(functions[frame.f_code])

    sys.setprofile(watch)
    try:
        return run(), seen
    finally:
        sys.setprofile(None)


@pytest.mark.parametrize("case", CASES)
def test_noise_is_calibrated_once_a_release(case: str) -> None:
    """In the plan; measuring calls no accountant at all (the ledger's own composition apart)."""
    calibrating = {accounting.calibrate.__code__: "calibrate"}
    (spec, domain, plan), planning = calls_of(calibrating, lambda: plan_of(case))
    assert len(planning) <= 1
    everything = {
        function.__code__: name
        for module in (accounting, calibration)
        for name, function in vars(module).items()
        if hasattr(function, "__code__")
    }
    randomness: RandomSource = operating_system_randomness() if "opendp" in case else Words()
    method = registry.method_named(spec.method.name)
    _, measuring = calls_of(
        everything,
        lambda: method.measure(flowers(spec, domain), spec, plan, lambda _, sold: sold.draw(randomness)),
    )
    assert set(measuring) <= {"rdp_orders"}  # the names of the orders of a Renyi curve; nothing is searched for
