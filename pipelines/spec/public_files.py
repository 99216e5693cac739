"""Public files that a spec refers to, read when the spec is read: lists of values, tables to look up. Never the source.

What they hold becomes part of the spec, so that no later run depends on a file. A file that is the private table, or
lies in its folder, is refused: its values would be categories and bounds that nobody paid for.
"""

from __future__ import annotations

import csv
import io
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.pipelines.errors import SpecError
from understudy.pipelines.spec.address import Address, is_in

MOST_BYTES = 20_000_000


@dataclass(frozen=True)
class PublicFiles:
    """Files whose paths start at `base`; `private` is where the tables lie, as far as that is on this machine."""

    base: Path
    private: tuple[Path, ...]

    @classmethod
    def of(cls, tree: dict[str, Any], base: Path) -> PublicFiles:
        """For a spec's tree, which nobody has checked yet."""
        tables = tree.get("tables")
        several = [tree, *(tables.values() if isinstance(tables, dict) else ())]
        sources = [each.get("source") for each in several if isinstance(each, dict)]
        uris = [source.get("uri") for source in sources if isinstance(source, dict)]
        found = (_path(uri, base) for uri in uris if isinstance(uri, str))
        return cls(base, tuple(path for path in found if path is not None))

    def text(self, file: str, where: str) -> str:
        path = self.base / file
        reason = ""
        try:
            if any(is_in(path.resolve(), private.resolve()) for private in self.private):
                reason = "it is the private table, or lies in it"
            elif not stat.S_ISREG(path.stat().st_mode) or path.stat().st_size > MOST_BYTES:
                reason = f"it is no file of at most {MOST_BYTES:,} bytes"
            else:
                return path.read_text(encoding="utf-8-sig")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise SpecError(f"{where}: cannot read {path}: {reason}", "name a public file; its path starts at the spec")

    def columns(self, file: str, names: Sequence[str], where: str) -> list[tuple[str, ...]]:
        """The fields of some columns of a CSV file, row by row, without blanks around them; short rows are left out."""
        rows = csv.reader(io.StringIO(self.text(file, where)))
        header = [field.strip() for field in next(rows, [])]
        for name in names:
            if header.count(name) != 1:
                known = ", ".join(header)[:200]
                raise SpecError(f"{where}: {Path(file).name} has no column {name!r}, or several", f"it has {known}")
        places = [header.index(name) for name in names]
        return [tuple(row[place].strip() for place in places) for row in rows if len(row) > max(places)]


def _path(uri: str, base: Path) -> Path | None:
    try:
        return Address.of(uri).path(base)
    except SpecError:  # told when the spec is checked
        return None
