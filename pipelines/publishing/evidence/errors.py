"""How far groups are off by noise alone: of every column and pair that was measured, for groups of a few sizes.

Nothing private is looked at: the noise of every count is in the manifest. Errors that rounding to bins or fitting the
synthetic rows add are not in these numbers.
"""

from __future__ import annotations

from dataclasses import dataclass

from understudy.pipelines.publishing.manifest import Manifest

GROUPS = (100, 500, 2000)
BY = " x "


@dataclass(frozen=True)
class GroupError:
    """The standard deviation of the count of one group of `query`, and what part of groups of GROUPS it is."""

    query: str
    groups: int
    std: float

    @property
    def relative(self) -> tuple[float, ...]:
        return tuple(self.std / size for size in GROUPS)

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.query.split(BY))


def group_errors(manifest: Manifest) -> list[GroupError]:
    """Of counts by columns that are published, the worst first."""
    published = set(manifest.columns) | {fit.column for fit in manifest.fitness}
    found = [GroupError(fact.query, fact.numbers, fact.std) for fact in manifest.noise]
    known = [error for error in found if all(_of(name) in published for name in error.columns)]
    return sorted(known, key=lambda error: (-error.std, error.query))


def _of(name: str) -> str:
    """The column that a part of it (a moment's month, say) is of."""
    return name.rsplit(".", 1)[0]
