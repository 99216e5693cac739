"""Which columns a database may be asked to group by."""

from __future__ import annotations

from understudy.pipelines.table.columns import DomainColumn

FEW_CODES = 64
"""Columns of more codes are taken to hold too many distinct raw values to group by."""


def has_few_codes(column: DomainColumn) -> bool:
    """Whether its values are listed, and few."""
    return column.kind in ("category", "boolean") and column.size <= FEW_CODES
