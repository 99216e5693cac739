"""The last word on the rules of a child table: after it every row that is kept obeys them, beside the rows above it.

Moves of single codes mend nearly all rows. The others take the own columns of a sound row, or what a search finds that
goes with what is above them. Where nothing does, a row cannot be there: it is left out.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.constraints import Rule
from understudy.pipelines.methods.privpgd.problem import GenerationError
from understudy.pipelines.methods.privpgd.repair import broken_rows, find_sound_codes

Int32Array = npt.NDArray[np.int32]
BoolArray = npt.NDArray[np.bool_]

TRIES = 20
"""Sound rows whose columns a broken one tries."""


def mend(
    codes: Int32Array, rules: Sequence[Rule], sizes: Sequence[int], own: Sequence[int], rng: np.random.Generator
) -> BoolArray | None:
    """Change the `own` columns of rows that break a rule, in place. Which rows can be kept; None if none was broken."""
    broken = broken_rows(codes, rules)
    if not broken.any():
        return None
    sound, left, columns = np.flatnonzero(~broken), np.flatnonzero(broken), np.array(own, dtype=np.intp)
    for _ in range(TRIES if len(sound) else 0):
        codes[left[:, None], columns] = codes[rng.choice(sound, size=len(left))[:, None], columns]
        left = left[broken_rows(codes[left], rules)]
        if not len(left):
            break
    kept = np.ones(len(codes), dtype=bool)
    constrained = sorted({c for rule in rules for c in rule.columns})
    moving, still = [c for c in constrained if c in own], [c for c in constrained if c not in own]
    for given, rows in _alike(codes, left, still):
        try:
            example = find_sound_codes(moving, [_within(rule, given) for rule in rules], sizes, rng)
        except GenerationError:
            kept[rows] = False
            continue
        for column, code in example.items():
            codes[rows, column] = code
    return kept


def _alike(codes: Int32Array, rows: np.ndarray, columns: Sequence[int]) -> list[tuple[dict[int, int], np.ndarray]]:
    """These rows by what they have in these columns."""
    if not len(rows):
        return []
    found, which = np.unique(codes[rows][:, np.array(columns, dtype=np.intp)], axis=0, return_inverse=True)
    return [
        (dict(zip(columns, map(int, each), strict=True)), rows[which.ravel() == place])
        for place, each in enumerate(found)
    ]


def _within(rule: Rule, given: dict[int, int]) -> Rule:
    """What a rule leaves the other columns once some are given."""
    allowed = rule.allowed[tuple(given.get(column, slice(None)) for column in rule.columns)]
    return Rule(tuple(column for column in rule.columns if column not in given), allowed)
