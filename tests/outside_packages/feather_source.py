"""Arrow IPC (Feather) files as a source of Understudy: `source.uri: feather:///visits.feather`.

All that a package has to write: this file, and in its pyproject.toml

    [project.entry-points."understudy.sources"]
    feather = "feather_source:FeatherSource"
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from understudy.pipelines.errors import SourceError
from understudy.pipelines.sources.base import BATCH_ROWS, InParts
from understudy.pipelines.sources.pinning import FilePin, state_of
from understudy.pipelines.spec.address import Terms
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.source import SourceSpec


@dataclass(frozen=True)
class FeatherPart:
    """One record batch of the file."""

    path: Path
    index: int

    def read(self, columns: Sequence[str], batch_rows: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
        with _opened(self.path) as file:
            batch = file.get_batch(self.index).select(list(columns))
            for start in range(0, batch.num_rows, batch_rows):
                yield batch.slice(start, batch_rows)


@dataclass(frozen=True)
class FeatherSource(InParts):
    path: Path

    terms = Terms(local=True)

    @classmethod
    def opened(cls, source: SourceSpec, base: Path, spec: ReleaseSpec | None) -> FeatherSource:
        path = source.address.path(base)
        assert path is not None
        return cls(path)

    def schema(self) -> pa.Schema:
        with _opened(self.path) as file:
            return file.schema

    def parts(self) -> Sequence[FeatherPart]:
        with _opened(self.path) as file:
            return [FeatherPart(self.path, index) for index in range(file.num_record_batches)]

    def snapshot_id(self) -> str:
        return state_of([FilePin.of(self.path)])


@contextmanager
def _opened(path: Path) -> Iterator[pa.ipc.RecordBatchFileReader]:
    try:
        with pa.OSFile(str(path)) as bytes_, pa.ipc.open_file(bytes_) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        reason = getattr(error, "strerror", None) or "it is not a complete Feather file"
    else:
        return
    raise SourceError(f"cannot read {path}: {reason}", "check source.uri, or write the file again")
