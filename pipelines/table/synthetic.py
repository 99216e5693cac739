"""A synthetic table beside its domain, coded once for everybody who looks at it."""

from __future__ import annotations

from functools import cached_property

import pyarrow as pa

from understudy.pipelines.table.coding.encode import EncodedBatch, encode
from understudy.pipelines.table.domain import TableDomain


class Synthetic:
    """Rows made from released numbers alone, hence public."""

    def __init__(self, table: pa.Table, domain: TableDomain) -> None:
        self.table = table
        self.domain = domain

    @cached_property
    def codes(self) -> EncodedBatch:
        return encode(self.table, self.domain)
