"""A mechanism is one value: what it costs and how it is drawn cannot come apart.

`Noise` is the public half, made when a release is planned: the numbers that its sampler will use, and the event that
follows from those very numbers. `Mechanism` joins it with the private half, the exact numbers, and with the facts that
will be stored beside the result. Its event is the noise's own: there is no place to hand another one in. The door
(`ledger.spend`) takes mechanisms and nothing else, and compares this event with what is charged before it charges.

Nothing is computed between the charge and the stored result but the draw itself: facts are given here, beforehand, but
for those that tell what a draw has chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np

from understudy.pipelines.privacy.events import Event
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.privacy.noise.rounded import RandomSource

Exact = TypeVar("Exact")
_Exact = TypeVar("_Exact", contravariant=True)


class Noise(Protocol[_Exact]):
    """What will be drawn, in public numbers. Frozen; equal numbers give equal events, to the last bit."""

    @property
    def event(self) -> Event:
        """Computed from the standard deviations, sensitivities and rates that `draw` uses, rounded one way."""
        ...

    def draw(self, exact: _Exact, randomness: RandomSource) -> Mapping[str, np.ndarray]:
        """The exact numbers with noise, by name. The only use of randomness, and called by `Mechanism` alone."""
        ...


@runtime_checkable
class Telling(Protocol):
    """A noise that chooses what it measures, by noisy numbers of its own, can say only afterwards what that was."""

    def told(self, drawn: Mapping[str, np.ndarray]) -> Mapping[str, Any]:
        """Facts that follow from the drawn numbers alone, to be stored with them."""
        ...


@dataclass(frozen=True)
class Mechanism(Generic[Exact]):
    """A noise, the exact numbers it is for, and what is stored beside the result. Draws once, at the door."""

    noise: Noise[Exact]
    exact: Exact
    kind: str
    facts: Mapping[str, Any]

    @property
    def event(self) -> Event:
        return self.noise.event

    def draw(self, randomness: RandomSource) -> Measurement:
        drawn = self.noise.draw(self.exact, randomness)
        told = self.noise.told(drawn) if isinstance(self.noise, Telling) else {}
        return Measurement(self.kind, {**self.facts, **told}, drawn)

    def remembering(self, **facts: Any) -> Mechanism[Exact]:
        """The same mechanism, whose result will be stored with further facts."""
        return replace(self, facts={**self.facts, **facts})

    def __repr__(self) -> str:
        return f"Mechanism({self.kind!r}, {self.event!r})"  # never the exact numbers


@dataclass(frozen=True)
class NothingDrawn:
    """Pays for an event and releases no number: a declaration that later releases lean on."""

    event: Event

    def draw(self, exact: None, randomness: RandomSource) -> Mapping[str, np.ndarray]:
        return {}


@dataclass(frozen=True)
class PlannedCharge:
    """One thing the release buys: the stage that names it in the ledger, and its event."""

    stage: str
    event: Event


class Purchase(Protocol):
    """The one door to randomness: charges, draws once, stores, and returns what is stored, now or by an earlier run."""

    def __call__(self, charge: PlannedCharge, mechanism: Mechanism[Any]) -> Measurement: ...
