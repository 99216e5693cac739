"""Folders named `column=value`, as Hive, Spark, DuckDB and Arrow write partitioned datasets: columns in no file.

They are read as text, like those of a CSV file. A column that is in the files is read from there, and one that not
every file's path names is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from urllib.parse import unquote

import pyarrow as pa

_NULL = "__HIVE_DEFAULT_PARTITION__"
Constants = tuple[tuple[str, str | None], ...]


def constants_of(folders: Sequence[str], schema: pa.Schema) -> Constants:
    """The columns that the folders of a file's path hold a value of, but the file itself does not."""
    named = dict(folder.split("=", 1) for folder in folders if not folder.startswith("=") and "=" in folder)
    found = {unquote(name): None if value == _NULL else unquote(value) for name, value in named.items()}
    return tuple((name, value) for name, value in found.items() if name not in schema.names)


def shared(constants: Sequence[Constants]) -> list[str]:
    """The names that all of them have, in the order of the first."""
    sets = [{name for name, _ in each} for each in constants]
    return [name for name, _ in constants[0] if all(name in names for names in sets)]


def with_names(schema: pa.Schema, names: Sequence[str]) -> pa.Schema:
    for name in names:
        schema = schema.append(pa.field(name, pa.string()))
    return schema


def with_constants(
    read: Callable[[list[str]], Iterator[pa.RecordBatch]],
    columns: Sequence[str],
    constants: Constants,
    rows: int,
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """The columns in their order: those of the file as `read` gives them, the others repeated for its rows."""
    values = dict(constants)
    held = [name for name in columns if name not in values]
    if len(held) == len(columns):
        yield from read(held)
        return
    sizes = (min(batch_rows, rows - start) for start in range(0, rows, batch_rows))
    bare = (pa.RecordBatch.from_arrays([pa.nulls(size)], names=[""]) for size in sizes)
    for batch in read(held) if held else bare:
        arrays = [
            pa.repeat(pa.scalar(values[name], pa.string()), batch.num_rows) if name in values else batch.column(name)
            for name in columns
        ]
        yield pa.RecordBatch.from_arrays(arrays, names=list(columns))
