"""A source of another package, in one file of under 100 lines: it is found, and it keeps the contract."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.feather
import pytest

from tests.outside import HERE, install_feather
from understudy.pipelines.counting.counting import LocalTable
from understudy.pipelines.errors import SourceError
from understudy.pipelines.privacy.relation import Unit
from understudy.pipelines.sources.identity import source_identity
from understudy.pipelines.sources.opening import open_source
from understudy.pipelines.spec.source import SourceSpec
from understudy.pipelines.table.domain import TableDomain
from understudy.testing.sources import SourceContract
from understudy.testing.tables import COLUMNS, ODD_TEXTS, example, spec_of_columns


class TestFeather(SourceContract):
    odd_texts: ClassVar = (*ODD_TEXTS, "two\nlines", "nothing\0")

    @pytest.fixture(autouse=True)
    def _installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.syspath_prepend(install_feather(tmp_path / "site"))

    def write(self, table: pa.Table, place: Path) -> None:
        pyarrow.feather.write_feather(table, place / "t.feather", chunksize=13)

    def describe(self, place: Path) -> SourceSpec:
        return SourceSpec(uri="feather:///t.feather", snapshot="s")

    def damage(self, place: Path) -> None:
        path = place / "t.feather"
        path.write_bytes(path.read_bytes()[:-500])

    def test_it_is_told_apart_by_its_path(self, place: Path) -> None:
        assert source_identity(self.describe(place), place) == f"file {place.resolve() / 't.feather'}"


def test_its_table_may_not_change_between_two_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The source itself does not look; the pipeline asks it for its snapshot around every pass."""
    monkeypatch.syspath_prepend(install_feather(tmp_path / "site"))
    pyarrow.feather.write_feather(example(50), tmp_path / "t.feather")
    source = open_source(SourceSpec(uri="feather:///t.feather", snapshot="s"), tmp_path)
    table = LocalTable(source, TableDomain.of(spec_of_columns(COLUMNS)), Unit(), b"k")
    table.counts([(0,)])
    pyarrow.feather.write_feather(example(50, seed=1), tmp_path / "t.feather")
    with pytest.raises(SourceError, match="changed while it was read"):
        table.counts([(0,)])
    with pytest.raises(SourceError, match="changed while it was read"):
        list(table.record_batches())


def test_it_is_one_small_file() -> None:
    assert len((HERE / "feather_source.py").read_text().splitlines()) < 100
