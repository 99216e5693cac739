"""Entities counted instead of their rows, so that noise does not grow with `max_rows`.

Theorem. Give each of the m bounded rows of an entity the weight of floor(W / m) *ticks*, W whole, and let a table count
  ticks. An entity then has at most W ticks, whatever its rows are: to every mechanism for tables of counts (residuals,
  plain tables beside them) it is a unit of at most W rows, whose sensitivity is W times that of one row. Divided by W,
  noise is that of one row an entity, whatever k = `max_rows` is.
Relation, sensitivity. Both. `counted_unit` is the unit that those mechanisms are given; sensitivities are theirs.
Noise unit. Their stds are in ticks; W ticks are one entity.
Proof. docs/proofs/weights.md, with what rounding down loses.
Reference. Weighting by 1/m: Dwork & Roth 2014, section 3.3 (any function with this L2 sensitivity).

What is counted is "a random row of every entity". Rows are wanted, so two more columns can be counted, in ticks like
any other: the *level* of m (1, 2, 3-4, 5-8, ... up to k), and m itself. How rows follow from them: entity_rows.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from understudy.pipelines.privacy.relation import Unit

EXACT_TICKS = 840
"""No more ticks are wanted than every m up to 8 divides."""

FINENESS = 16
"""Beyond that: as many ticks for each of the k rows, so that rounding down loses less than one part in as many."""

_DIVISIBLE = (840, 1680, 2520, 5040, 10080, 27720, 55440, 110880, 332640, 720720, 1441440, 4324320, 10810800, 17297280)


@dataclass(frozen=True)
class EntityWeights:
    """How the rows of an entity with at most `max_rows` rows are weighed: `ticks` to the entity."""

    max_rows: int
    ticks: int

    def __post_init__(self) -> None:
        if not 1 <= self.max_rows <= self.ticks:
            raise ValueError("an entity needs at least a tick for each of its rows")

    @classmethod
    def of(cls, max_rows: int) -> Self:
        """From the cap alone: as many ticks as every m divides, where those are few, else many to a row."""
        exact = math.lcm(*range(1, min(max_rows, 8) + 1))
        if max_rows <= 8:
            return cls(max_rows, exact)
        return cls(max_rows, next(ticks for ticks in _DIVISIBLE if ticks >= FINENESS * max_rows))

    @property
    def levels(self) -> tuple[int, ...]:
        """The most rows of an entity of each level: powers of two, and the cap."""
        powers = (1 << power for power in range(self.max_rows.bit_length()))
        return (*(most for most in powers if most < self.max_rows), self.max_rows)

    @property
    def numbers_in(self) -> tuple[range, ...]:
        """The numbers of rows of each level."""
        return tuple(range(least + 1, most + 1) for least, most in zip((0, *self.levels), self.levels, strict=False))

    @property
    def are_exact(self) -> bool:
        """Whether a level tells the number of rows."""
        return len(self.levels) == self.max_rows

    def ticks_of(self, rows: np.ndarray) -> np.ndarray:
        """The ticks of each row of an entity with so many rows."""
        return self.ticks // rows

    def level_of(self, rows: np.ndarray) -> np.ndarray:
        return np.searchsorted(np.array(self.levels), rows)

    def facts(self) -> dict[str, Any]:
        """For whoever reads a stored measurement."""
        return {"ticks": self.ticks, "max_rows": self.max_rows, "levels": list(self.levels)}

    @classmethod
    def from_facts(cls, facts: dict[str, Any]) -> Self:
        return cls(int(facts["max_rows"]), int(facts["ticks"]))


def counted_unit(unit: Unit, weights: EntityWeights | None) -> Unit:
    """What a unit is to a mechanism that counts ticks: at most W of them. Without weights: itself."""
    if weights is None:
        return unit
    if unit.entity is None or weights.max_rows != unit.max_rows:
        raise ValueError("these weights are of another unit")
    return replace(unit, max_rows=weights.ticks)
