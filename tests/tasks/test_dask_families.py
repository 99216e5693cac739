"""Parts of families made by workers of Dask in processes of their own: the same bytes as here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.dask_cluster import dask_cluster
from tests.releasing.test_family_parts import fitted_clinic, made
from tests.trees import clinic
from understudy.pipelines.methods.tree.generating import family_parts
from understudy.pipelines.publishing.part_files import KeptParts
from understudy.pipelines.releasing.making import by_threads
from understudy.pipelines.table.synthetic_tree import tables_of
from understudy.tasks.engines.dask_making import by_dask


def test_workers_make_the_same_families_and_share_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(family_parts, "MOST_ROOTS", 100)
    one = fitted_clinic(tmp_path / "home")
    here = made(one, tmp_path / "here", workers=by_threads)
    (tmp_path / "cluster").mkdir()
    with dask_cluster(tmp_path / "cluster") as cluster:
        there = made(one, tmp_path / "there", workers=by_dask(cluster.address))
    for name, table in tables_of(there).items():
        other = tables_of(here)[name].parts
        assert isinstance(table.parts, KeptParts)
        assert isinstance(other, KeptParts)
        assert len(table.parts) == 3
        assert table.parts.files == other.files


def test_a_spec_of_several_tables_may_ask_for_dask() -> None:
    assert clinic(compute={"engine": "dask"}).hash == clinic().hash
