"""Other ways to count all two-way marginals of a table in Parquet, of whole numbers or of texts.

Texts are made codes as fast as each peer can: by the dictionaries of the file for what works on arrays, as an
enumeration in the engines.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from understudy.pipelines.counting.counting import usable_cores


@dataclass(frozen=True)
class Setting:
    """The table to count, and how: threads, a cap on rows an entity, Dask workers."""

    path: Path
    columns: int
    codes: int
    texts: bool = False
    threads: int | None = None
    cap: int | None = None
    workers: int | None = None

    @property
    def names(self) -> list[str]:
        return [f"c{i}" for i in range(self.columns)]

    @property
    def words(self) -> list[str]:
        """What stands for each code in a table of texts."""
        return [f"value {code:03d}" for code in range(self.codes)]

    @property
    def code_type(self) -> type[np.unsignedinteger]:
        return np.uint8 if self.codes <= 256 else np.uint16

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(combinations(range(self.columns), 2))


def columns_of(setting: Setting) -> list[np.ndarray]:
    """Every column whole in memory, as codes of the smallest type."""
    dictionaries = setting.names if setting.texts else None
    table = pq.read_table(setting.path, columns=setting.names, read_dictionary=dictionaries)
    if not setting.texts:
        return [table.column(name).to_numpy() for name in setting.names]
    return [_codes(table.column(name), setting) for name in setting.names]


def _codes(texts: pa.ChunkedArray, setting: Setting) -> np.ndarray:
    words = pa.array(setting.words)
    pieces = []
    for chunk in texts.chunks:
        code_of_entry = pc.index_in(chunk.dictionary, words).to_numpy().astype(setting.code_type)
        pieces.append(code_of_entry[chunk.indices.to_numpy()])
    return np.concatenate(pieces)


def _dense(setting: Setting, first: np.ndarray, second: np.ndarray, counts: np.ndarray) -> np.ndarray:
    table = np.zeros((setting.codes, setting.codes), np.int64)
    table[first, second] = counts
    return table


def _in_duckdb(connection: Any, setting: Setting) -> str:
    """The codes as a query."""
    columns = setting.names
    if setting.texts:
        connection.execute(f"CREATE TYPE word AS ENUM ({', '.join(map(repr, setting.words))})")
        columns = [f"enum_code({name}::word) AS {name}" for name in columns]
    return f"SELECT {', '.join(columns)} FROM '{setting.path}/*.parquet'"


def _duckdb(setting: Setting) -> list[np.ndarray]:
    import duckdb

    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute(f"CREATE TABLE t AS {_in_duckdb(connection, setting)}")
        found = []
        for a, b in setting.pairs:
            grouped = connection.execute(f"SELECT c{a}, c{b}, count(*) AS n FROM t GROUP BY ALL").fetchnumpy()
            found.append(_dense(setting, grouped[f"c{a}"], grouped[f"c{b}"], grouped["n"]))
        return found


def _duckdb_grouping_sets(setting: Setting) -> list[np.ndarray]:
    import duckdb

    names = ", ".join(setting.names)
    sets = ", ".join(f"(c{a}, c{b})" for a, b in setting.pairs)
    with duckdb.connect() as connection:
        connection.execute("SET enable_progress_bar = false")
        table = _in_duckdb(connection, setting)
        query = f"SELECT {names}, count(*) AS n FROM ({table}) GROUP BY GROUPING SETS ({sets})"
        grouped = connection.execute(query).fetchnumpy()
    present = {name: ~np.ma.getmaskarray(grouped[name]) for name in setting.names}
    found = []
    for a, b in setting.pairs:
        rows = present[f"c{a}"] & present[f"c{b}"]
        values = [np.ma.getdata(grouped[name])[rows] for name in (f"c{a}", f"c{b}", "n")]
        found.append(_dense(setting, *values))
    return found


def _polars(setting: Setting) -> list[np.ndarray]:
    import polars as pl

    table = pl.read_parquet(f"{setting.path}/*.parquet", columns=setting.names)
    if setting.texts:
        table = table.select(pl.all().cast(pl.Enum(setting.words)).to_physical())
    lazy = table.lazy()
    queries = [lazy.group_by(f"c{a}", f"c{b}").len() for a, b in setting.pairs]
    return [_dense(setting, *(grouped[:, i].to_numpy() for i in range(3))) for grouped in pl.collect_all(queries)]


def _pandas(setting: Setting) -> list[np.ndarray]:
    import pandas as pd

    table = pd.DataFrame(dict(zip(setting.names, columns_of(setting), strict=True)))
    found = []
    for a, b in setting.pairs:
        grouped = table.groupby([f"c{a}", f"c{b}"]).size()
        first, second = (grouped.index.get_level_values(i).to_numpy() for i in range(2))
        found.append(_dense(setting, first, second, grouped.to_numpy()))
    return found


def _numpy(setting: Setting) -> list[np.ndarray]:
    """One bincount a marginal, threads over marginals: what a careful user writes by hand."""
    columns = columns_of(setting)

    def count(pair: tuple[int, int]) -> np.ndarray:
        cells = columns[pair[0]].astype(np.int64) * setting.codes + columns[pair[1]]
        return np.bincount(cells, minlength=setting.codes**2)

    with ThreadPoolExecutor(usable_cores()) as pool:
        return list(pool.map(count, setting.pairs))


def _mbi(setting: Setting) -> list[np.ndarray]:
    from mbi import Dataset, Domain

    domain = Domain(setting.names, [setting.codes] * setting.columns)
    data = Dataset(dict(zip(setting.names, columns_of(setting), strict=True)), domain)
    return [np.rint(np.asarray(data.project((f"c{a}", f"c{b}")).datavector())) for a, b in setting.pairs]


PEERS: dict[str, Callable[[Setting], list[np.ndarray]]] = {
    "numpy": _numpy,
    "duckdb": _duckdb,
    "polars": _polars,
    "mbi": _mbi,
    "duckdb-grouping-sets": _duckdb_grouping_sets,
    "pandas": _pandas,
}
MODULES = {
    "numpy": "numpy",
    "duckdb": "duckdb",
    "polars": "polars",
    "mbi": "mbi",
    "duckdb-grouping-sets": "duckdb",
    "pandas": "pandas",
}
