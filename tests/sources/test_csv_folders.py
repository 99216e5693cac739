"""Folders of CSV files, here and in object stores: what names them, what must agree, what the spec must say."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import fsspec
import pytest

from understudy.pipelines.errors import SourceError, SpecError
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.model import ReleaseSpec
from understudy.pipelines.spec.reading import spec_of
from understudy.pipelines.spec.source import SourceSpec


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "a.csv").write_text("x,y\n1,2\n")
    (tmp_path / "t" / "b.csv.gz").write_bytes(gzip.compress(b"y,x\n4,3\n"))
    return tmp_path


@pytest.fixture
def stored() -> str:
    store = fsspec.filesystem("memory")
    store.pipe_file("/folders/t/a.csv", b"x,y\n1,2\n")
    store.pipe_file("/folders/t/b.csv.gz", gzip.compress(b"x,y\n3,4\n"))
    return "memory://folders/t"


def spec(uri: str, relation: str = "add_remove") -> ReleaseSpec:
    tree: dict[str, Any] = {
        "name": "t",
        "source": {"uri": uri, "snapshot": "s"},
        "privacy": {"account": "t", "epsilon": 1, "delta": 1e-6, "relation": relation},
        "columns": {"x": {"type": "integer", "min": 0, "max": 9}},
        "publish": {"to": "releases"},
    }
    return spec_of(tree)


def xs(given: ReleaseSpec, base: Path) -> list[str]:
    source = open_source(given.source, base, given)
    return sorted(value for batch in source.read(["x"]) for value in batch.column("x").to_pylist())


def test_a_folder_is_all_its_files_and_a_star_those_of_one_kind(folder: Path) -> None:
    assert xs(spec("t"), folder) == ["1", "3"]
    assert xs(spec("t/*.csv"), folder) == ["1"]
    assert xs(spec("t/*.csv.gz"), folder) == ["3"]
    with pytest.raises(SourceError, match=r"no \.csv\.zst file"):
        xs(spec("t/*.csv.zst"), folder)


def test_objects_are_named_alike(stored: str, tmp_path: Path) -> None:
    assert xs(spec(stored), tmp_path) == ["1", "3"]
    assert xs(spec(f"{stored}/*.csv"), tmp_path) == ["1"]
    assert xs(spec(f"{stored}/*.csv.gz"), tmp_path) == ["3"]


@pytest.mark.parametrize("uri", ["t", "memory://folders/t"])
def test_where_the_number_of_rows_is_public_the_spec_says_that_lines_are_read(
    folder: Path, stored: str, uri: str
) -> None:
    """A line that is no record vanishes, so a replaced one may change the number of rows: decided from the spec."""
    hidden, named = spec(uri, "replace_one"), spec(f"{uri}/*.csv", "replace_one")
    assert hidden.every_row_counts
    assert not named.every_row_counts
    with pytest.raises(SpecError, match="has to say that they are CSV"):
        xs(hidden, folder)
    assert xs(named, folder) == ["1"]


def test_files_of_other_columns_are_refused(folder: Path) -> None:
    (folder / "t" / "c.csv").write_text("x,z\n1,2\n")
    with pytest.raises(SourceError, match="other columns"):
        xs(spec("t"), folder)


def test_a_file_that_changed_between_two_passes_is_refused(folder: Path) -> None:
    source = open_source(SourceSpec(uri="t", snapshot="s"), folder)
    assert sum(batch.num_rows for batch in source.read(["x"])) == 2
    (folder / "t" / "a.csv").write_text("x,y\n1,2\n5,6\n")
    with pytest.raises(SourceError, match="changed"):
        list(source.read(["x"]))


def test_beside_parquet_files_csv_files_are_not_looked_at(folder: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": ["7"]}), folder / "t" / "p.parquet")
    assert xs(spec("t"), folder) == ["7"]
