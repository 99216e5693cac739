"""Where the private rows are: one small class a kind of source, found by its address among what is installed."""

from __future__ import annotations

from pathlib import Path

from understudy.pipelines.errors import SpecError
from understudy.pipelines.sources.base import Source, SourceKind
from understudy.pipelines.sources.columns import check_columns
from understudy.pipelines.spec.address import Address
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.plugins import SOURCES, is_own, loaded, names
from understudy.pipelines.spec.source import SourceSpec

__all__ = ["Source", "check_columns", "open_source"]

_FIX = (
    "use duckdb:///file.duckdb, sqlite:///file.db, postgresql://user@host/database or mysql://user@host/database with "
    "a table, a Parquet file or directory, or a .csv or .csv.gz file, "
    "also as s3://bucket/path, gs://bucket/path or abfs://container/path; delta:///folder or "
    "iceberg://catalogue with a table; or an .npz or idx file or a folder of pictures"
)
_OPTIONS = {"quoted_newlines": "CSV files", "csv": "CSV files", "external": "views of DuckDB"}


def open_source(source: SourceSpec, base: Path, spec: ReleaseSpec | None = None) -> Source:
    """The source a spec names. Opens nothing yet: what is wrong with the data shows at `schema()`.

    Relative paths, also those of `duckdb:///relative.duckdb`, start at `base`, the spec's directory. `spec` says what
    is declared, for the formats that do not say it themselves: which arrays are one table, how large pictures are.
    """
    kind = kind_of(source.address)
    if kind is None:  # only the scheme is shown: the rest may hold a password
        raise SpecError(
            f"source.uri of the form {source.address.scheme}://... is not a source this version reads", fix()
        )
    for option, what in _OPTIONS.items():
        given = getattr(source, option) != SourceSpec.model_fields[option].default
        if given and option not in kind.terms.options:
            raise SpecError(f"source.{option} is for {what}", f"remove source.{option}")
    if kind.terms.table and source.table is None:
        raise SpecError(f"a source of kind {source.address.kind} needs a table", "name it as source.table")
    if not kind.terms.table and source.table is not None:
        raise SpecError("source.table is for databases; a file is one table", "remove source.table")
    if kind.terms.local and source.address.path(base) is None:
        raise SpecError(f"source.uri of the form {source.address.scheme}://... names no file", fix())
    return kind.opened(source, base, spec)


def kind_of(address: Address) -> SourceKind | None:
    """What reads addresses of this form, if anything installed does."""
    kind: SourceKind | None = loaded(SOURCES, address.kind)
    return kind if kind is not None and kind.terms.accept(address) else None


def place_of(address: Address, base: Path) -> Path | None:
    """The file or folder that a source's address names on this machine, links followed; None where it is another."""
    kind = kind_of(address)
    return None if kind is None else kind.terms.place(address, base)


def fix() -> str:
    """What can be read here."""
    others = [name for name in names(SOURCES) if not is_own(SOURCES, name)]
    return _FIX + (f"; or, by packages installed here, {', '.join(f'{name}://' for name in others)}" if others else "")
