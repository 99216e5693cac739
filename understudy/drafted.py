"""A draft of a spec, from the types of a table's columns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from understudy.pipelines.drafting.draft import Draft


@dataclass(frozen=True)
class Drafted:
    """A draft: `spec` is a mapping for `Synthesizer`, to be corrected first; printed, it is commented YAML."""

    draft: Draft = field(repr=False)

    @property
    def spec(self) -> dict[str, Any]:
        tree = self.draft.tree()
        return {key: value for key, value in tree.items() if key not in ("source", "publish")} | {
            "snapshot": self.draft.snapshot
        }

    @property
    def open(self) -> list[str]:
        """Columns of which nothing is known: what they hold is bought by the first fit, once."""
        return self.draft.standing("open")

    @property
    def guessed(self) -> list[str]:
        """Columns of which only the name suggested something: look at each."""
        return self.draft.standing("guess")

    def __str__(self) -> str:
        from understudy.pipelines.drafting.writing import written

        return written(self.draft)
