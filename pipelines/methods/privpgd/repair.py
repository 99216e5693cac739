"""The last word on hard rules: after it, every row obeys every rule, or the rules contradict each other.

Moves of single codes mend nearly all broken rows; a row that needs two changes at once can be out of their
reach. Such a row is replaced by a copy of a sound one, or, where no row is sound, by a row found by search.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from understudy.pipelines.methods.privpgd.constraints import Rule
from understudy.pipelines.methods.privpgd.problem import GenerationError

Int32Array = npt.NDArray[np.int32]

MOST_SEARCH_STEPS = 1_000_000


def broken_rows(codes: Int32Array, rules: Sequence[Rule]) -> npt.NDArray[np.bool_]:
    broken = np.zeros(len(codes), dtype=bool)
    for rule in rules:
        broken |= rule.broken_by(codes)
    return broken


def replace_broken_rows(
    codes: Int32Array, rules: Sequence[Rule], sizes: Sequence[int], rng: np.random.Generator
) -> int:
    """Overwrite rows that break a rule, in place; returns how many there were."""
    broken = broken_rows(codes, rules)
    count = int(broken.sum())
    if count == 0:
        return 0
    sound = np.flatnonzero(~broken)
    if len(sound):
        codes[broken] = codes[rng.choice(sound, size=count)]
        return count
    constrained = sorted({c for rule in rules for c in rule.columns})
    example = find_sound_codes(constrained, rules, sizes, rng)
    for column, code in example.items():
        codes[:, column] = code
    return count


def find_sound_codes(
    constrained: Sequence[int], rules: Sequence[Rule], sizes: Sequence[int], rng: np.random.Generator
) -> dict[int, int]:
    """Codes for the constrained columns that break no rule, by depth-first search in random order."""
    steps = 0

    def extend(chosen: dict[int, int]) -> dict[int, int] | None:
        nonlocal steps
        if len(chosen) == len(constrained):
            return chosen
        column = constrained[len(chosen)]
        for code in rng.permutation(sizes[column]):
            steps += 1
            if steps > MOST_SEARCH_STEPS:
                return None
            trial = {**chosen, column: int(code)}
            complete = [rule for rule in rules if column in rule.columns and trial.keys() >= set(rule.columns)]
            if all(rule.allowed[tuple(trial[c] for c in rule.columns)] for rule in complete):
                found = extend(trial)
                if found is not None:
                    return found
        return None

    found = extend({})
    if found is None:
        raise GenerationError(
            f"no row can obey all rules on columns {tuple(constrained)} at once.", "Remove or relax a rule."
        )
    return found
