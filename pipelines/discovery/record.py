"""One purchase as it is remembered, and the columns that it closes: the same ones for ever.

What is made of a purchase is a function of the stored numbers, of the declaration and of the *version of the closing*
that the record names. Later releases of this program may close new purchases otherwise, under a new version; a record
keeps the one it was bought under, or every later snapshot would have other codes and an old release no domain. Records
that name none are of version 1. `tests/discovery/remembered` holds a purchase of each version and what it closes to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from understudy.pipelines.discovery.closing import Body, Sizes, closed_column
from understudy.pipelines.discovery.found import Found, found_of
from understudy.pipelines.discovery.rules import CLOSINGS, VERSION, Rules
from understudy.pipelines.discovery.sizing import affordable_bins, affordable_values
from understudy.pipelines.errors import LedgerError
from understudy.pipelines.privacy.measurement import Measurement
from understudy.pipelines.spec.open import OpenColumn

CLOSING = "closing"
"""The fact by which a first round names the version of the closing."""


@dataclass(frozen=True)
class Record:
    """A first round and, once it was bought, its second one."""

    first: Measurement
    second: Measurement | None = None

    @cached_property
    def version(self) -> int:
        version = int(self.first.facts.get(CLOSING, 1))
        if version > VERSION:
            raise LedgerError(
                f"what the account remembers of this table was bought by a newer program (closing {version})",
                "use that one, or a newer one",
            )
        return version

    @property
    def rules(self) -> Rules:
        return CLOSINGS[self.version]

    @cached_property
    def columns(self) -> dict[str, OpenColumn]:
        """The columns that were asked about, as they were declared."""
        return {name: OpenColumn.model_validate(declared) for name, declared in self.first.facts["columns"]}

    @cached_property
    def first_found(self) -> dict[str, Found]:
        return {name: found_of(self.first, place, self.rules) for place, name in enumerate(self.columns)}

    @cached_property
    def found(self) -> dict[str, Found]:
        found = dict(self.first_found)
        if self.second is not None:
            for place, (name, _) in enumerate(self.second.facts["columns"]):
                found[name] = found[name].with_more(found_of(self.second, place, self.rules))
        return found

    @cached_property
    def sizes(self) -> Sizes:
        """How fine columns may be, for the number of units that was bought with them."""
        sizing: Mapping[str, Any] = self.first.facts["sizing"]
        units = next((found.units for found in self.first_found.values()), 1.0)
        room = (units, float(sizing["noise"]), int(sizing["columns"]))
        return Sizes(affordable_bins(*room), affordable_values(*room))

    def closed(self, name: str) -> Body:
        """What takes the place of a column that was left open."""
        return closed_column(self.columns[name], self.found[name], self.sizes)
