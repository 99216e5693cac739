"""What a source's catalogue says of the types of its columns: public metadata, read without a row.

A database that knows more than Arrow's types (varchar(20), enum) says so by `declared_types`.
"""

from __future__ import annotations

from typing import Any

from understudy.pipelines.table.domain import TableDomain
from understudy.pipelines.table.keeping import kept_types, type_names


def source_types(source: Any) -> dict[str, str]:
    """The types of a source's columns, as `table.keeping` names them; columns of other types are left out."""
    while (inner := getattr(source, "source", None)) is not None:
        source = inner
    if source is None:
        return {}
    declared = getattr(source, "declared_types", None)
    return type_names(source.schema()) if declared is None else dict(declared())


def catalogue_types(source: Any, domain: TableDomain) -> dict[str, str]:
    """The types of the source that published columns keep, by name; those that they would have anyway are left out."""
    found = source_types(source)
    kept, plain = kept_types(domain, found), kept_types(domain, {})
    return {
        name: found[name] if kept[name].labels is None else str(kept[name].sql)  # words that the spec lists alone
        for name in kept
        if name in found and kept[name] != plain[name]
    }
