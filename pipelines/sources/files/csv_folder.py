"""A folder of CSV files as one table, plain or packed (.csv, .csv.gz, .csv.zst), each of them with a header.

`folder/*.csv` (or `*.csv.gz`, `*.csv.zst`) names those below the folder; the folder alone names all of them. Folders
named `column=value` are columns too (`hive`). Files must have the same columns, in any order. Each is pinned when the
source is first looked at, and is one part, so threads and workers share them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.base import BATCH_ROWS, InParts
from understudy.pipelines.sources.files.csv_file import CsvSource
from understudy.pipelines.sources.files.hive import Constants, constants_of, shared, with_names
from understudy.pipelines.sources.pinning import state_of
from understudy.pipelines.spec.dialect import COMMAS, CsvDialect
from understudy.pipelines.spec.source import CSV_SUFFIXES


@dataclass(frozen=True)
class CsvFile:
    """One file of the folder, and what its path says."""

    file: CsvSource
    constants: Constants

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        values = dict(self.constants)
        held = [name for name in columns if name not in values]
        for batch in self.file.read(held or self.file.schema().names[:1], batch_rows):
            arrays = [
                pa.repeat(pa.scalar(values[name], pa.string()), batch.num_rows)
                if name in values
                else batch.column(held.index(name))
                for name in columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=list(columns))


@dataclass(frozen=True)
class CsvFolderSource(InParts):
    """Files in order of name; `suffix` says which, None all."""

    path: Path
    suffix: str | None = None
    quoted_newlines: bool = False
    dialect: CsvDialect = COMMAS

    def schema(self) -> pa.Schema:
        first = self._parts[0]
        names = first.file.schema().names
        for part in self._parts[1:]:
            if sorted(part.file.schema().names) != sorted(names):
                raise SourceError(
                    f"{part.file.path} has other columns than {first.file.path.name}",
                    "make every file of the folder hold the same columns",
                )
        schema = pa.schema([(name, pa.string()) for name in names])
        return with_names(schema, shared([part.constants for part in self._parts]))

    def parts(self) -> Sequence[CsvFile]:
        self.schema()  # no part is read of files that disagree
        return self._parts

    def snapshot_id(self) -> str:
        return state_of(part.file.pin for part in self._parts)

    @cached_property
    def _parts(self) -> list[CsvFile]:
        found = []
        for path in csv_files(self.path, self.suffix):
            file = CsvSource(path, self.quoted_newlines, self.dialect)
            _ = file.pin  # it travels with the part
            constants = constants_of(path.relative_to(self.path).parts[:-1], file.schema())
            found.append(CsvFile(file, constants))
        if not found:
            raise SourceError(f"the folder {self.path} holds no {self.suffix or '.csv'} file", "check source.uri")
        return found


def csv_files(folder: Path, suffix: str | None = None) -> list[Path]:
    """Those of a folder, in order of name; hidden ones are none."""
    wanted = CSV_SUFFIXES if suffix is None else (suffix,)
    return sorted(
        path
        for path in folder.rglob("*")
        if path.name.lower().endswith(wanted)
        and path.is_file()
        and not any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    )
