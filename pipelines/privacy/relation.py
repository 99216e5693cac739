"""What a neighbour is, and what may be spent.

`Relation` and `Unit` together define the neighbouring datasets of every guarantee in this package:
ADD_REMOVE adds or removes one unit, REPLACE_ONE replaces one. A unit is one row, or one entity with at most
`max_rows` rows, a cap that ingest enforces before anything else sees the data.

Theorem, sensitivity, noise unit, reference. `counts_sensitivity` is that of disjoint counts in L2, in rows:
  docs/proofs/counts.md, steps 1 and 2 (Dwork & Roth 2014).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from understudy.pipelines.privacy.rounding import root_up


class Relation(StrEnum):
    ADD_REMOVE = "add_remove"
    REPLACE_ONE = "replace_one"


@dataclass(frozen=True)
class Unit:
    """Whose presence is hidden: one row (`entity` is None), or one entity and its at most `max_rows` rows.

    `ids_are_text` says how the entity column is read (sources/ids.py). A ledger's account does not know it.
    """

    entity: str | None = None
    max_rows: int = 1
    ids_are_text: bool = field(default=False, compare=False)

    def __post_init__(self) -> None:
        if self.max_rows < 1:
            raise ValueError("max_rows must be at least 1")
        if self.entity is None and self.max_rows != 1:
            raise ValueError("a unit of one row has max_rows 1; name an entity column to allow more")

    def __str__(self) -> str:
        if self.entity is None:
            return "one row"
        if self.max_rows == 1:
            return f"one of {self.entity} with at most 1 row"
        return f"one {self.entity} with at most {self.max_rows} rows"


@dataclass(frozen=True)
class Budget:
    """An (epsilon, delta) pair in exact decimals; a float would drift when budgets are split and compared."""

    epsilon: Decimal
    delta: Decimal

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", Decimal(str(self.epsilon)))
        object.__setattr__(self, "delta", Decimal(str(self.delta)))
        if not (self.epsilon.is_finite() and self.epsilon > 0):
            raise ValueError("epsilon must be positive and finite")
        if not (self.delta.is_finite() and 0 < self.delta < 1):
            raise ValueError("delta must lie strictly between 0 and 1")


def counts_sensitivity(relation: Relation, max_rows: int) -> float:
    """L2 sensitivity of one vector of disjoint counts (a marginal) to one unit, rounded up.

    A unit of k rows adds a non-negative vector of sum k, whose L2 norm is largest, k, when all rows share a cell.
    Replacing it subtracts one such vector and adds another; disjoint cells are the worst case: sqrt(2) k.
    """
    return root_up((2 if relation is Relation.REPLACE_ONE else 1) * max_rows**2)
