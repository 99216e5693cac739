"""Which marginals a spec asks for, and what a share of the budget comes to in noise: from public facts alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from typing import Literal

from understudy.pipelines.errors import SpecError
from understudy.pipelines.privacy.rounding import root_up
from understudy.pipelines.table.domain import TableDomain

MAX_CELLS = 20_000_000
Clique = tuple[int, ...]
Named = Literal["all-1way", "all-2way", "all-3way"]
_ORDERS = {"all-1way": 1, "all-2way": 2, "all-3way": 3}


def noise_stds(shares: Sequence[float], noise_multiplier: float, sensitivity: float) -> tuple[float, ...]:
    """Standard deviation per count of queries that have these shares of the budget, rounded up.

    With std_i = z Δ / sqrt(share_i), one unit moves the counts divided by their stds by at most
    sqrt(sum Δ^2 / std_i^2) = sqrt(sum share_i) / z <= 1/z in L2: all of them are one Gaussian event of multiplier z.
    Shares sum to 1 but for rounding, and are divided by their sum.
    """
    total = sum((Fraction(share) for share in shares), Fraction(0))
    square = (Fraction(noise_multiplier) * Fraction(sensitivity)) ** 2 * total
    return tuple(root_up(square / Fraction(share)) for share in shares)


def choose_cliques(marginals: Named | Sequence[Sequence[str]], domain: TableDomain) -> list[Clique]:
    """The marginals a spec names, as column indices; one too large to count is refused."""
    chosen = _all_of(_ORDERS[marginals], domain) if isinstance(marginals, str) else _listed(marginals, domain)
    _refuse_huge(chosen, domain)
    return chosen


def _all_of(order: int, domain: TableDomain) -> list[Clique]:
    return list(combinations(range(len(domain.columns)), min(order, len(domain.columns))))


def _listed(marginals: Sequence[Sequence[str]], domain: TableDomain) -> list[Clique]:
    cliques: list[Clique] = []
    for names in marginals:
        unknown = [name for name in names if name not in domain.names]
        if unknown:
            raise SpecError(
                f"method.marginals names {', '.join(map(repr, unknown))}, which no modelled column is called",
                f"modelled columns: {', '.join(domain.names)}",
            )
        clique = tuple(sorted({domain.index(name) for name in names}))
        if len(clique) != len(names) or not clique:
            raise SpecError(
                "method.marginals repeats a column within one marginal, or has an empty one", "list each once"
            )
        if clique in cliques:
            raise SpecError(f"method.marginals lists {list(names)} twice", "list each marginal once")
        cliques.append(clique)
    if not cliques:
        raise SpecError("method.marginals is an empty list", "name some, or write all-2way")
    return cliques


def _refuse_huge(cliques: Sequence[Clique], domain: TableDomain) -> None:
    for clique in cliques:
        cells = math.prod(domain.sizes[index] for index in clique)
        if cells > MAX_CELLS:
            names = " x ".join(domain.names[index] for index in clique)
            raise SpecError(
                f"the marginal {names} has {cells:,} cells, above the limit of {MAX_CELLS:,}",
                "use fewer bins for these columns or list the marginals you need",
            )
