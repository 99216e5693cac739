"""Which residuals answer a workload of marginals, and how much of the budget each deserves: from public facts alone.

Answering a marginal W takes the residuals of all its subsets, lifted and added. Noise of variance s_A^2 on the cells of
A before centring adds c_A s_A^2 to the squared error of all W together and costs p_A / s_A^2 of the budget, so that the
best share of A is in proportion to sqrt(c_A p_A) (Cauchy and Schwarz; the closed form of Xiao et al. 2023).

For columns of two values that is the rule. For wide ones it is not: what counts is the error *after* denoising.
- Between orders, columns count as if they had two values: c_A = sum_(W over A) 2^(|A| - |W|), p_A = 2^-|A|. Their sizes
  would give nearly all to wide interactions, most of which no budget lifts out of the noise: they are shrunk away,
  while the lower orders stay in every answer. So where tables are wide, the lower orders get more the more noise there
  is; and the number of rows, which only scales the whole, a small part of its closed form.
- Within an order, one-way residuals get more for more values up to some, and the wider ones equal noise in every cell
  (or, by `split: cells`, less where there are more cells).
- What a column that is measured in groups too (counting/groups.py) has alone is shared between its groups and codes;
  pairs with it give most of what they have to its groups, which tell all that is smooth. The coarsest groups get most.
The rule knows marginals, sizes and the noise that the budget asks for. It does not know the number of rows, which is
private under ADD_REMOVE. What its constants were chosen on: docs/benchmarks.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from types import MappingProxyType
from typing import Literal

import numpy as np

from understudy.pipelines.counting.groups import GroupedClique, Groupings
from understudy.pipelines.counting.workload import Clique

Split = Literal["equal", "cells"]
ONE_WAY_POWER = 0.7
MOST_ONE_WAY_CELLS = 64  # or a column of 10,000 values would leave the others nothing
CELLS_POWER = 2 / 3  # minimises the sum of expected L1 errors, cells x std
TOTAL_PART = 0.15
PARTS_WORTH = 5.0
FOCUS_WEIGHT = 64.0  # eight times the budget for each
CODES_PART = 0.3  # of a column that is measured in groups too, and of its pairs
PAIR_CODES_PART = 0.1
FINER, PAIR_FINER = 0.35, 0.3  # what finer groups get beside the next coarser ones
LOWER_SCALE, LOWER_POWER, LOWER_MOST = 0.5, 0.28, 1.1


@dataclass(frozen=True)
class ResidualWorkload:
    """The marginals that are asked for, the column sets whose residuals answer them, and the budget's shares of those.

    `asked` has every column in some marginal. `measured` comes smallest first, `()` being the number of rows. All
    shares together sum to 1.
    """

    asked: tuple[Clique, ...]
    measured: tuple[Clique, ...]
    shares: tuple[float, ...]
    grouped: tuple[GroupedClique, ...] = ()
    grouped_shares: tuple[float, ...] = ()

    def shapes(self, sizes: Sequence[int]) -> list[tuple[int, ...]]:
        """Of all tables, those of groups last."""
        own = [tuple(sizes[column] for column in clique) for clique in self.measured]
        return own + [each.shape(sizes) for each in self.grouped]


def share_out(
    marginals: Sequence[Clique],
    sizes: Sequence[int],
    noise_level: float,
    *,
    one_way_share: float | None = None,
    split: Split = "equal",
    public_total: bool = False,
    focus: frozenset[int] = frozenset(),
    raised: Mapping[Clique, float] = MappingProxyType({}),
    groupings: Mapping[int, Groupings] = MappingProxyType({}),
) -> ResidualWorkload:
    """The residuals of all subsets of the marginals and of every column, with their shares.

    `noise_level` is the std, in rows, of a count that would get the whole budget. `one_way_share` sets the part of all
    one-way residuals by hand. Columns of one value have nothing to tell beside others. Marginals with a column of
    `focus` count `FOCUS_WEIGHT` times as much as others, which by the closed form buys them its square root more.
    `raised` multiplies the shares of some residuals. `groupings` are those of wide ordered columns.
    """
    alone = [(column,) for column in range(len(sizes))]
    asked = tuple(dict.fromkeys([*alone, *marginals]))
    weights = {s: weight * raised.get(s, 1.0) for s, weight in _closed_form(asked, sizes, focus).items()}
    if public_total:
        del weights[()]
    if not weights:
        raise ValueError("no column has two values, so that there is nothing to measure")
    by_order = defaultdict(list)
    for clique in sorted(weights, key=lambda clique: (len(clique), clique)):
        by_order[len(clique)].append(clique)
    within = {clique: weights[clique] * _size_factor(clique, sizes, split) for clique in weights}
    parts = {order: math.fsum(weights[clique] for clique in cliques) for order, cliques in by_order.items()}
    parts = _for_what_is_left(parts, _narrowness(marginals, sizes), noise_level, one_way_share)
    total = math.fsum(parts.values())
    sums = {order: math.fsum(within[clique] for clique in cliques) for order, cliques in by_order.items()}
    shares = {
        clique: parts[order] / total * within[clique] / sums[order]
        for order, cliques in by_order.items()
        for clique in cliques
    }
    grouped: dict[GroupedClique, float] = {}
    for clique, share in shares.items():
        shares[clique], in_groups = split_by_groups(clique, share, groupings)
        grouped |= in_groups
    return ResidualWorkload(asked, tuple(shares), tuple(shares.values()), tuple(grouped), tuple(grouped.values()))


def split_by_groups(
    clique: Clique, share: float, groupings: Mapping[int, Groupings]
) -> tuple[float, dict[GroupedClique, float]]:
    """What is left of a share for the codes, and what the groups of neighbours get of it."""
    ways = _ways(clique, groupings)
    if not ways:
        return share, {}
    codes = share * (CODES_PART if len(clique) == 1 else PAIR_CODES_PART)
    left = (share - codes) / math.fsum(ways.values())
    return codes, {way: left * worth for way, worth in ways.items()}


def _ways(clique: Clique, groupings: Mapping[int, Groupings]) -> dict[GroupedClique, float]:
    """A column by itself in each of its groupings; two in all that both together have; more than two in none.

    With what each deserves beside the others: a product of one factor for each column, which learning relies on.
    """
    wide = [column for column in clique if column in groupings]
    if not wide or len(clique) > 2:
        return {}
    if len(clique) == 1:
        alone = groupings[clique[0]].alone
        return {GroupedClique(clique, (starts,)): FINER**rank for rank, starts in enumerate(alone)}
    ways = [enumerate(groupings[column].paired) if column in groupings else [(0, None)] for column in clique]
    return {
        GroupedClique(clique, (one, other)): PAIR_FINER ** (rank + other_rank)
        for (rank, one), (other_rank, other) in product(*ways)
    }


def widest_of(cliques: Sequence[Clique]) -> tuple[Clique, ...]:
    """Those that no other one holds: the rest can be summed out of them."""
    held = {subset for clique in cliques for subset in subsets(clique)[:-1]}
    return tuple(clique for clique in cliques if clique not in held)


def summed_out(wanted: Sequence[Clique], counted: Sequence[Clique], tables: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Exact counts of every wanted clique, from the first counted one that holds it."""
    homes: dict[Clique, tuple[Clique, np.ndarray]] = {}
    for clique, table in zip(counted, tables, strict=True):
        for subset in subsets(clique):
            homes.setdefault(subset, (clique, table))
    found = []
    for clique in wanted:
        home, table = homes[clique]
        found.append(table.sum(axis=tuple(i for i, column in enumerate(home) if column not in clique), dtype=np.int64))
    return found


def subsets(clique: Clique) -> list[Clique]:
    """All of them, the empty one and the clique itself among them, smallest first."""
    return [kept for order in range(len(clique) + 1) for kept in combinations(clique, order)]


def _closed_form(asked: Sequence[Clique], sizes: Sequence[int], focus: frozenset[int]) -> dict[Clique, float]:
    """sqrt(c_A p_A) with two values a column, of every A that has something to release."""
    reach: dict[Clique, float] = defaultdict(float)
    for clique, worth in _wanted(asked).items():
        weight = worth * (FOCUS_WEIGHT if focus.intersection(clique) else 1.0)
        for subset in subsets(clique):
            reach[subset] += weight * 2.0 ** (len(subset) - len(clique))
    told = {subset: c for subset, c in reach.items() if all(sizes[column] > 1 for column in subset)}
    return {subset: math.sqrt(c * 2.0 ** -len(subset)) for subset, c in told.items()}


def _wanted(asked: Sequence[Clique]) -> dict[Clique, float]:
    """The widest marginals, and of those of three columns and more the parts too, by what each is worth.

    Who asks for triples looks at pairs and columns as well, which the triples' own error hardly sees.
    """
    widest = widest_of(asked)
    parts = {part for clique in widest if len(clique) > 2 for part in subsets(clique)[1:-1]}
    return dict.fromkeys(widest, 1.0) | dict.fromkeys(sorted(parts), PARTS_WORTH)


def _size_factor(clique: Clique, sizes: Sequence[int], split: Split) -> float:
    """How the members of one order share what it has; the noise of a share is in proportion to prod (1 - 1/n)."""
    cells = math.prod(sizes[column] for column in clique)
    kept = math.prod(1 - 1 / sizes[column] for column in clique)
    if len(clique) < 2:
        return kept * math.pow(min(cells, MOST_ONE_WAY_CELLS), ONE_WAY_POWER)
    return kept * math.pow(cells, CELLS_POWER if split == "cells" else 0.0)


def _narrowness(marginals: Sequence[Clique], sizes: Sequence[int]) -> float:
    """1 where all columns have two values, near 0 where the marginals are wide: the mean of 1 / prod (n - 1)."""
    freedoms = [math.prod(sizes[column] - 1 for column in clique) for clique in marginals]
    told = [1 / freedom for freedom in freedoms if freedom]
    return math.fsum(told) / len(told) if told else 1.0


def _for_what_is_left(
    parts: Mapping[int, float], narrowness: float, noise_level: float, one_way_share: float | None
) -> dict[int, float]:
    """Parts of the orders, which need not sum to 1, by what is left of their noise once wide interactions are shrunk.

    An order is raised over the next wider one by 1 for columns of two values, by a power of the noise for wide ones.
    """
    wide = min(LOWER_SCALE * max(noise_level, 1.0) ** LOWER_POWER, LOWER_MOST)
    raised = narrowness + (1.0 - narrowness) * wide
    total_part = narrowness + (1.0 - narrowness) * TOTAL_PART
    widest = max(parts)
    given = {order: part * (raised ** (widest - order) if order else total_part) for order, part in parts.items()}
    if one_way_share and 1 in given and widest > 1:
        given[1] = one_way_share / (1 - one_way_share) * math.fsum(p for order, p in given.items() if order != 1)
    return given
