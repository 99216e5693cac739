"""A synthetic table beside its domain, coded once for everybody who looks at it."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from understudy.pipelines.table.coding.encode import EncodedBatch, encode
from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.modelled import modelled


class Synthetic:
    """Rows made from released numbers alone, hence public. `table` is what is published."""

    def __init__(self, table: pa.Table, domain: TableDomain) -> None:
        self.table = table
        self.domain = domain

    @cached_property
    def modelled(self) -> pa.Table:
        """The published rows as the columns that are modelled, taken apart as private rows are."""
        return modelled(self.table, self.domain, self.domain.record_names)

    @cached_property
    def codes(self) -> EncodedBatch:
        return encode(self.modelled, self.domain)
