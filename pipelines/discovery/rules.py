"""By which rules columns are made of what was bought: one value for each version of the closing.

A record names its version and is closed by that one for ever (`record`): a rule that turns out better is a new version
and never a change of an old one. All of it is public and was chosen on other tables than those that are released;
docs/benchmarks.md says on which, and what each version gives.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """What is done with noisy masses along an axis."""

    narrow: float
    """Whole numbers up to so many times the bins have bins of equal length; where there are more, bins go by how many
    rows there are."""
    widened: int
    """A bound is moved outwards again by one in so many parts of its octave or year: noise may hide rows there."""
    hidden: float | None
    """Or by less: by so many times the share of rows that noise can hide beyond it."""
    further: int
    """So many octaves or years beyond the occupied ones are looked at together for rows that thin out. 0: only the next
    one, by itself."""
    both_rounds: bool
    """Whether the coarse sums of both rounds are joined, each by its noise, or the second takes the first one's place.
    """


CLOSINGS = {
    1: Rules(narrow=4, widened=4, hidden=None, further=0, both_rounds=False),
    2: Rules(narrow=1.25, widened=2, hidden=20.0, further=8, both_rounds=True),
}
VERSION = max(CLOSINGS)
"""Of what is bought from now on."""
